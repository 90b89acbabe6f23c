"""Edits of files: of all that an item may have read."""

from __future__ import annotations

import json
import os

import images
from datasets import LazyIndex
from PIL import Image
from target import Target


def pixel(job: Target) -> None:
    """Another image in the same file."""
    image = Image.open(job.file).convert("RGB")
    image.putpixel((0, 0), (job.numbers.randrange(256),) * 3)
    image.rotate(job.numbers.randrange(90)).save(job.file, quality=95)


def same_size(job: Target) -> None:
    """Other bytes, as many, and the time of the last change put back: only the inode's own time tells."""
    before = job.file.stat()
    content = bytearray(job.file.read_bytes())
    middle = len(content) // 2
    for i in range(middle, middle + 20):
        content[i] = (content[i] + 1) % 250
    job.file.write_bytes(content)
    os.utime(job.file, ns=(before.st_atime_ns, before.st_mtime_ns))


def label(job: Target) -> None:
    """Not where labels are kept from the first item on: a cached run may load none before the edit."""
    if isinstance(job.raw, LazyIndex):
        return
    path = job.folder / images.LABELS
    labels = json.loads(path.read_text())
    labels[job.file.name] = job.numbers.randrange(10**6)
    path.write_text(json.dumps(labels))


def replace(job: Target) -> None:
    """Another file under the same name, in one step."""
    other = job.numbers.choice(job.files)
    new = job.file.with_suffix(".tmp")
    new.write_bytes(other.read_bytes())
    os.replace(new, job.file)


def swap(job: Target) -> None:
    """Two files exchange their contents."""
    other = job.numbers.choice(job.files)
    here, there = job.file.read_bytes(), other.read_bytes()
    job.file.write_bytes(there)
    other.write_bytes(here)


def sidecar(job: Target) -> None:
    """A file beside the image, where some kinds look for one."""
    job.file.with_suffix(".txt").write_text(f"side{job.numbers.randrange(99)}")


def remove_sidecars(job: Target) -> None:
    for path in job.folder.glob("*/*.txt"):
        path.unlink()


def add_file(job: Target) -> None:
    """One that nothing reads, in a folder that may be watched."""
    (job.file.parent / f"note{job.numbers.randrange(9**9)}.txt").write_text("x")


def touch(job: Target) -> None:
    """The same bytes, and another time."""
    os.utime(job.file)
