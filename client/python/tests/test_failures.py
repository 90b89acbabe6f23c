"""Whatever dies, the jobs that live get what they would have computed, and end well."""

import os
import shutil
import signal

import pytest
from conftest import Jobs


def test_a_daemon_killed_under_a_job(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images, epochs=2)
    job = jobs.start(images, pause_after=15, epochs=2)
    job.wait_for_pause()
    jobs.daemon.kill()
    result = job.result()
    assert result["digests"] == plain["digests"]
    assert len(result["said"].splitlines()) == 1 and "PrebakeWarning" in result["said"]


def test_a_daemon_killed_between_batches(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    job = jobs.start(images, pause_before_batch=1)
    job.wait_for_pause()
    jobs.daemon.kill()
    result = job.result()
    assert result["digests"] == plain["digests"]
    assert len(result["said"].splitlines()) == 1 and "PrebakeWarning" in result["said"]


def test_a_daemon_killed_and_started_again(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images, epochs=3)
    job = jobs.start(images, pause_before_batch=2, epochs=3, retry_at_once=True)
    job.wait_for_pause()
    jobs.daemon.kill()
    jobs.daemon.start()
    # Every epoch pauses once.
    for _ in range(2):
        job.go_on()
        job.wait_for_pause()
    result = job.result()
    assert result["digests"] == plain["digests"]
    assert len(result["said"].splitlines()) == 1
    before = jobs.decodes()
    assert jobs.run(images)["digests"] == plain["digests"][:1]
    assert jobs.decodes() == before


def test_edits_are_seen_without_the_daemon(jobs: Jobs, images: list[str]) -> None:
    epochs = [jobs.uncached(images)["digests"][0]]
    # Filled by another job, so that this one reads its elements from shared memory.
    jobs.run(images)
    job = jobs.start(images, epochs=3, pause_between=True)
    for edited in (3, 5):
        job.wait_for_pause()
        jobs.daemon.kill()
        shutil.copy(images[edited + 1], images[edited])
        epochs.append(jobs.uncached(images)["digests"][0])
        assert epochs[-1] != epochs[-2]
        job.go_on()
    assert job.result()["digests"] == epochs


def test_a_daemon_killed_before_the_job_starts(jobs: Jobs, images: list[str]) -> None:
    jobs.daemon.kill()
    result = jobs.run(images)
    assert result["digests"] == jobs.uncached(images)["digests"]
    assert len(result["said"].splitlines()) == 1 and "PrebakeWarning" in result["said"]


def test_a_job_killed_while_it_holds_leases(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    dying = jobs.start(images, die_after=12)
    assert dying.process.wait(60) == -signal.SIGKILL
    result = jobs.run(images)
    assert result["digests"] == plain["digests"] and not result["said"]


def test_a_job_killed_while_another_waits_for_its_items(jobs: Jobs, images: list[str]) -> None:
    plain = jobs.uncached(images)
    first = jobs.start(images, pause_after=10)
    first.wait_for_pause()
    second = jobs.start(images, pause_after=20)
    second.wait_for_pause()
    first.process.kill()
    assert second.result()["digests"] == plain["digests"]


@pytest.mark.parametrize("broken", [0, 20])
def test_a_users_error_comes_at_its_turn(jobs: Jobs, images: list[str], broken: int) -> None:
    with open(images[broken], "wb") as file:
        file.write(b"not an image")
    job = jobs.start(images)
    _, said = job.process.communicate("\n", timeout=60)
    assert job.process.returncode == 1
    assert said.splitlines()[-1].startswith("PIL.UnidentifiedImageError")
    rest = [path for path in images if path != images[broken]]
    assert jobs.run(rest)["digests"] == jobs.uncached(rest)["digests"]


def test_an_error_in_a_batch_leaves_the_rest_of_it_to_others(jobs: Jobs, images: list[str]) -> None:
    with open(images[20], "wb") as file:
        file.write(b"not an image")
    rest = [path for path in images if path != images[20]]
    root = os.path.dirname(images[0])
    first = jobs.start(images, survive=True, root=root)
    first.wait_for_pause()
    assert jobs.run(rest, root=root)["digests"] == jobs.uncached(rest, root=root)["digests"]
