"""What asks which of a loader's workers it is in is made for that one, and for no other."""

import json
from pathlib import Path

import pytest
from scripts import run_main

from prebake.demo.daemon import PrivateDaemon

pytestmark = pytest.mark.torch

SCRIPT = """
import json
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
import prebake
torch.manual_seed(1)
class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        print("made", flush=True)
        {asks}
        return torch.tensor([i, of])
def begin(worker):
    get_worker_info().dataset.begun = 1
if __name__ == "__main__":
    wrapped = prebake.wrap(Numbers())
    print(json.dumps([
        [batch.tolist() for batch in DataLoader(wrapped, 2, num_workers=workers, worker_init_fn=begin)]
        for workers in (0, 2, 1, 2, 0)
    ]))
"""
ASKS = {
    "which": "of = info.id if (info := get_worker_info()) else -1",
    "how many": "of = info.num_workers if (info := get_worker_info()) else -1",
    "whether": "of = get_worker_info() is None",
    "seed": "of = info.seed % 1000 if (info := get_worker_info()) else -1",
}


@pytest.mark.parametrize("asks", ASKS)
def test_it_is_what_that_worker_makes(daemon: PrivateDaemon, tmp_path: Path, asks: str) -> None:
    script = SCRIPT.format(asks=ASKS[asks])
    (tmp_path / "main.py").write_text(
        script.replace("wrapped = prebake.wrap(Numbers())", "wrapped = Numbers()")
    )
    expected = run_main(daemon, tmp_path).splitlines()[-1]
    (tmp_path / "main.py").write_text(script)
    for _ in range(3):
        assert run_main(daemon, tmp_path).splitlines()[-1] == expected


def test_what_only_asks_whether_is_shared_by_all_workers(daemon: PrivateDaemon, tmp_path: Path) -> None:
    """As one that opens its files anew in each."""
    (tmp_path / "main.py").write_text(SCRIPT.format(asks=ASKS["whether"]))
    counts = [run_main(daemon, tmp_path).count("made") for _ in range(2)]
    # Here and in a worker; two of each are made again in what is a new world.
    assert counts[0] < 5 * 8
    assert counts[1] <= 4


IN_A_STREAM = """
import json
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
import prebake
def place(i):
    {asks}
    return torch.tensor([i, of])
place = prebake.cached(place)
class Numbers(IterableDataset):
    def __iter__(self):
        yield from map(place, range(4))
if __name__ == "__main__":
    wrapped = prebake.wrap(Numbers())
    print(json.dumps([
        sorted(batch.tolist() for batch in DataLoader(wrapped, 2, num_workers=workers))
        for workers in (0, 2, 1, 2, 0)
    ]))
"""


@pytest.mark.parametrize("asks", [each for each in ASKS if each != "seed"])
def test_a_function_in_a_stream_that_asks_is_made_for_that_worker(
    daemon: PrivateDaemon, tmp_path: Path, asks: str
) -> None:
    script = IN_A_STREAM.format(asks=ASKS[asks])
    uncached = script.replace("wrapped = prebake.wrap(Numbers())", "wrapped = Numbers()")
    (tmp_path / "main.py").write_text(uncached.replace("place = prebake.cached(place)", ""))
    expected = run_main(daemon, tmp_path).splitlines()[-1]
    (tmp_path / "main.py").write_text(script)
    for _ in range(3):
        assert run_main(daemon, tmp_path).splitlines()[-1] == expected


COUNTED = """
import json, sys
import numpy as np
from torch.utils.data import DataLoader, Subset
import prebake
def load(path):
    return np.fromfile(path, np.uint8)
def served(stats):
    return sum(stats[name] for name in ("computed", "reused", "followed", "bypassed"))
if __name__ == "__main__":
    wrapped = prebake.wrap([f"{{n}}.bin" for n in range(16)], [load])
    loader = DataLoader(
        {data}, 4, num_workers=2, persistent_workers={persistent}, multiprocessing_context="{method}"
    )
    seen = []
    for _ in range(3):
        for batch in loader:
            pass
        seen.append(served(wrapped.stats()))
    print(json.dumps({{"seen": seen, **wrapped.stats()}}))
"""


DATA = ["wrapped", "Subset(wrapped, range(16))", "prebake.wrap(Subset(wrapped, range(16)))"]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_workers_read_is_counted(
    daemon: PrivateDaemon, tmp_path: Path, method: str, persistent: bool, data: str
) -> None:
    for n in range(16):
        (tmp_path / f"{n}.bin").write_bytes(bytes([n]) * 5000)
    script = COUNTED.format(method=method, persistent=persistent, data=data)
    (tmp_path / "main.py").write_text(script)
    found = json.loads(run_main(daemon, tmp_path).splitlines()[-1])
    first, second, third = found.pop("seen")
    assert found["computed"] == 16 and first >= 16
    assert (second, third) == (first + 16, first + 32)
