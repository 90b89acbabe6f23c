"""The runner of cases tells right answers from wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("cases")


def run(tmp_path: Path, python: list[dict[str, object]], graphs: list[dict[str, object]]) -> tuple[int, str]:
    (tmp_path / "python.json").write_text(json.dumps(python))
    (tmp_path / "graphs.json").write_text(json.dumps(graphs))
    command = [sys.executable, str(CASES / "run.py"), "--python", str(tmp_path / "python.json")]
    command += ["--graphs", str(tmp_path / "graphs.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


def script(identifier: str, a: str, b: str, expected: str) -> dict[str, object]:
    sides = {side: {"main.py": f"TARGET = {text}\n"} for side, text in (("a", a), ("b", b))}
    return {"id": identifier, "title": identifier, "expected": expected, **sides}


def test_right_answers_are_right(tmp_path: Path) -> None:
    python = [
        script("same", "1", "1", "same"),
        script("different", "1", "2", "different"),
        script("refused", "object()", "object()", "refuse"),
        script("either", "1", "object()", "not_same"),
        script("any", "1", "1", "any"),
    ]
    graphs = [case for case in json.loads((CASES / "graphs.json").read_text()) if case["id"] == "graph-again"]
    code, said = run(tmp_path, python, graphs)
    assert code == 0, said
    assert "python: 5 of 5 as expected, 0 false hits" in said and "graph: 1 of 1 as expected" in said


def test_wrong_answers_are_wrong_and_false_hits_are_counted(tmp_path: Path) -> None:
    python = [script("hit", "1", "1", "different"), script("broken", "nothing", "1", "any")]
    code, said = run(tmp_path, python, [])
    assert code == 1
    assert (
        "hit: hit: expected different, got same" in said and "broken: broken: expected any, got error" in said
    )
    assert "python: 0 of 2 as expected, 1 false hits" in said
