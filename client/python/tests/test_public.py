"""What users see of the package."""

from importlib import metadata

import prebake


def test_what_is_public_is_shown_and_nothing_else() -> None:
    shown = [name for name in dir(prebake) if not name.startswith("_")]
    assert shown == sorted([*prebake.__all__, "hf", "tf", "wds"])
    for name in prebake.__all__:
        assert getattr(prebake, name).__module__.startswith("prebake.")


def test_it_tells_its_version() -> None:
    assert prebake.__version__ == metadata.version("prebake")
