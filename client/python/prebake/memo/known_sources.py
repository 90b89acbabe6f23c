"""What sources of the user's say, as an earlier process found it: an entry of the daemon, by their content.

To parse them takes a millisecond for some fifty lines in a process that has parsed nothing yet, for which a
job's first batch would wait. To ask takes half of one, however many there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from prebake.codec import values
from prebake.encoding.digests import digest
from prebake.identity import graph
from prebake.leases.client import found_once
from prebake.runtime import daemon
from prebake.world import opened

#: What is found in a source in another way is another version.
CONTEXT = "prebake 2026 sources v4"
#: Bytes of sources that are parsed as soon as the daemon would answer.
ASKED_FROM = 1000


def known(texts: Sequence[bytes]) -> Any:
    """What was stored of these sources; None if nothing was, or they are so short that none is asked."""
    connection = daemon.current()
    if connection is None or connection.pid != os.getpid() or sum(map(len, texts)) < ASKED_FROM:
        return None
    try:
        items = _entry(connection.plan_once, texts)
        found = items.stored(0) if items is not None and items.locate([0]) else None
        return None if found is None else json.loads(values.decode(found[1], found[0]))
    except daemon.native().Error as error:
        daemon.failed(error)
    except Exception:
        # They are parsed, as if nothing was there.
        return None
    return None


def store(texts: Sequence[bytes], found: Any) -> None:
    """Has it known to all jobs from now on what these sources say: anything that JSON can tell."""
    # To store anything ends what counts as setting the process up.
    if daemon.current() is None or not opened.is_set_up() or sum(map(len, texts)) < ASKED_FROM:
        return
    said = json.dumps(found).encode()
    # Whoever describes something goes on without.
    with contextlib.suppress(Exception):
        found_once(lambda job: _entry(job.plan, texts), lambda: said)


def _entry(plan: Any, texts: Sequence[bytes]) -> Any:
    collection = plan(graph.chain([graph.arguments(), graph.named_step("prebake.sources")]))
    if collection.bypass:
        return None
    # The interpreter's, since each has a grammar of its own.
    parts = [sys.version.encode(), *texts]
    lengths = ",".join(str(len(part)) for part in parts).encode()
    return collection.call("sources", digest(CONTEXT, b"\0".join([lengths, *parts])), [])
