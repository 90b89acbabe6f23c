"""What threads take from the cache for an item, or make for it by a cached function, counts for the item."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon
from prebake.watched.watched import Watched

MAIN = """
import concurrent.futures as cf, threading
import prebake
@prebake.cached
def inner(path):
    with open(path) as file:
        return file.read()
def both(i):
    HOW
class D:
    def __len__(self): return 4
    def __getitem__(self, i): return both(i)
FRONT
"""
HOW = {
    "a pool": "with cf.ThreadPoolExecutor(2) as pool:\n        "
    "return list(pool.map(inner, [f'{i}.txt', '0.txt']))",
    "a thread": "found = []\n    thread = threading.Thread(target=lambda: found.append(inner(f'{i}.txt')))\n"
    "    thread.start()\n    thread.join()\n    return found",
}
FRONTS = {
    "data set": "ds = prebake.wrap(D())\nprint([ds[i] for i in range(4)])",
    "function": "both = prebake.cached(both)\nprint([both(i) for i in range(4)])",
    "stream": "@prebake.cached\ndef each():\n    yield from map(both, range(4))\nprint(list(each()))",
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("warm", [False, True])
def test_an_edited_file_is_seen(
    daemon: PrivateDaemon, tmp_path: Path, how: str, front: str, warm: bool
) -> None:
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text(str(i))
    main = MAIN.replace("HOW", HOW[how]).replace("FRONT", FRONTS[front])
    if warm:
        alone = main.replace(FRONTS[front], "print([inner(f'{i}.txt') for i in range(4)])")
        (tmp_path / "main.py").write_text(alone)
        run_main(daemon, tmp_path)
    (tmp_path / "main.py").write_text(main)
    expected = run_main(daemon, tmp_path)
    for edited in ("9", "8"):
        assert run_main(daemon, tmp_path) == expected
        (tmp_path / "0.txt").write_text(edited)
        seen = run_main(daemon, tmp_path)
        assert seen == expected.replace(f"'{expected[3]}'", f"'{edited}'")
        expected = seen


def test_threads_that_both_find_further_files_have_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def made(watched: Watched, entries: Any) -> Any:
        both.wait(10)
        return object()

    monkeypatch.setattr(Watched, "_client", made)
    watched: Any = object.__new__(Watched)
    watched._further = watched._runs = None
    with ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(watched._further_client) for _ in range(2)]
        assert first.result() is second.result() is watched._further_client()
