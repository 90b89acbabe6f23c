"""`make adoption`: training stacks that nobody here wrote, with one line changed in their own data path.

Each script of `stacks/` runs in processes of its own and always with the same seed: as it was (the lines
that name Prebake taken out, or put back as their `# was:` says), with an empty cache, and as a second job. As
it was and as a second job it runs again, in turn, so that what else the machine does is seen as a spread.
Compared is what reached the training steps: type, shape and bytes of every batch, and every loss.

CPU is the process CPU time (all threads) spent fetching batches, collation included, in the job and in its
loaders' workers; where no loader of torch's is at work, what the script runs as `record.preparing()`. CPU of
the daemon is told beside it, and that of the whole job with all of its processes. Steps per second are those
from the first fetch to the last step, and so include what Prebake looks at once per job.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import made

from prebake.demo.daemon import PrivateDaemon
from prebake.runtime.programs import path as program

HERE = Path(__file__).parent
#: The longest (Ray) takes a quarter of this on a busy machine.
RUN_SECONDS_MAX = 240
#: How a run that was ended says so.
NO_END = "no end after"
#: Of all stacks: a row that finds no time says so, and the table is written all the same.
SECONDS_MAX = 1700
#: Runs as it was, and runs as a second job. One of each, where stacks take more than their share of the time.
REPEATS = 2
#: A file's `stat` is trusted once the file has been left alone for two seconds.
SETTLE_SECONDS = 2.5
#: Stacks whose script is started by a program of theirs.
LAUNCHED = {"torchrun_ddp": ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]}
#: Stacks with another environment than the common one, and those that read something other than images.
ENVIRONMENTS = {"keras_tfdata": "tf", "torchaudio_digits": "audio"}
READS = {"torchaudio": "audio", "hf_trainer": "text"}
#: What a stack is installed as, where the first word of its script's name is not that.
DISTRIBUTIONS = {"hf": "transformers", "open": "open_clip_torch", "torchrun": "torch"}
#: Stacks that cannot be had, and why. They are rows too.
NOT_HAD = {
    "nnunetv2": "importing it imports connected-components-3d, which is under the LGPL: this project's lock "
    "files hold permissive licences only"
}
#: Refused as a whole is also what has a reason, saves no more CPU than this and reused no more entries: some
#: tell what a pipeline was found to be, and are no elements of it.
SAVED_MIN, REUSED_MIN = 0.05, 10


@dataclass
class Run:
    """One run of a script. Times in seconds."""

    batches: dict[str, list[list[Any]]]
    fetch_cpu: float
    steps_per_second: float
    made: int
    reused: int
    daemon_cpu: float
    job_cpu: float
    said: list[str]


@dataclass
class Row:
    """A stack's row of the table."""

    stack: str
    version: str = ""
    runs: bool = False
    identical: bool = False
    refused: bool = False
    steps: int = 0
    made: int = 0
    reused: int = 0
    #: Without, cold, and of a second job: medians of the runs, as are the steps.
    cpu_seconds: list[float] = field(default_factory=list)
    #: The share, and the least and the most of any pair of runs.
    cpu_saved: float | None = None
    cpu_saved_between: list[float] = field(default_factory=list)
    #: The same of all that the job's processes spent, importing and training too.
    job_cpu_seconds: list[float] = field(default_factory=list)
    steps_per_second: list[float] = field(default_factory=list)
    #: Of the daemon, while a second job ran.
    daemon_cpu_seconds: float = 0.0
    why: list[str] = field(default_factory=list)
    error: str = ""


def plain(text: str) -> str:
    """A script as it was before Prebake: without the lines that name it."""
    lines, was = [], None
    for line in text.splitlines():
        found = re.match(r"(\s*)# was: (.*)", line)
        if found:
            was = found[1] + found[2]
        elif "prebake" in line:
            lines += [was] if was is not None else []
            was = None
        else:
            lines.append(line)
    script = "\n".join(lines) + "\n"
    ast.parse(script)
    return script


def changed(text: str) -> int:
    """Lines of a script that name Prebake, but for its import."""
    return sum("prebake" in line and "import" not in line for line in text.splitlines())


