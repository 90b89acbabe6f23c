"""Cases of who asks and who answers, and those that show that a plant is worth something."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from person import Person
from stock import Stock, listens, wait
from trial import Trial

Case = tuple[str, str, list[str]]
ROOT = 0
#: Bytes before each frame of HTTP/2.
FRAME_HEAD = 9


def controls(trial: Trial) -> Iterator[Case]:
    """What is planted would be served, were it the user's own; and what is the user's own is served."""
    stock = trial.stock
    for home, reused in ((stock.honest, "right"), (stock.poison, "planted!")):
        stock.begin(home)
        trial.found = []
        with trial._daemon():
            said = trial._job()
            command, variables = stock.kept()
            done = stock.me.run(*command, **variables)
        served = reused == "right" or any("planted!" in each for each in trial.found)
        found = [] if said.startswith("reused") and served else [f"it is not served: {said}"]
        found += [] if done.out == reused else [f"the command printed {done.out!r}: {done.err[-300:]}"]
        if stock.mark.exists():
            found.append("a stream was run")
        if home == stock.poison and "a stored table asks for" not in trial.said:
            found.append("no stream was met")
        yield f"control: {reused}", said, found


def cases(trial: Trial) -> Iterator[Case]:
    """Another user at the user's daemon, with its modes loosened; root and the user at each other's."""
    stock = trial.stock
    stock.begin(stock.honest)
    trial.found = []
    with trial._daemon():
        _loosen(stock)
        for who in (stock.other, Person(ROOT, stock.base / "jobs")):
            name = "root" if who.uid == ROOT else "other"
            for what, (command, variables) in _asked(stock).items():
                done = who.run(*command, **variables)
                yield (
                    f"{name} at the user's daemon, {what}",
                    *_told(what, done.out, done.err, done.code, done.hung),
                )
            yield f"{name} at the user's daemon, by hand", *_by_hand(stock, who)
    stock.begin(stock.honest)
    yield from _roots(trial)


def _asked(stock: Stock) -> dict[str, tuple[list[object], dict[str, str]]]:
    return {
        "job": stock.job(),
        "status": stock.command("status"),
        "explain": stock.command("explain"),
        "gc": stock.command("gc", "--to", "0"),
        "run": stock.kept(),
    }


def _told(what: str, out: str, err: str, code: int, hung: bool) -> tuple[str, list[str]]:
    found = ["it hangs"] if hung else []
    if what in ("job", "run"):
        if code or "right" not in out:
            found.append(f"it failed: {err[-200:]}")
        if "replayed" in err or '"reused": 0' not in out and what == "job":
            found.append("it was served")
    elif not code:
        found.append(f"it was answered: {out[:100]}")
    return err.strip().splitlines()[-1][-90:] if err.strip() else "nothing said", found


def _by_hand(stock: Stock, who: Person) -> tuple[str, list[str]]:
    """Bytes that no client of ours would send: who asks is not asked by the client here."""
    answers = {}
    for name in ("metrics.sock", "prebake.sock", "data.sock"):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.setgroups([])
            os.setresgid(who.uid, who.uid, who.uid)
            os.setresuid(who.uid, who.uid, who.uid)
            os.write(writing, _said(f"{stock.cache}/{name}", name))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            answers[name] = answer.read()
        os.waitpid(child, 0)
    said = ", ".join(f"{name} {len(answer)} bytes" for name, answer in answers.items())
    found = ["metrics.sock tells its counters"] if b"prebake_" in answers["metrics.sock"] else []
    if any(kind == 0 for kind in _kinds(answers["prebake.sock"])):
        found.append("prebake.sock tells its status")
    # Root sees whatever there is.
    return said, found if who.uid != ROOT else []


def _kinds(answer: bytes) -> Iterator[int]:
    """Of the frames of an answer that hold anything. Zero is what was asked for."""
    while len(answer) > FRAME_HEAD:
        length = int.from_bytes(answer[:3], "big")
        if length:
            yield answer[3]
        answer = answer[FRAME_HEAD + length :]


#: Connection preface of HTTP/2, settings, and a request for the status.
_PATH = b"/prebake.v1.Control/Status"


def _headers() -> bytes:
    fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", _PATH), (b":authority", b"x"))
    fields += ((b"content-type", b"application/grpc"), (b"te", b"trailers"))
    block = b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in fields)
    return _frame(1, 4, 1, block) + _frame(0, 1, 1, b"\0" * 5)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _said(path: str, name: str) -> bytes:
    kind = socket.SOCK_SEQPACKET if name == "data.sock" else socket.SOCK_STREAM
    asked = {
        "metrics.sock": b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "prebake.sock": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"") + _headers(),
        "data.sock": b"\0" * 16,
    }[name]
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.settimeout(1.0)
        answer = b""
        with contextlib.suppress(OSError):
            client.connect(path)
            client.sendall(asked)
            while part := client.recv(65_536):
                answer += part
    return answer


def _loosen(stock: Stock) -> None:
    stock.cache.chmod(0o777)
    for each in stock.cache.glob("*.sock"):
        each.chmod(0o777)


def _roots(trial: Trial) -> Iterator[Case]:
    """A daemon that root runs: closed to the user as it is, and trusted by him if it is opened to him."""
    stock = trial.stock
    root = Person(ROOT, stock.base / "jobs")
    folder = stock.base / "r"
    daemon = stock.serve(root, folder)
    try:
        wait(lambda: listens(folder), "root's daemon listens")
        for loose in (False, True):
            if loose:
                folder.chmod(0o755)
                for each in folder.glob("*.sock"):
                    each.chmod(0o777)
            trial.found = []
            command, variables = stock.job(folder=folder)
            done = stock.me.run(*command, **variables)
            right = not done.code and '"right": true' in done.out
            found = [] if right else [f"the job failed: {done.err[-200:]}"]
            found += ["it hangs"] if done.hung else []
            if not loose and "another user" not in done.err:
                found.append(f"it is not told why: {done.err[-200:]}")
            said = (done.err.strip() or "served").splitlines()[-1][-90:]
            yield f"the user at root's daemon{', opened to all' if loose else ''}, job", said, found
    finally:
        daemon.terminate()
        daemon.wait()
