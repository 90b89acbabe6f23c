"""What the tables of calls say of TensorFlow: the test of `test_calls.py`, where it is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from test_calls import test_an_entry_decides_something  # noqa: E402, F401
