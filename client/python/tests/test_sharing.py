"""Jobs that share a cache: work is done once, split among them, and only what changed is done again."""

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import Jobs, make_images, settle
from PIL import Image


def test_a_second_job_reuses_everything(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    first = jobs.run(images)
    assert first["digests"] == plain["digests"] and first["computed"] == len(images)
    second = jobs.run(images, shuffle=3)
    assert second["digests"] == plain["digests"] and second["reused"] == len(images)
    assert jobs.decodes() == len(images)


def test_items_one_by_one_are_the_same(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    assert jobs.run(images, by_item=True)["digests"] == plain["digests"]
    assert jobs.run(images, by_item=True)["digests"] == plain["digests"]
    assert jobs.decodes() == len(images)


@pytest.mark.parametrize("shuffled", [False, True], ids=["same order", "own orders"])
def test_cold_jobs_split_the_work(jobs: Jobs, tmp_path: Path, shuffled: bool) -> None:
    images = make_images(tmp_path / "images", 160)
    plain = jobs.uncached(images)
    # All wait after one decode, so that none is done before the last has started.
    tasks = [{"pause_after": 1, **({"shuffle": seed} if shuffled else {})} for seed in range(4)]
    started = [jobs.start(images, **task) for task in tasks]
    for job in started:
        job.wait_for_pause()
    for job in started:
        job.go_on()
    results = [job.result() for job in started]
    assert all(result["digests"] == plain["digests"] for result in results)
    assert jobs.decodes() == len(images)
    assert sum(result["computed"] for result in results) == len(images)
    assert all(result["computed"] for result in results)


def test_the_random_part_is_each_jobs_own(jobs: Jobs, images: list[str]) -> None:
    for seed in range(2):
        plain = jobs.uncached(images, flip=seed, shuffle=seed, epochs=2)
        assert jobs.run(images, flip=seed, shuffle=seed, epochs=2)["digests"] == plain["digests"]
    assert jobs.decodes() == len(images)


def edit(path: str, value: int) -> None:
    Image.fromarray(np.full((48, 64, 3), value, np.uint8)).save(path)
    settle(Path(path))


def test_only_what_changed_is_computed_again(jobs: Jobs, images: list[str]) -> None:
    root = os.path.dirname(images[0])
    jobs.run(images, root=root)
    edit(images[5], 10)
    plain = jobs.uncached(images, root=root)
    assert jobs.run(images, root=root)["digests"] == plain["digests"]
    assert jobs.decodes() == len(images) + 1

    added = f"{root}/new.jpg"
    edit(added, 20)
    assert jobs.run([*images, added], root=root)["computed"] == 1

    os.utime(images[7])
    settle(Path(images[7]))
    assert jobs.run(images, root=root)["computed"] == 0

    smaller = jobs.run(images, root=root, size=16)
    assert smaller["computed"] == len(images) and smaller["digests"] != plain["digests"]
    assert jobs.run(images, root=root)["computed"] == 0


def test_an_edit_before_an_epoch_is_seen_in_it(jobs: Jobs, images: list[str]) -> None:
    before = jobs.uncached(images)["digests"][0]
    job = jobs.start(images, epochs=2, pause_between=True)
    job.wait_for_pause()
    edit(images[3], 30)
    after = jobs.uncached(images)["digests"][0]
    assert after != before
    assert job.result()["digests"] == [before, after]
    assert jobs.decodes() == len(images) + 1


@pytest.mark.parametrize("by_batch", [4, 8, 40])
def test_edits_of_arrays_stay_in_their_epoch(jobs: Jobs, images: list[str], by_batch: int) -> None:
    plain = jobs.uncached(images)["digests"][0]
    for _ in range(2):
        assert jobs.run(images, edit=True, epochs=3, batch=by_batch)["digests"] == [plain] * 3
    assert jobs.run(images)["digests"] == [plain]
    assert jobs.decodes() == len(images)


def test_a_restart_keeps_what_was_stored(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    jobs.run(images)
    jobs.daemon.stop()
    jobs.daemon.start()
    second = jobs.run(images)
    assert second["digests"] == plain["digests"] and second["computed"] == 0
    assert jobs.decodes() == len(images)
