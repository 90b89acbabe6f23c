"""A loader that gives up on its workers never does so for what Prebake finds out in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from prebake.demo.daemon import PrivateDaemon

pytestmark = pytest.mark.torch

#: Imports that take long, in a probe as in a job of some size.
SLOW = """
import os, time
if "PREBAKE_PROBE" in os.environ:
    time.sleep(float(os.environ["PREBAKE_TEST_SECONDS"]))

def double(x):
    return 2 * x
"""
MAIN = """
    import json, sys, time
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset
    import prebake, slow

    class Numbers(Dataset):
        def __len__(self):
            return 24
        def __getitem__(self, i):
            return torch.tensor([slow.double(i)])

    class Stream(IterableDataset):
        def __iter__(self):
            for i in range(24):
                yield torch.tensor([slow.double(i)])

    if __name__ == "__main__":
        kind, how, timeout, seconds = sys.argv[1:]
        data = prebake.wrap({"items": Numbers, "stream": Stream}[kind]())
        loader = DataLoader(data, 4, num_workers=1, timeout=float(timeout), multiprocessing_context=how,
                            persistent_workers=True)
        found = []
        for _ in range(3):
            found.append([int(each) for batch in loader for each in batch])
            time.sleep(float(seconds))
        print(json.dumps(found))
    """
#: A spawned worker has to import torch within it.
TIMEOUTS = {"fork": 3, "spawn": 20}


@pytest.mark.parametrize(("kind", "how"), [("items", "fork"), ("stream", "fork"), ("items", "spawn")])
def test_a_probe_takes_longer_than_the_loader_waits(
    daemon: PrivateDaemon, tmp_path: Path, kind: str, how: str
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "main.py").write_text(textwrap.dedent(MAIN))
    environment = {
        **os.environ,
        "PREBAKE": "on",
        "PREBAKE_DIR": str(daemon.folder / "cache"),
        "PREBAKE_TEST_SECONDS": str(TIMEOUTS[how] + 3),
    }
    seconds = 12 if how == "fork" else 0
    done = subprocess.run(
        [sys.executable, "main.py", kind, how, str(TIMEOUTS[how]), str(seconds)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [[2 * i for i in range(24)]] * 3
    if (kind, how) == ("items", "fork"):
        # What the probe found is taken up: later epochs are shared, and each element is stored once. What
        # items read is stored too, and counts as none.
        assert daemon.metrics()['prebake_elements_total{outcome="miss"}'] == 24
