"""A store on loopback, and who asks it for what."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "data"
#: A module that counts what a job makes, out of sight: the count is no part of what is made.
COUNTS = """
import sys
import prebake

made = 0

@prebake.pure
def count(value):
    sys.modules["counts"].made += 1
    return value
"""


class S3:
    """A moto server with a bucket, as the environment's `AWS_ENDPOINT_URL` names it."""

    def __init__(self, port: int) -> None:
        self.server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
        self.server.start()
        self.client = boto3.client("s3")
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, content: bytes) -> str:
        """Makes an object, or overwrites it; its URL."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings: dict[str, Any] = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    store = S3(port)
    yield store
    store.server.stop()
