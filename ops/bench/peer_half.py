"""Runs the peers' half (`peer_rows.py`) as a process of its own, where there is no network but loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from elements import BATCH
from rows import Row

LOOPBACK = Path(__file__).parents[2] / "client/python/frameworks/ray/loopback.sh"
#: Elements of the warm reads: 150 MB, more than processors cache.
ITEMS = 1_000
PARAGRAPHS = 4_000
#: It takes half of that on two processors.
SECONDS_MAX = 3_600


@dataclass
class PeerHalf:
    """What the peers' half is given. `environments`: Pythons by the names that `rivals.py` has for them."""

    pairs: int
    #: Elements of the row that is held against memmap, as the other rows that are.
    seeds: int
    photographs: list[str]
    environments: dict[str, str]
    text: Path | None
    audio: Path | None

    def rows(self) -> tuple[list[Row], dict[str, str]]:
        """Its rows, and what was not run, by name with the reason."""
        alone = subprocess.run([LOOPBACK, "true"], capture_output=True).returncode == 0
        # A loader that drops what fills no batch would read less than others do.
        whole = len(self.photographs) // BATCH * BATCH or len(self.photographs)
        task = {
            "pairs": self.pairs,
            "items": ITEMS,
            "seeds": self.seeds,
            "paragraphs": PARAGRAPHS,
            "photographs": self.photographs[:whole],
            "environments": self.environments,
            "text": self.text and str(self.text.resolve()),
            "audio": self.audio and str(self.audio.resolve()),
            "alone": alone,
        }
        with tempfile.TemporaryDirectory(prefix="prebake-peers-") as folder:
            given, made = Path(folder) / "task.json", Path(folder) / "rows.json"
            given.write_text(json.dumps(task))
            script = Path(__file__).with_name("peer_rows.py")
            command = [*([LOOPBACK] if alone else []), sys.executable, str(script), str(given), str(made)]
            try:
                subprocess.run(command, timeout=SECONDS_MAX, check=True)
            except subprocess.SubprocessError as error:
                # The other rows are worth their report all the same.
                return [], {"peers": str(error)}
            answer = json.loads(made.read_text())
        return [Row(**row) for row in answer["rows"]], answer["not_run"]
