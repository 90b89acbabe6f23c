"""Objects of S3: known by etag, version and size, whoever reads them and however they are named."""

from __future__ import annotations

import pytest
from conftest import Node
from s3_store import COUNTS, S3

from prebake.reads import object_store

MAIN = """
import json, os, sys, time
import numpy as np
import counts
import prebake
from readers import READERS

task = json.loads(os.environ["PREBAKE_TEST_TASK"])
read = READERS[task["reader"]]
count = counts.count

def decode(url):
    return np.frombuffer(count(read(url)), np.uint8) * 2

class Objects:
    def __init__(self, urls):
        self.urls = urls

    def __len__(self):
        return len(self.urls)

    def __getitem__(self, i):
        return decode(self.urls[i])

urls = task["urls"]
if task["kind"] == "paths":
    ds = prebake.wrap(urls, [decode])
elif task["kind"] == "dataset":
    ds = prebake.wrap(Objects(urls))
elif task["kind"] == "inputs":
    ds = prebake.wrap(Objects(urls), inputs=lambda i: urls[i])
else:
    call = prebake.cached(decode, inputs=["url"]) if task["kind"] == "declared" else prebake.cached(decode)
    ds = None

def epoch():
    found = []
    for i, url in enumerate(urls):
        try:
            value = (ds[i] if ds is not None else call(url)).tobytes().hex()
        except Exception as error:
            value = type(error).__name__
        found.append(value)
    return found

values = []
for _ in range(task.get("epochs", 1)):
    values.append(epoch())
    if "again" in task and len(values) == 1:
        print("paused", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.02)
print(json.dumps({"values": values[-1], "calls": counts.made, "knows": getattr(ds, "knows", "")}))
"""

READERS = """
import boto3, botocore.session, fsspec, s3fs

def by_boto3(url):
    bucket, key = url[len("s3://"):].split("/", 1)
    return boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()

def by_fsspec(url):
    with fsspec.open(url, "rb") as file:
        return file.read()

def by_s3fs(url):
    return s3fs.S3FileSystem().cat_file(url)

READERS = {"boto3": by_boto3, "fsspec": by_fsspec, "s3fs": by_s3fs}
"""

pytest_plugins = ["s3_store"]

KINDS = ["paths", "dataset", "inputs", "declared", "cached"]


def content(i: int, edition: int = 0) -> bytes:
    return bytes([i, edition]) * 20


def expected(*contents: bytes) -> list[str]:
    return [bytes(b * 2 % 256 for b in each).hex() for each in contents]


@pytest.fixture
def job(node: Node) -> Node:
    node.write(main=MAIN, readers=READERS, counts=COUNTS)
    return node


