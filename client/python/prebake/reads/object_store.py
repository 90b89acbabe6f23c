"""Objects of S3 that items read, known by what the store says of them: URL, etag, version and size.

What is asked is asked once per epoch for all objects, with the process's own settings (`AWS_ENDPOINT_URL`,
credentials): in listings where many lie below one prefix, else by a HEAD each, several at a time. What a fill
gets through botocore or aiobotocore (boto3, s3fs, fsspec) is heard of with the etag of the very answer
(`store_clients.py`): only what was read as the key has it is stored.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from prebake.runtime import store_clients
from prebake.runtime.daemon import native
from prebake.runtime.errors import warn_once

SCHEMES = ("s3://", "s3a://")
#: What all of them begin with.
SCHEME = "s3"
#: HEADs at a time: each waits for the network some 20 ms.
HEADS_MAX = 32
#: From so many objects of a bucket on, a listing of a thousand in one answer is cheaper.
LIST_MIN = 100
#: Answers of a listing beyond those that the objects would fill: so much else may lie below their prefix.
LIST_SLACK = 10
LIST_ANSWER = 1000
#: A store that does not answer must not hold up the job, which may have better luck itself.
CONNECT_SECONDS_MAX, READ_SECONDS_MAX = 5, 20


class Object(NamedTuple):
    """Where an object lies; `version` is empty for the latest."""

    bucket: str
    key: str
    version: str

    @classmethod
    def of(cls, url: str) -> Object:
        """The object of an `s3://bucket/key` or `s3://bucket/key?versionId=...`."""
        path, _, query = url.partition("?versionId=")
        bucket, _, key = path.split("://", 1)[1].partition("/")
        return cls(bucket, key, query)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.key}" + (f"?versionId={self.version}" if self.version else "")


def is_object(path: Any) -> bool:
    """Whether a path is an object's URL."""
    return type(path) is str and path.startswith(SCHEMES)


def absolute(paths: list[Any]) -> Any:
    """The paths of a list for native items, if each is surely an absolute one, and no object; else None."""
    module = native()
    return None if module is None else module.files(paths)


def are_files(paths: list[Any]) -> bool:
    """Whether a list is certainly of nothing but texts that name files. Of a million, asking each is half a
    second."""
    module = native()
    return module is not None and module.texts_without(paths, SCHEME)


def objects(paths: list[Any]) -> dict[int, str]:
    """Those of a list that are objects' URLs, by their place."""
    return {} if are_files(paths) else {i: path for i, path in enumerate(paths) if is_object(path)}


def tag(answer: dict[str, Any]) -> str | None:
    """Etag, version and size, from an answer or a line of a listing; None if there is no etag."""
    whole = str(answer.get("ContentRange", "")).rpartition("/")[2]
    size = whole or answer.get("ContentLength", answer.get("Size"))
    version = answer.get("VersionId") or "null"
    return f"{answer['ETag']} {version} {size}" if answer.get("ETag") and size is not None else None


class Store:
    """What was learned of objects in this process, by URL; None of those that cannot be known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tags: dict[str, str | None] = {}
        #: When each was asked for, by the monotonic clock.
        self._asked: dict[str, float] = {}
        self._client: Any = None

    def forked(self) -> None:
        """In a child: the lock may be held by a thread that is not here, and connections are the parent's."""
        self._lock = threading.Lock()
        self._client = None

    def tag(self, url: str) -> str | None:
        return self._tags.get(Object.of(url).url)

    def look(self, urls: Iterable[str], since: float = 0.0) -> None:
        """Asks for those that were not asked for since then (`time.monotonic`)."""
        wanted = {each.url: each for each in map(Object.of, urls)}
        wanted = {url: each for url, each in wanted.items() if self._asked.get(url, -1.0) < since}
        if not wanted:
            return
        # It takes 5 ms, and most jobs read no objects.
        from concurrent.futures import ThreadPoolExecutor

        now = time.monotonic()
        buckets = defaultdict(list)
        for each in wanted.values():
            buckets[each.bucket].append(each)
        found: dict[str, str | None] = {}
        try:
            for bucket, objects in buckets.items():
                with store_clients.own():
                    found |= self._listed(bucket, objects) if len(objects) >= LIST_MIN else {}
            left = [each for url, each in wanted.items() if url not in found]
            with ThreadPoolExecutor(min(HEADS_MAX, len(left) or 1)) as pool:
                found |= zip((each.url for each in left), pool.map(self._headed, left), strict=True)
        except Exception as error:
            # No client, or no settings for one.
            warn_once("objects", f"not cached: the store cannot be asked ({type(error).__name__}: {error})")
        with self._lock:
            self._tags.update({url: found.get(url) for url in wanted})
            self._asked.update(dict.fromkeys(wanted, now))

    def endpoint(self) -> str:
        """Where the process's settings lead."""
        return str(self.client().meta.endpoint_url)

    def client(self) -> Any:
        """A client of the process's settings."""
        with self._lock:
            if self._client is None:
                import botocore.config
                import botocore.session

                config = botocore.config.Config(
                    connect_timeout=CONNECT_SECONDS_MAX,
                    read_timeout=READ_SECONDS_MAX,
                    retries={"total_max_attempts": 2},
                    max_pool_connections=HEADS_MAX,
                )
                self._client = botocore.session.get_session().create_client("s3", config=config)
            return self._client

    def _headed(self, each: Object) -> str | None:
        version = {"VersionId": each.version} if each.version else {}
        try:
            with store_clients.own():
                return tag(self.client().head_object(Bucket=each.bucket, Key=each.key, **version))
        except Exception:
            # Deleted, forbidden, or the store is down: the job finds out itself.
            return None

    def _listed(self, bucket: str, objects: Sequence[Object]) -> dict[str, str | None]:
        """Those of the objects that a listing of what they have in common shows."""
        wanted = {each.key: each.url for each in objects if not each.version}
        prefix = os.path.commonprefix(list(wanted))
        found: dict[str, str | None] = {}
        pages = self.client().get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
        try:
            for number, page in enumerate(pages):
                for line in page.get("Versions", ()):
                    if line.get("IsLatest") and line["Key"] in wanted:
                        found[wanted[line["Key"]]] = tag(line)
                if len(found) == len(wanted) or number > len(wanted) / LIST_ANSWER + LIST_SLACK:
                    break
        except Exception:
            # It may be forbidden; one by one it may not.
            return found
        return found


store = Store()
os.register_at_fork(after_in_child=store.forked)


def unknown(url: str) -> str:
    """A file that is not there: what reads it is computed by the job, and not stored."""
    return f"/dev/null/{url}"
