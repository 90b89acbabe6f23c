"""One case: something of another's is in its place at some moment, and what comes of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from person import HANG_SECONDS, Done
from plants import FORMS, Place, World, find
from stock import Stock, listens

MOMENTS = ("starting", "running", "connecting", "autostart", "status", "explain", "run")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: How the programs name a refusal.
_CODE = re.compile(
    r"not-ours|locked|newer|config|corrupt|daemon-absent|folder|run by user \d+|belongs to another user"
    r"|does not start|Too many levels|Not a directory|Is a directory|No such device|no daemon"
    r"|Connection refused"
)


class Trial:
    """The cases, one after the other, over the same stock."""

    def __init__(self, stock: Stock, world: World) -> None:
        self.stock = stock
        self.world = world

    def run(self, place: Place, form: str, moment: str) -> tuple[str, list[str]]:
        """What came of a case in words, and what must not have."""
        self.found: list[str] = []
        self.stock.begin(self.stock.honest)
        path = find(self.world.home, place.path)
        self._before = self._others()
        said = getattr(self, f"_{'command' if moment in MOMENTS[4:] else moment}")(place, form, path, moment)
        self.stock.me.end_all()
        if self.stock.mark.exists():
            self.found.append("a stream of the other's was run")
        for name in self._others().keys() - self._before.keys():
            self.found.append(f"{name.removeprefix(str(self.stock.base))} was made")
            Path(name).unlink(missing_ok=True)
        for name, state in self._before.items():
            if self._state(Path(name)) != state:
                self.found.append(f"{name.removeprefix(str(self.stock.base))} was changed")
        return said, self.found

    def _plant(self, place: Place, form: str, path: Path) -> None:
        FORMS[form](self.world, place, path)
        # In his own folder the user may remove what is the other's. A folder of the other's stays as it is.
        whole = place.path == "c" and path.is_dir() and not path.is_symlink()
        inner = [path, *path.rglob("*")] if whole else []
        self._before |= {
            str(each): self._state(each) for each in inner if each.lstat().st_uid == self.world.other
        }

    def _others(self) -> dict[str, object]:
        watched = [self.world.planted, self.world.precious]
        return {str(each): self._state(each) for top in watched for each in (top, *top.rglob("*"))}

    @staticmethod
    def _state(path: Path) -> object:
        try:
            found = path.lstat()
        except OSError:
            return "gone"
        content = b""
        if stat.S_ISREG(found.st_mode):
            content = hashlib.sha256(path.read_bytes()).digest()
        return found.st_mode, found.st_uid, found.st_ino, content

    def _starting(self, place: Place, form: str, path: Path, moment: str) -> str:
        self._plant(place, form, path)
        with self._daemon() as said:
            return f"{said}; {self._job()}" if said == "starts" else said

    def _running(self, place: Place, form: str, path: Path, moment: str) -> str:
        with self._daemon() as said:
            if said != "starts":
                self.found.append(f"the honest daemon does not start: {said}")
                return said
            self._plant(place, form, path)
            return self._job()

    def _connecting(self, place: Place, form: str, path: Path, moment: str) -> str:
        self._plant(place, form, path)
        return self._job()

    def _autostart(self, place: Place, form: str, path: Path, moment: str) -> str:
        self._plant(place, form, path)
        return self._job(autostart=True)

    def _command(self, place: Place, form: str, path: Path, moment: str) -> str:
        self._plant(place, form, path)
        command, variables = self.stock.kept() if moment == "run" else self.stock.command(moment)
        done = self.stock.me.run(*command, **variables)
        self._ended(done, f"prebake {moment}")
        if "planted!" in done.out + done.err:
            self.found.append("it printed what the other planted")
        if moment == "run":
            if (done.code, done.out) != (0, "right") and not done.hung:
                self.found.append(f"the command was not run: {done.code} {done.out!r} {done.err[-200:]!r}")
            return "replayed" if "replayed" in done.err else f"run; {_code(done.err)}"
        return f"{'answers' if not done.code else 'refused'}; {_code(done.err)}"

    @contextlib.contextmanager
    def _daemon(self) -> Iterator[str]:
        """The user's daemon: that it starts, or why not."""
        process = self.stock.serve(self.stock.me, self.stock.cache, "--config", self.stock.config)
        deadline = time.monotonic() + HANG_SECONDS
        try:
            while process.poll() is None and not (self._serves(process.pid) and listens(self.stock.cache)):
                if time.monotonic() > deadline:
                    self.found.append("the daemon hangs")
                    yield "hangs"
                    return
                time.sleep(0.02)
            if process.poll() is None:
                yield "starts"
            else:
                assert process.stdout and process.stderr, "they were asked for"
                yield f"refused: {_code(process.stdout.read() + process.stderr.read())}"
        finally:
            process.terminate()
            with contextlib.suppress(Exception):
                process.wait(HANG_SECONDS)
            if process.poll() is None:
                self.found.append("the daemon does not end")
                process.kill()
                process.wait()

    def _serves(self, pid: int) -> bool:
        """Whether the daemon itself has bound its sockets: others' may be there before."""
        name = f"{self.stock.cache}/prebake.sock"
        with contextlib.suppress(OSError):
            listening = {
                line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines() if name in line
            }
            held = {os.readlink(each)[8:-1] for each in Path(f"/proc/{pid}/fd").iterdir()}
            return bool(listening & held)
        return False

    def _job(self, autostart: bool = False) -> str:
        command, variables = self.stock.job(autostart=autostart)
        done = self.stock.me.run(*command, **variables)
        #: What the job printed besides its values.
        self.said = done.err
        self._ended(done, "the job")
        if done.hung:
            return "hangs"
        if done.code:
            self.found.append(f"the job failed: {done.err[-300:]}")
            return "failed"
        answer = json.loads(done.out)
        if not answer["right"]:
            self.found.append(f"the job was served {answer['firsts']}")
        if answer["reused"]:
            return f"reused {answer['reused']}"
        return f"computed; {_code(done.err)}"

    def _ended(self, done: Done, what: str) -> None:
        if done.hung:
            self.found.append(f"{what} hangs")


def _code(text: str) -> str:
    """The first refusal that a text names, else its last line."""
    text = _COLOUR.sub("", text)
    found = _CODE.search(text)
    lines = text.strip().splitlines()
    return found[0] if found else lines[-1][-90:] if lines else "nothing said"