@pytest.mark.parametrize("reader", ["boto3", "fsspec", "s3fs"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_read_once_and_again_when_it_is_overwritten(
    job: Node, s3: S3, kind: str, reader: str
) -> None:
    urls = [s3.put(f"item/{i}", content(i)) for i in range(5)]
    task = {"kind": kind, "reader": reader, "urls": urls}
    first = job.run(**task)
    assert first["values"] == expected(*map(content, range(5))), first["said"]
    assert first["calls"] == 5 and "not cached" not in first["said"]
    second = job.run(**task)
    assert second["values"] == first["values"] and second["calls"] == 0
    s3.put("item/3", content(3, 1))
    third = job.run(**task)
    assert third["values"] == expected(*map(content, range(3)), content(3, 1), content(4))
    assert third["calls"] == 1
    assert job.run(**task)["calls"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_gone_is_the_jobs_own_error(job: Node, s3: S3, kind: str) -> None:
    urls = [s3.put(f"item/{i}", content(i)) for i in range(3)]
    task = {"kind": kind, "reader": "boto3", "urls": urls}
    job.run(**task)
    # The second waits until the function was tried elsewhere, for which the object has to be there.
    job.run(**task)
    s3.client.delete_object(Bucket="data", Key="item/1")
    cached, uncached = job.run(**task), job.run(off=True, **task)
    assert cached["values"] == uncached["values"]
    assert cached["values"][1] == "NoSuchKey" and cached["calls"] == 0
    s3.put("item/1", content(1))
    assert job.run(**task)["values"] == expected(*map(content, range(3)))


@pytest.mark.parametrize("kind", ["paths", "dataset", "cached"])
def test_a_store_that_is_down_is_the_jobs_own_error(job: Node, s3: S3, kind: str) -> None:
    urls = [s3.put(f"item/{i}", content(i)) for i in range(2)]
    task = {"kind": kind, "reader": "boto3", "urls": urls}
    job.run(**task)
    s3.server.stop()
    cached, uncached = job.run(**task), job.run(off=True, **task)
    assert cached["values"] == uncached["values"] == ["EndpointConnectionError"] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_sees_what_was_overwritten_in_the_one_before(job: Node, s3: S3, kind: str) -> None:
    urls = [s3.put(f"item/{i}", content(i)) for i in range(3)]
    task = {"kind": kind, "reader": "boto3", "urls": urls, "epochs": 2, "again": True}
    process = job.start(**task)
    assert process.stdout is not None and process.stdout.readline() == "paused\n"
    s3.put("item/2", content(2, 1))
    (job.folder / "go").touch()
    result = job.finish(process)
    assert result["values"] == expected(content(0), content(1), content(2, 1))
    # The two that are there may be computed again, to compare: a function was not tried elsewhere yet, and
    # the file for which the script looked meanwhile makes this another world.
    assert 4 <= result["calls"] <= 4 + 2


@pytest.mark.parametrize("kind", ["paths", "dataset", "cached"])
def test_versions_of_a_bucket_are_told_apart(job: Node, s3: S3, kind: str) -> None:
    s3.client.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    urls = [s3.put(f"item/{i}", content(i)) for i in range(2)]
    task = {"kind": kind, "reader": "boto3", "urls": urls}
    assert job.run(**task)["calls"] == 2
    assert job.run(**task)["calls"] == 0
    # The same bytes under the same etag are another version.
    s3.put("item/0", content(0))
    assert job.run(**task)["calls"] == 1
    assert job.run(**task)["calls"] == 0


@pytest.mark.parametrize("versioned", [False, True])
def test_many_objects_are_listed_as_they_would_be_asked_for(
    s3: S3, versioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if versioned:
        s3.client.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    urls = [s3.put(f"item/{i}", content(i % 50)) for i in range(object_store.LIST_MIN)]
    s3.put("item/0", content(1))
    s3.client.delete_object(Bucket="data", Key="item/1")
    listed, headed = object_store.Store(), object_store.Store()
    listed.look(urls)
    monkeypatch.setattr(object_store, "LIST_MIN", len(urls) + 1)
    headed.look(urls)
    assert listed.tag(urls[1]) is None and listed.tag(urls[2]) is not None
    assert [listed.tag(url) for url in urls] == [headed.tag(url) for url in urls]
    monkeypatch.setattr(headed, "_headed", lambda each: pytest.fail("asked one by one"))
    monkeypatch.setattr(object_store, "LIST_MIN", 1)
    headed.look(urls[2:], since=float("inf"))


def test_another_endpoint_than_the_settings_name_is_not_shared(job: Node, s3: S3) -> None:
    elsewhere = READERS.replace('boto3.client("s3")', 'boto3.client("s3", endpoint_url=OTHER)').replace(
        "import boto3,",
        f'OTHER = "{s3.client.meta.endpoint_url.replace("127.0.0.1", "localhost")}"\nimport boto3,',
    )
    job.write(readers=elsewhere)
    urls = [s3.put("item", content(0))]
    task = {"kind": "cached", "reader": "boto3", "urls": urls}
    for _ in range(2):
        done = job.run(**task)
        assert done["calls"] == 1 and "R22" in done["said"] and "AWS_ENDPOINT_URL" in done["said"]
