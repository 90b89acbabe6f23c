"""Unmodified pyarrow.flight on the daemon's socket: reads what jobs stored; jobs are served what it puts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Jobs
from job import digest

from prebake.demo.daemon import PrivateDaemon

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")

#: "nobody" wherever there is one; what matters is that it is not the daemon's user.
STRANGER = 65_534

AS_STRANGER = """
import os, sys
import pyarrow as pa, pyarrow.flight as flight
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
client = flight.connect("grpc+unix://" + sys.argv[1])
print(len(list(client.list_flights())))
for digest in sys.argv[3], "ab" * 32:
    try:
        print(client.get_flight_info(flight.FlightDescriptor.for_path(digest)))
    except (pa.ArrowException, flight.FlightError) as error:
        print(type(error), str(error).split(". gRPC client debug context")[0])
"""


def connect(daemon: PrivateDaemon) -> Any:
    return flight.connect(f"grpc+unix://{daemon.folder}/cache/prebake.sock")


def pipeline(client: Any) -> Any:
    """The one collection of the jobs' pipeline."""
    (info,) = (
        each for each in client.list_flights() if b"Shrink" in each.schema.metadata[b"prebake.pipeline"]
    )
    return client.get_flight_info(info.descriptor)


def table(client: Any, info: Any) -> Any:
    return pa.concat_tables(client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints)


def digests(read: Any) -> list[str]:
    """Of the arrays of a table, by their items' names."""
    arrays = [array for chunk in read["value"].chunks for array in chunk.to_numpy_ndarray()]
    by_name = dict(zip(read["name"].to_pylist(), map(digest, arrays), strict=True))
    return [by_name[name] for name in sorted(by_name)]


def put(client: Any, descriptor: Any, rows: Any) -> dict[str, Any]:
    writer, reader = client.do_put(descriptor, rows.schema)
    for batch in rows.to_batches(max_chunksize=7):
        writer.write_batch(batch)
    writer.done_writing()
    told = reader.read()
    # What went wrong is only said here.
    writer.close()
    return json.loads(told.to_pybytes())


def test_what_jobs_stored_is_read(jobs: Jobs, images: list[str]) -> None:
    (made,) = jobs.run(images)["digests"]
    client = connect(jobs.daemon)
    info = pipeline(client)
    assert info.total_records == len(images) and info.total_bytes == len(images) * 32 * 32 * 3
    assert info.schema.field("value").type.shape == [32, 32, 3]
    read = table(client, info)
    assert read.schema.names == ["value", "input", "name", "layout", "cpu_ns", "io_ns"]
    assert digests(read) == made
    assert min(read["cpu_ns"].to_pylist()) > 0
    assert client.get_schema(info.descriptor).schema == info.schema
    hits = jobs.daemon.metrics()['prebake_elements_total{outcome="hit"}']
    assert hits >= len(images)


def test_what_is_put_is_served_to_jobs(jobs: Jobs, images: list[str], tmp_path: Path) -> None:
    root = os.path.dirname(images[0])
    made = jobs.run(images, root=root)["digests"]
    rows = table(connect(jobs.daemon), pipeline(connect(jobs.daemon)))
    (tmp_path / "other").mkdir()
    with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as daemon:
        others = Jobs(daemon, tmp_path / "other")
        assert others.run(images[:1], root=root)["computed"] == 1
        client = connect(daemon)
        info = pipeline(client)
        assert info.total_records == 1
        count = len(images)
        told = put(client, info.descriptor, rows)
        assert told == {"stored": count - 1, "there": 1, "held": 0, "refused": {}}
        # Without layouts they are what their columns say.
        assert put(client, info.descriptor, rows.select(["value", "input"]))["there"] == count
        assert digests(table(client, pipeline(client))) == made[0]
        served = others.run(images, root=root, shuffle=1)
        assert served["digests"] == made and served["reused"] == count
        assert others.decodes() == 1


def test_what_is_wrong_is_said_with_its_code(jobs: Jobs, images: list[str]) -> None:
    jobs.run(images[:2])
    client = connect(jobs.daemon)
    info = pipeline(client)
    rows = table(client, info)
    inputs = pa.array([b"x" * 31] * 2, pa.binary(31))
    for wrong, code in [
        (rows.drop_columns(["input"]), "bad-schema"),
        (rows.set_column(1, "input", inputs), "bad-schema"),
        (rows.append_column("label", [[1, 2]]), "bad-schema"),
        (rows.set_column(3, "layout", [["no layout"] * 2]), "bad-row"),
    ]:
        with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=rf"\[{code}\]"):
            put(client, info.descriptor, wrong)
    big = pa.table({"input": pa.array([b"y" * 32], pa.binary(32)), "value": [b"." * (17 << 20)]})
    with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=r"\[too-large\]"):
        put(client, info.descriptor, big)
    for descriptor, code in [
        (flight.FlightDescriptor.for_path("ab" * 32), "no-collection"),
        (flight.FlightDescriptor.for_path("photos"), "bad-descriptor"),
        (flight.FlightDescriptor.for_command(b"photos"), "bad-descriptor"),
    ]:
        with pytest.raises((pa.ArrowException, KeyError, flight.FlightError), match=rf"\[{code}\]"):
            put(client, descriptor, rows)
    with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=r"\[bad-ticket\]"):
        client.do_get(flight.Ticket(b"photos")).read_all()
    with pytest.raises(pa.ArrowNotImplementedError, match=r"\[unsupported\]"):
        list(client.do_action("status"))
    assert pipeline(client).total_records == 2
    assert jobs.run(images[:2])["reused"] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_sees_nothing(jobs: Jobs, images: list[str]) -> None:
    jobs.run(images[:2])
    path = pipeline(connect(jobs.daemon)).descriptor.path[0].decode()
    cache = jobs.daemon.folder / "cache"
    for each in (jobs.daemon.folder, cache, cache / "prebake.sock"):
        each.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    command = [sys.executable, "-c", AS_STRANGER, str(cache / "prebake.sock"), str(STRANGER), path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    listed, theirs, nobodys = done.stdout.splitlines()
    assert listed == "0" and "[no-collection]" in theirs and theirs == nobodys
