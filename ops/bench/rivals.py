"""The peers that are compared: file and variant, environment, and which loop of ours each is held against."""

from __future__ import annotations

from dataclasses import dataclass

#: The environment that the benchmark itself runs in.
OWN = "own"


@dataclass(frozen=True)
class Rival:
    """One peer. Its rows are `warm_vs_NAME`, and `warmN_vs_NAME` for more jobs than one."""

    name: str
    #: For people.
    of: str
    #: File of `peers/`, and variant.
    peer: str
    environment: str
    bar: float | None = None
    #: A loader is compared with a loader, a bare loop with a bare loop.
    ours: str = "cached"
    ours_environment: str = OWN
    #: How many jobs read together.
    jobs: tuple[int, ...] = (1,)
    work: str = "raw"
    #: What a pass takes is compared, from the second on, of jobs that are kept.
    steady: bool = False
    #: Has servers of its own.
    serves: bool = False
    #: They listen on every interface: only where there is none but loopback.
    listens: bool = False
    #: All jobs and passes get the same bytes as ours.
    same_bytes: bool = True


EVERY = (1, 2, 4)

RIVALS = (
    Rival("hf", "Hugging Face map, bytes viewed", "hf.bytes", "hf", 2.5, jobs=EVERY),
    Rival("hf_array", "Hugging Face map, Array3D in NumPy's format", "hf.array", "hf"),
    Rival("diskcache", "diskcache, a key for a batch", "disk_cache.batches", "caches", 3.5, jobs=EVERY),
    Rival("diskcache_items", "diskcache, a key for an element", "disk_cache.items", "caches"),
    Rival(
        "tfdata_service",
        "tf.data service, cross-trainer cache",
        "tfdata.service",
        "tf",
        10.0,
        serves=True,
        listens=True,
    ),
    Rival(
        "joblib", "joblib.Memory, a key for a batch, mapped", "joblib_memory.batches", "caches", jobs=EVERY
    ),
    Rival("joblib_items", "joblib.Memory, a key for an element, mapped", "joblib_memory.items", "caches"),
    Rival("redis", "Redis, Unix socket, MGET", "redis_store", "caches", jobs=EVERY, serves=True),
    Rival("webdataset", "webdataset, one tar", "web_dataset", "wds", jobs=(1, 2)),
    Rival("tfdata_cache", "tf.data cache in a file", "tfdata.cache", "tf"),
    Rival("tfdata_snapshot", "tf.data snapshot", "tfdata.snapshot", "tf"),
    Rival("ray", "Ray's object store", "ray_store", "ray", serves=True, listens=True),
    Rival(
        "litdata",
        "litdata's loader / torch's, no workers",
        "lit_data",
        "loaders",
        ours="cached_loader.0",
        ours_environment="loaders",
    ),
    Rival(
        "ffcv",
        "FFCV's loader / torch's, no workers",
        "ffcv_beton",
        "ffcv",
        ours="cached_loader.0",
        ours_environment="loaders",
    ),
    Rival(
        "uncached_loader",
        "torch's loader that decodes, 2 workers / the same loader, wrapped",
        "loader.2",
        "loaders",
        ours="cached_loader.2",
        ours_environment="loaders",
        work="eval",
    ),
    Rival(
        "tensorsocket",
        "TensorSocket, 4 jobs, its random crops shared / 4 jobs with crops of their own",
        "tensor_socket",
        "loaders",
        ours="cached_loader.0",
        ours_environment="loaders",
        jobs=(4,),
        work="train",
        steady=True,
        serves=True,
        listens=True,
        same_bytes=False,
    ),
)
