"""Whether all that was read can be told, and is among what is known to be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from prebake.reads import external_inputs
from prebake.reads.record import Record
from prebake.reads.stat_observations import Look, is_look
from prebake.runtime.errors import Code, Refused

#: Files of one item that are looked for in a list of names, before a set is made of it.
FEW = 8


def followed(record: Record, folders: Collection[str], what: str) -> None:
    """Raises `Refused` if it cannot be told what was read: if other things than files were, or `folders`
    were listed."""
    if record.network is not None:
        raise Refused(Code.NETWORK, f"{what} talks to the network ({record.network})")
    if record.process is not None:
        raise Refused(
            Code.UNDECLARED, f"{what} runs another program ({record.process}), whose reads are unseen"
        )
    if record.named is not None:
        said = f"the value of {what} holds the name of a temporary file ({record.named})"
        raise Refused(Code.CLOCK, f"{said}, which is another each time")
    left = record.effects()
    if left:
        raise Refused(
            Code.EFFECT,
            f"{what} writes or removes {left[0]}, which a hit would not: do it in a step of its own, or run "
            "the program with prebake run -o, which keeps what it writes",
        )
    if record.is_captured:
        raise Refused(
            Code.EFFECT,
            f"{what} prints, warns or logs while the program keeps that in memory, which a hit would not: "
            "capture it inside of what is cached, or return it",
        )
    if record.incomplete is not None:
        raise Refused(Code.UNDECLARED, f"{what} reads what cannot be followed: {record.incomplete}")
    if folders:
        raise Refused(
            Code.UNDECLARED,
            f"{what} lists the folder {next(iter(folders))}, and so depends on all that is in it",
        )


def check(record: Record, allowed: Sequence[str], what: str, declared: bool = False) -> None:
    """Raises `Refused` if more was looked at than the files that an item is known to read. Where they are
    `declared`, what an installed package looks at beside them (a lock, the folder) is its own matter."""
    followed(record, record.listed, what)
    if (
        len(record.reads) <= FEW
        and not record.objects
        and not record.looks
        and all(path in allowed and path in record.stats for path in record.reads)
    ):
        # As most items: files, opened by the names that they are known by.
        return
    known = {os.path.abspath(path) for path in allowed if not external_inputs.is_fact(path)}
    told = {external_inputs.canonical(name) for name in allowed if external_inputs.is_fact(name)}
    for fact in record.facts():
        if declared and is_look(fact) and Look.of(fact).path in record.by_packages:
            continue
        if fact not in told and not (is_look(fact) and Look.of(fact).is_shown_by(known, told)):
            raise Refused(
                Code.UNDECLARED,
                f"{what} depends on {fact}, which is not among its inputs: name them with "
                "wrap(..., inputs=fn)",
            )
    for path in record.files():
        if path not in known and os.path.abspath(path) not in known and not _is_one(path, allowed):
            raise Refused(
                Code.UNDECLARED,
                f"{what} reads {path}, which is not among its inputs: name them with wrap(..., inputs=fn)",
            )


def _is_one(path: str, allowed: Sequence[str]) -> bool:
    """Whether a file is one of those under another name."""
    try:
        return any(os.path.samefile(path, each) for each in allowed)
    except OSError:
        return False