class Stack:
    """A script, and what it is run with."""

    def __init__(self, script: Path, data: dict[str, Path], pythons: dict[str, str], folder: Path) -> None:
        self.name = script.stem
        self.text = script.read_text()
        if changed(self.text) != 1:
            raise ValueError(f"{script} names Prebake in {changed(self.text)} lines, not in one")
        kind = next((kind for name, kind in READS.items() if self.name.startswith(name)), "images")
        self.data = data[kind]
        self.python = pythons[ENVIRONMENTS.get(self.name, "")]
        self.folder = folder / self.name
        self.folder.mkdir()

    def version(self) -> str:
        """What is installed of it."""
        word = self.name.partition("_")[0]
        name = DISTRIBUTIONS.get(word, word)
        code = "import importlib.metadata as m, sys; print(sys.argv[1], m.version(sys.argv[1]))"
        done = subprocess.run([self.python, "-c", code, name], capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def run(self, label: str, daemon: PrivateDaemon | None, until: float) -> Run:
        """Raises `RuntimeError` with the script's last words if it fails or has not ended by a time."""
        record = self.folder / label
        record.mkdir()
        script = self.folder / "train.py"
        script.write_text(self.text if daemon is not None else plain(self.text))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PREBAKE")},
            "ADOPTION_RECORD": str(record),
            "PREBAKE_AUTOSTART": "0",
            "PREBAKE_DIR": str(daemon.folder / "cache") if daemon is not None else "/nonexistent",
            "PYTHONPATH": str(HERE),
            "PYTHONHASHSEED": "random",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "default",
            "OMP_NUM_THREADS": "1",
            "HOME": str(self.folder),
            "HF_HUB_OFFLINE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TQDM_DISABLE": "1",
            "KERAS_BACKEND": "tensorflow",
            "TORCH_DISTRIBUTED_DEBUG": "OFF",
        }
        command = [self.python, *LAUNCHED.get(self.name, []), str(script), str(self.data)]
        before = _counts(daemon)
        log = record / "log"
        with log.open("wb") as out:
            spent = _children_cpu()
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            status: int | str
            seconds = max(1.0, min(RUN_SECONDS_MAX, until - time.monotonic()))
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = f"{NO_END} {seconds:.0f} s"
            finally:
                # What it started too.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            spent = _children_cpu() - spent
        said = log.read_text(errors="replace")
        if status != 0:
            last = next(filter(None, reversed(said.splitlines())), "")
            raise RuntimeError(f"{label}: exit status {status}: {last[-200:]}\n{said[-1500:]}")
        after = _counts(daemon)
        return _result(record, [*(b - a for a, b in zip(before, after, strict=True)), spent], said)


