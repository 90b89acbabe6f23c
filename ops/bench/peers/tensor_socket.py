"""TensorSocket: one producer loads and augments for all jobs, which get the same batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from elements import BATCH
from tensorsocket import TensorConsumer, TensorProducer
from torch.utils.data import ConcatDataset, DataLoader
from work import Work

import peers
from peers.loader import Made

#: As many as there are processors on a small machine; its producer is one process besides.
WORKERS = 2
#: Batches ahead: fewer than a pass has, so that passes after the first are of what was made meanwhile.
AHEAD = 2
#: Batches of its loader in one that is sent. One is more than it can do: it looks for more before it sends.
PARTS = 2
#: It loses the last batch of each of its own passes, which therefore go over the data several times.
REPEATS = 4


class Tuples(Made):
    """It sends tuples of tensors."""

    def __getitem__(self, i: int) -> Any:
        return (super().__getitem__(i),)


class Peer(peers.Peer):
    """A consumer: the order is the producer's."""

    packages = ("tensorsocket", "torch", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        self.consumer = TensorConsumer(batch_size=BATCH)

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        return (batch[0].numpy() for batch in self.consumer)


def serve(work: Work, place: Path) -> None:
    """The producer, on its own ports; passes without an end."""
    torch.set_num_threads(1)
    loader = DataLoader(
        ConcatDataset([Tuples(work)] * REPEATS),
        batch_size=BATCH // PARTS,
        shuffle=True,
        num_workers=WORKERS,
        persistent_workers=True,
        drop_last=True,
    )
    producer = TensorProducer(loader, consumer_max_buffer_size=AHEAD, producer_batch_size=PARTS)
    (place / peers.ADDRESS).touch()
    while True:
        for _ in producer:
            pass
