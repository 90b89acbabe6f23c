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


def test_the_wheel_says_what_it_is() -> None:
    told = metadata.metadata("prebake")
    assert told["License-Expression"] == "Apache-2.0" and told["Requires-Python"] == ">=3.11, <3.14"
    assert told["Description-Content-Type"].startswith("text/markdown") and "# Prebake" in str(
        told.get_payload()
    )
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= set(told.get_all("Classifier"))
    files = metadata.files("prebake") or []
    [licence] = [each for each in files if each.name == "LICENSE"]
    assert "Apache License" in licence.read_text()
    assert [each for each in files if str(each) == "prebake/py.typed"]