def _children_cpu() -> float:
    """CPU seconds of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _counts(daemon: PrivateDaemon | None) -> list[float]:
    if daemon is None:
        return [0, 0, 0]
    metrics = daemon.metrics()
    outcome = [metrics.get(f'prebake_elements_total{{outcome="{name}"}}', 0) for name in ("miss", "hit")]
    return [*outcome, daemon.cpu_seconds()]


def _result(record: Path, counts: list[float], said: str) -> Run:
    batches = {path.name: _lines(path) for path in sorted(record.glob("batches-*"))}
    if not batches:
        raise RuntimeError(f"no batch was trained on: {said[-1500:]}")
    costs = [line for path in record.glob("cost-*") for line in _lines(path)]
    begun = min([line[1] for line in costs] + [line[2] for lines in batches.values() for line in lines])
    ended = max(line[2] for lines in batches.values() for line in lines)
    steps = sum(len(lines) for lines in batches.values())
    return Run(
        {name: [line[:2] for line in lines] for name, lines in batches.items()},
        sum(line[0] for line in costs),
        steps / max(ended - begun, 1e-9),
        int(counts[0]),
        int(counts[1]),
        counts[2],
        counts[3],
        list(dict.fromkeys(re.findall(r"PrebakeWarning: (.*)", said))),
    )


def _lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def adopt(stack: Stack, until: float, repeats: int) -> Row:
    """Runs a stack. What goes wrong is a row too."""
    row = Row(stack.name, stack.version())
    try:
        if time.monotonic() > until:
            raise RuntimeError("there was no time left for it")
        bare = [stack.run("plain", None, until)]
        with tempfile.TemporaryDirectory(prefix="prebake-") as folder, PrivateDaemon(Path(folder)) as daemon:
            cold, second = stack.run("cold", daemon, until), [stack.run("second", daemon, until)]
            for i in range(1, repeats):
                bare.append(stack.run(f"plain{i}", None, until))
                second.append(stack.run(f"second{i}", daemon, until))
            status = _status(daemon)
    except Exception as error:
        row.error = f"{error}" if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
        return row
    row.runs = True
    row.identical = all(run.batches == bare[0].batches for run in [*bare, cold, *second])
    row.steps = sum(map(len, bare[0].batches.values()))
    row.made, row.reused = cold.made, second[0].reused
    kinds = [bare, [cold], second]
    row.cpu_seconds = [_median([run.fetch_cpu for run in runs]) for runs in kinds]
    row.job_cpu_seconds = [_median([run.job_cpu for run in runs]) for runs in kinds]
    row.steps_per_second = [_median([run.steps_per_second for run in runs]) for runs in kinds]
    if all(run.fetch_cpu for run in bare):
        row.cpu_saved = 1 - row.cpu_seconds[2] / row.cpu_seconds[0]
        shares = [1 - b.fetch_cpu / a.fetch_cpu for a in bare for b in second]
        row.cpu_saved_between = [min(shares), max(shares)]
    row.daemon_cpu_seconds = _median([run.daemon_cpu for run in second])
    row.why = list(dict.fromkeys([*cold.said, *(each for run in second for each in run.said), *status]))
    row.refused = row.reused == 0 or (
        bool(row.why) and (row.cpu_saved or 0) < SAVED_MIN and row.reused < REUSED_MIN
    )
    return row


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def _status(daemon: PrivateDaemon) -> list[str]:
    done = subprocess.run(
        [str(program("prebake")), "status", "--json", "--dir", str(daemon.folder / "cache")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    refusals = json.loads(done.stdout).get("refusals", []) if done.returncode == 0 else []
    return [f"not cached: {each['code']} {each['reason']}" for each in refusals if each["code"] != "M18"]


def table(rows: list[Row]) -> str:
    """Markdown, the refused rows first."""
    lines = [
        "| stack | runs | bit-identical | reused | refused and why | preprocessing CPU saved "
        "| steps/s without, cold, second |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        why = "; ".join(each.removeprefix("not cached: ") for each in row.why) or "-"
        why = ("whole: " if row.refused else "in part: ") + why if why != "-" else why
        saved = "-"
        if row.cpu_saved is not None:
            saved = "{:.0f} % ({:.0f} to {:.0f})".format(
                *(100 * each for each in (row.cpu_saved, *row.cpu_saved_between))
            )
        cells = [
            f"{row.stack} ({row.version})",
            "yes" if row.runs else "no: " + row.error.splitlines()[0] if row.error else "no",
            ("yes" if row.identical else "NO") if row.runs else "-",
            f"{row.reused}",
            why,
            saved,
            ", ".join(f"{each:.3g}" for each in row.steps_per_second) or "-",
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    good = [row for row in rows if row.runs]
    lines[2:2] = [f"| {name} | not had: {why} | - | - | - | - | - |" for name, why in NOT_HAD.items()]
    lines += [
        "",
        f"{len(good)} of {len(rows) + len(NOT_HAD)} run, {sum(row.identical for row in good)} of these "
        f"bit-identical, {sum(not row.refused for row in good)} not refused.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Exit status 1 if a stack does not run or is not identical."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, help="a folder of JPEGs; made if not given")
    arguments.add_argument(
        "--audio", type=Path, help="a folder of WAV files named by digit; made if not given"
    )
    arguments.add_argument("--text", type=Path, help="a text file, or a folder of them; made if not given")
    arguments.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=PROGRAM")
    arguments.add_argument("--only", action="append", default=[], metavar="STACK")
    arguments.add_argument("--out", type=Path, required=True, help="the table goes to OUT.md and OUT.json")
    options = arguments.parse_args()
    for given in (options.data, options.audio, options.text):
        if given is not None and (not given.exists() or given.is_dir() and not any(given.iterdir())):
            arguments.error(f"{given} is not there, or is empty")
    pythons = {"": sys.executable, **dict(each.split("=", 1) for each in options.python)}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="adoption-") as name:
        folder = Path(name)
        data = {
            "images": made.images(folder / "images", options.data),
            "audio": made.audio(folder / "audio", options.audio),
            "text": made.text(folder / "text.txt", options.text),
        }
        time.sleep(SETTLE_SECONDS)
        begun = time.monotonic()
        scripts = sorted((HERE / "stacks").glob("*.py"))
        scripts = [script for script in scripts if not options.only or script.stem in options.only]
        for i, script in enumerate(scripts):
            late = time.monotonic() - begun > SECONDS_MAX * i / len(scripts)
            stack = Stack(script, data, pythons, folder)
            row = adopt(stack, begun + SECONDS_MAX, 1 if late and i else REPEATS)
            rows.append(row)
            print(json.dumps(asdict(row)), file=sys.stderr, flush=True)
            shutil.rmtree(stack.folder, ignore_errors=True)
    rows.sort(key=lambda row: (row.runs, row.runs and not row.refused, row.stack))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    options.out.with_suffix(".md").write_text(table(rows))
    print(table(rows))
    return int(not all(row.runs and row.identical for row in rows))


if __name__ == "__main__":
    sys.exit(main())
