"""What threads take from the cache for an item, or make for it by a cached function, counts for the item."""

from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

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
