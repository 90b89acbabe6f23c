"""What a peer's test asked of Prebake, and what it got: kept for one test at a time.

An adapter stands in the place of a peer's function. It asks Prebake instead, notes here what came of it, and
hands the test something that it can go on with.
"""

from __future__ import annotations

import os
import traceback
import types
from collections.abc import Callable
from typing import Any

import prebake
from prebake.runtime import daemon, errors

#: What a refused identity is in a test: equal to all and unlike all, so that the rest of the test still
#: counts; or unlike all; or the exception by which the peer refuses.
LENIENT, UNIQUE, RAISE = "lenient", "unique", "raise"
#: What known identities do, to tell what kind of failure it was.
EXACT, ALWAYS_UNLIKE, ALWAYS_EQUAL = "exact", "always unlike", "always equal"
NEVER_UNLIKE, NEVER_EQUAL = "never unlike", "never equal"


class NotOurs(BaseException):
    """The test wants what Prebake does not offer, and says so to nobody who might catch it."""


class Asked:
    """The notes of one run of one test."""

    def __init__(self) -> None:
        #: Identities and values asked for; values that were served without a call; and identities alone.
        self.asks = self.served = self.identities = 0
        #: Codes of refusals, stale values, crashes, what is not Prebake's, and values nobody could compare.
        self.refused: list[str] = []
        self.stale: list[str] = []
        self.crashed: list[str] = []
        self.not_ours: list[str] = []
        self.unknown: list[str] = []
        #: Calls so far: one that is made again is as good as refused.
        self.calls: set[str] = set()


now = Asked()
#: Whether the adapters stand in, and how they answer in this run.
#: (A process that a test starts is told by its environment.)
on = os.environ.get("PREBAKE_PEER_ON") == "1"
refusals, identities, wrapped = LENIENT, EXACT, True


def begin(
    stand_in: bool, how_refused: str = LENIENT, how_known: str = EXACT, wrap_functions: bool = True
) -> Asked:
    """Notes anew, for a run in which Prebake stands in or does not."""
    global now, on, refusals, identities, wrapped
    now, on, refusals, identities, wrapped = Asked(), stand_in, how_refused, how_known, wrap_functions
    os.environ["PREBAKE_PEER_ON"] = "1" if stand_in else "0"
    errors._said.clear()
    return now


class Token(str):
    """An identity in a test."""

    refused = False

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Token):
            if self._is_open(other) or identities in (ALWAYS_EQUAL, NEVER_UNLIKE):
                return True
            if identities == NEVER_EQUAL:
                return False
        return str.__eq__(self, other) if isinstance(other, str) else False

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Token):
            if self._is_open(other) or identities in (ALWAYS_UNLIKE, NEVER_EQUAL):
                return True
            if identities == NEVER_UNLIKE:
                return False
        return str.__ne__(self, other) if isinstance(other, str) else True

    def _is_open(self, other: Token) -> bool:
        return (self.refused or other.refused) and refusals == LENIENT

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)


def identity(value: Any, refusal: Callable[[prebake.Refused], BaseException | None]) -> Token:
    """What Prebake says `value` is; `refusal` makes the peer's own exception of a refusal, if it has one."""
    now.asks += 1
    now.identities += 1
    try:
        return Token(prebake.fingerprint(value))
    except prebake.Refused as refused:
        now.refused.append(f"{refused.code} {refused}"[:200])
        error = refusal(refused) if refusals == RAISE else None
        if error is not None:
            raise error from refused
        token = Token(f"refused {now.asks}".encode().hex().ljust(64, "0"))
        token.refused = True
        return token
    except Exception:
        crash("fingerprint")
        raise


def crash(where: str) -> None:
    """The exception being handled is none that Prebake may raise."""
    now.crashed.append(f"{where}: " + "".join(traceback.format_exc().splitlines(True)[-12:]))


class StandIn:
    """A method put in a peer's place. What it reaches are the notes of the tests, which are no part of what
    a test asks about."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self.function, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __prebake_token__(self) -> str:
        return self.function.__qualname__


def not_ours(why: str) -> NotOurs:
    """To raise where a test goes on with what only the peer has."""
    now.not_ours.append(why)
    return NotOurs(why)


def _hear() -> None:
    """Hears of what is not cached where it is said."""
    warn, tell = errors.warn_once, daemon.refused

    def warned(topic: str, message: str) -> None:
        if topic.startswith(("refused ", "bypass")) and not topic.startswith("refused R"):
            now.refused.append(f"unlooked: {message[:200]}")
        warn(topic, message)

    def told(code: str, reason: str, location: str = "") -> None:
        now.refused.append(f"{code} {reason}"[:200])
        tell(code, reason, location)

    errors.warn_once, daemon.refused = warned, told


_hear()
