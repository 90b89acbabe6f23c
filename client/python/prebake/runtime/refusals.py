"""What is not cached, and why: said once, and told the daemon."""

from prebake.runtime import daemon
from prebake.runtime.errors import Refused, warn_once


def not_cached(error: Exception) -> None:
    """Says once why something is not cached: a refusal, or whatever an odd object raised when looked at."""
    if isinstance(error, Refused):
        daemon.refused(error.code, error.reason)
    why = f"{error.code} {error}" if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
    warn_once(f"refused {why}", f"not cached: {why}")
