"""The folder that names are relative to."""

import os


def working_folder() -> str:
    """Its path, or "" if it was removed: relative names lead nowhere then."""
    try:
        return os.getcwd()
    except OSError:
        return ""
