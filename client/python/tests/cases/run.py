"""Runs cases of identity: pairs of scripts, and pairs of pipeline graphs, with the answer that is due.

    run.py [--python FILE] [--graphs FILE] [--interpreter PYTHON] [ID ...]

The two sides of a case are identified in processes of their own, under random hash seeds. Answers:
`same`, `different`, `refuse`, `not_same` (different or refused) and `any`. Ends with 1 if an answer
differs; a false hit (`same` where it must not be) is the worst and counted apart. A script binds TARGET;
`__script__` names it, `__env__` is its environment, `__dir__` its folder, `__site__/...` are installed
files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import graphs

HERE = Path(__file__).parent
#: A side that takes longer has no bound.
SECONDS_MAX = 120
ASK = """
import prebake
try:
    print("\\n=" + prebake.fingerprint(TARGET))
except prebake.Refused as refused:
    print("\\n!" + refused.code + " " + str(refused).replace("\\n", " ")[:300])
"""


def python_side(side: dict[str, Any], interpreter: str) -> str:
    """`=digest`, `!code reason`, or what went wrong."""
    with tempfile.TemporaryDirectory() as root:
        job, site = Path(root, side.get("__dir__", "job")), Path(root, "site-packages")
        site.mkdir()
        job.mkdir(parents=True, exist_ok=True)
        script = side.get("__script__", "main.py")
        for name, text in side.items():
            installed = name.startswith("__site__/")
            if name.startswith("__") and not installed:
                continue
            path = site / name.removeprefix("__site__/") if installed else job / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + ASK if name == script else text)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= side.get("__env__", {})
        done = _run([interpreter, script], cwd=job, env=environment)
    answers = [line for line in done.stdout.splitlines() if line[:1] in ("=", "!")]
    return answers[-1] if answers else f"? {done.stderr[-300:]}"


def graph_side(side: dict[str, Any], at: str | None, program: str) -> str:
    """The same for a graph, by `prebake fingerprint`."""
    try:
        graph = graphs.translate(side, at)
    except graphs.Refused as refused:
        return f"!{refused}"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(graph, file)
        file.flush()
        done = _run([program, "fingerprint", file.name])
    if done.returncode == 0:
        return f"={done.stdout.strip()}"
    return f"!{done.stderr.strip()}" if done.returncode in (1, 2) else f"? {done.stderr[-300:]}"


def _run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, **options
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"no answer in {SECONDS_MAX} s")


def answer(a: str, b: str) -> str:
    if "?" in (a[:1], b[:1]):
        return "error"
    if "!" in (a[:1], b[:1]):
        return "refuse"
    return "same" if a == b else "different"


def is_due(got: str, expected: str) -> bool:
    if expected == "any":
        return got != "error"
    return got == expected or expected == "not_same" and got in ("different", "refuse")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--python", default=str(HERE / "python.json"))
    arguments.add_argument("--graphs", default=str(HERE / "graphs.json"))
    arguments.add_argument("--interpreter", default=sys.executable)
    arguments.add_argument("ids", nargs="*")
    asked = arguments.parse_args()
    # A link to an interpreter is an environment of its own: it is not followed.
    asked.interpreter = os.path.abspath(asked.interpreter)
    program = str(Path(asked.interpreter).parent / "prebake")

    def python(case: dict[str, Any]) -> tuple[str, str]:
        return python_side(case["a"], asked.interpreter), python_side(case["b"], asked.interpreter)

    def graph(case: dict[str, Any]) -> tuple[str, str]:
        at = case.get("compare_at")
        return graph_side(case["a"], at, program), graph_side(case["b"], at, program)

    wrong = 0
    for kind, file, sides in (("python", asked.python, python), ("graph", asked.graphs, graph)):
        cases = [
            case for case in json.loads(Path(file).read_text()) if not asked.ids or case["id"] in asked.ids
        ]
        false_hits = differing = 0
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for case, (a, b) in zip(cases, threads.map(sides, cases), strict=True):
                got = answer(a, b)
                if is_due(got, case["expected"]):
                    continue
                differing += 1
                false_hits += got == "same"
                print(
                    f"{case['id']}: {case['title']}: expected {case['expected']}, got {got}\n  a {a}\n  b {b}"
                )
        print(
            f"{kind}: {len(cases) - differing} of {len(cases)} as expected, {false_hits} false hits",
            flush=True,
        )
        wrong += differing
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
