"""Constants that steps read in another module, and in the one that it names."""

import innermost as inner  # noqa: F401

NUM = 3
