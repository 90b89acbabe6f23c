"""tf.data: `cache` in a file, `snapshot`, and `service`, which shares by its cross-trainer cache."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from elements import BATCH, SHAPE
from work import Work

import peers

tf.config.set_visible_devices([], "GPU")


class Peer(peers.Peer):
    """A graph of its own operations, as the service asks for: the inputs are the elements' bytes."""

    packages = ("tensorflow-cpu", "numpy")

    def __init__(self, work: Work, place: Path, variant: str) -> None:
        super().__init__(work, place, variant)
        data = tf.data.Dataset.from_tensor_slices(work.files)
        data = data.map(_element, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
        if variant == "cache":
            data = data.cache(str(place / "cache"))
        elif variant == "snapshot":
            data = data.snapshot(str(place / "snapshot"), compression=None)
        else:
            service = tf.data.experimental.service
            data = data.repeat().apply(
                service.distribute(
                    processing_mode=service.ShardingPolicy.OFF,
                    service=f"grpc://{(place / peers.ADDRESS).read_text()}",
                    job_name="job",
                    compression=None,
                    cross_trainer_cache=service.CrossTrainerCache(trainer_id=str(os.getpid())),
                )
            )
        self.data = data.prefetch(2)
        # Of the service it is one endless stream, which passes follow each other in.
        self.stream = iter(self.data) if variant == "service" else None

    def fill(self) -> None:
        # The service keeps what one job has read for the others, which read as much again.
        for _ in range(peers.PASSES):
            super().fill()

    def epoch(self, order: list[int] | None) -> Iterable[Any]:
        if self.stream is None:
            return (batch.numpy() for batch in self.data)
        return (next(self.stream).numpy() for _ in range(0, len(self.work.files), BATCH))


def _element(path: Any) -> Any:
    return tf.ensure_shape(tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), SHAPE), SHAPE)


def serve(work: Work, place: Path) -> None:
    """A dispatcher and one worker."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[-1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address, port=0))
    (place / "starting").write_text(address)
    (place / "starting").rename(place / peers.ADDRESS)
    signal.pause()
    del worker
