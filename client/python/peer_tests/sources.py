"""Where a peer's tests are taken from: its installed wheel, its source distribution, or Debian's sources.

Nothing of them is kept here; what is downloaded is kept beside the environments.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SECONDS_MAX = 300


class Missing(Exception):
    """The tests cannot be had, and why."""


class NotHere(Missing):
    """The tests can be had on other machines only."""


def installed(package: str, files: list[str]) -> list[Path]:
    """Tests that lie in the installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise Missing(f"{package} is not installed")
    found = [Path(spec.origin).parent / file for file in files]
    gone = [path.name for path in found if not path.exists()]
    if gone:
        raise Missing(f"the wheel of {package} is without {gone[0]}")
    return found


def distribution(name: str, version: str, folder: Path) -> Path:
    """A source distribution, unpacked."""
    place = folder / f"{name}-{version}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory() as temporary:
            constraints = Path(temporary, "constraints.txt")
            # A backend reads no metadata of a kind that it dropped since.
            constraints.write_text("flit_core<4\nsetuptools<81\n")
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
            ]
            command += ["--dest", temporary, f"{name}=={version}"]
            _run(command, {**os.environ, "PIP_CONSTRAINT": str(constraints)})
            _unpack(Path(temporary), "*.tar.gz", place)
    return place


def debian(name: str, upstream: str, folder: Path) -> Path:
    """A source package of Debian's, unpacked, where apt knows it. The machine's own lists are left alone."""
    place = folder / f"{name}-{upstream}"
    if not place.is_dir():
        if shutil.which("apt-get") is None:
            raise NotHere("without apt-get, Debian's source package cannot be had")
        with tempfile.TemporaryDirectory() as temporary:
            sources = Path(temporary, "sources.sources")
            given = Path("/etc/apt/sources.list.d/debian.sources")
            if not given.exists():
                raise NotHere("this is no Debian whose sources are in debian.sources")
            sources.write_text(given.read_text().replace("Types: deb\n", "Types: deb-src\n"))
            lists = Path(temporary, "lists")
            (lists / "partial").mkdir(parents=True)
            own = [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", f"Dir::State::lists={lists}"]
            options = [part for each in [*own, "APT::Sandbox::User=root"] for part in ("-o", each)]
            _run(["apt-get", "-q", *options, "update"], None, temporary)
            _run(
                ["apt-get", "-q", *options, "source", "--download-only", "--tar-only", name], None, temporary
            )
            _unpack(Path(temporary), f"{name}_{upstream}*.orig.tar.*", place)
    return place


def _run(command: list[str], environment: dict[str, str] | None, folder: str | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took longer than {SECONDS_MAX} s") from None
    if done.returncode:
        raise Missing(f"not downloaded: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}")


def _unpack(folder: Path, pattern: str, place: Path) -> None:
    found = sorted(folder.glob(pattern))
    if not found:
        raise Missing(f"what was downloaded is not the release that is asked for ({pattern})")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary, tarfile.open(found[0]) as archive:
        archive.extractall(temporary, filter="data")
        (top,) = Path(temporary).iterdir()
        top.rename(place)
