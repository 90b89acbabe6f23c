"""litdata: chunks that `optimize` writes, read through its own loader (no workers)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import litdata
import torch
from elements import BATCH
from work import Work

import peers

torch.set_num_threads(1)
CHUNK_BYTES = "64MB"


class Peer(peers.Peer):
    """Numbers of the inputs in, tensors out."""

    packages = ("litdata", "torch", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.loader: Any = None

    def fill(self) -> None:
        litdata.optimize(
            fn=self.element,
            inputs=self.work.files,
            output_dir=str(self.place / "chunks"),
            chunk_bytes=CHUNK_BYTES,
            num_workers=1,
        )

    def element(self, path: str) -> Any:
        """What is stored of an input."""
        return {"value": self.work.make(path)}

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        if self.loader is None:
            data = litdata.StreamingDataset(str(self.place / "chunks"), shuffle=False)
            self.loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=0)
        return (batch["value"].numpy() for batch in self.loader)
