"""What a function keeps that is called for its effect, however it is written."""

from __future__ import annotations

import sys
import types

import pytest

from prebake.purity import kept
from prebake.runtime import packages

BEFORE = """
import installed_other as other
STATE = ON = None
class Kept: on = None
CONFIG, TABLE, LIST = Kept(), {}, []
def make(*given): return given
def _keep(value):
    global STATE
    STATE = int(value)
def set_to(value=1, *more, **named):
 global STATE, ON
"""
#: Each is how `set_to` goes on, and what it changes.
SETS = {
    "STATE = value": "STATE",
    "STATE = str(value)": "STATE",
    "STATE = more": "STATE",
    "STATE = named.get('x')": "STATE",
    "STATE = -value if value else None": "STATE",
    "STATE = 'some' if value else 'none'": "STATE",
    "made = [value]; x, y = 1, made; STATE = y": "STATE",
    "for each in more:\n  STATE = each": "STATE",
    "with value as opened:\n  STATE = opened": "STATE",
    "if value:\n  STATE = 'some'\n else:\n  STATE = 'none'": "STATE",
    "try:\n  STATE = int(value)\n except ValueError:\n  STATE = 0": "STATE",
    "STATE, ON = value, 1": "STATE",
    "ON = True": "ON",
    "_keep(value)": "STATE",
    "return _keep(value)": "STATE",
    "CONFIG.x = value": "CONFIG",
    "CONFIG.x = str(value)": "CONFIG",
    "CONFIG.x = False": "CONFIG",
    "Kept.on = value": "Kept.on",
    "other.x = value": "installed_other.x",
    "other.x = 1": "installed_other.x",
    "TABLE['x'] = value": "TABLE",
    "TABLE.update(x=value)": "TABLE",
    "LIST.append(value)": "LIST",
}
#: What these make is made when it is first used: no setting.
MAKES = (
    "if STATE is None:\n  STATE = make()",
    "if ON:\n  return\n ON = True",
    "STATE = make()",
    "return STATE",
    "if not other.x:\n  other.x = 1",
    "make(value)",
)


def changed(monkeypatch: pytest.MonkeyPatch, text: str) -> set[str]:
    installed, other = types.ModuleType("installed"), types.ModuleType("installed_other")
    other.__dict__["x"] = None
    for module in (installed, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(packages, "owner", lambda _: packages.PYTHON)
    exec(f"{BEFORE} {text}\n", vars(installed))
    found = kept.by(installed.set_to)
    return {name if owner is installed else f"{owner.__name__}.{name}" for owner, name in found}


@pytest.mark.parametrize("text", SETS)
def test_what_it_is_given_is_followed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert SETS[text] in changed(monkeypatch, text)


@pytest.mark.parametrize("text", MAKES)
def test_what_is_made_when_it_is_first_used_is_no_setting(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert changed(monkeypatch, text) == set()


@pytest.mark.parametrize("end", ["", "return", "return None", "return value", "yield 1"])
def test_a_setter_returns_nothing(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    text = f"STATE = str(value)\n {end}"
    monkeypatch.setitem(sys.modules, "installed_other", types.ModuleType("installed_other"))
    space: dict[str, types.FunctionType] = {}
    exec(f"{BEFORE} {text}\n", space)
    assert kept.is_setter(space["set_to"]) == (end in ("", "return", "return None"))
    assert not kept.is_setter(space["make"])


def test_a_method_of_a_class_sets_what_it_is_given() -> None:
    space: dict[str, types.FunctionType] = {}
    exec("def use(cls, way):\n cls.way = str(way)\n cls.on = True\n cls.count = cls.count + 1", space)
    assert kept.of_its_own(space["use"]) == {"way", "on"}
