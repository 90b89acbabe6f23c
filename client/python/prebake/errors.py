"""What Prebake says when it cannot help: one exception, one warning, each said once."""

from __future__ import annotations

import warnings


class Refused(Exception):
    """Prebake cannot tell what something is, so it will not cache it.

    `code` is stable and short; `reason` says in words what was met, where, and what to do about it.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        return (Refused, (self.code, self.reason))


class PrebakeWarning(UserWarning):
    """Something runs without the cache, and why. The results are the same."""


def not_cached(error: Exception) -> None:
    """Says once why something is not cached: a refusal, or whatever an odd object raised when looked at."""
    why = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
    warn_once(f"refused {why}", f"not cached: {why}")


_said: set[str] = set()


def warn_once(topic: str, message: str) -> None:
    """Warns in one line, at most once per process for each topic.

    Forked children inherit what was said, so that a loader's workers do not repeat it.
    """
    if topic in _said:
        return
    _said.add(topic)
    # A file name in angle brackets has no source line, so that the warning stays one line.
    warnings.warn_explicit(message.replace("\n", " "), PrebakeWarning, "<prebake>", 1)
