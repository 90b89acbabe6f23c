"""What a stream is answered when it asks: the items of its lists, files, and what its code ran on."""

from __future__ import annotations

import time
from typing import Any

from prebake.encoding.digests import digest
from prebake.execution.ran_names import shown
from prebake.reads import tracked_inputs
from prebake.reads.settled import SETTLED_NS
from prebake.runtime.errors import Refused
from prebake.streams.stream import CONTEXT, Sharing


class Answers:
    """For one run of a stream that goes through `lists`."""

    def __init__(self, lists: dict[str, list[Any]], sharing: Sharing) -> None:
        self._lists, self._sharing = lists, sharing
        self._files: dict[str, tracked_inputs.File] = {}
        self._begun_ns = time.time_ns()

    def answer(self, ask: list[Any]) -> bytes:
        """What is answered, as a digest; empty if a file is being written, which ends the sharing."""
        kind, name, *rest = ask
        if kind == "file":
            stat, content = rest[0] or (None, "")
            hint = tracked_inputs.File(tuple(stat), bytes.fromhex(content)) if stat else None
            found = self._files.get(name) or tracked_inputs.read(name, hint)
            if found is None:
                self._sharing.end()
                return b""
            self._files[name] = found
            return digest(CONTEXT, b"file" + found.content)
        if kind == "ran on":
            return digest(CONTEXT, f"ran on {name} {shown(name)}".encode("utf-8", "surrogatepass"))
        items = self._lists.get(name, [])
        return tracked_inputs.items_digest(items if kind == "whole" else items[rest[0] : rest[1]])

    def hinted(self, ask: list[Any]) -> list[Any]:
        """An ask with what is known of the answer, for who finds the file as it is now."""
        if ask[0] != "file":
            return ask
        file = self._files[ask[1]]
        return [*ask, None if file.stat is None else [file.stat, file.content.hex()]]

    def is_as_read(self, path: str, opened: tracked_inputs.Stat | None) -> bool:
        """Whether a file is, and was when its content was looked at, as it was when the stream opened it."""
        try:
            file = self._files.get(path) or tracked_inputs.read(path)
            now = tracked_inputs.look(path)
        except Refused as refused:
            self._sharing.refuse(refused)
            return False
        if file is None:
            return False
        self._files[path] = file
        settled = now is None or max(now[3], now[4]) < self._begun_ns - SETTLED_NS
        return opened == file.stat == now and settled
