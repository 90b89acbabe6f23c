"""What became of jobs and daemon under one fault, and whether that is well."""

from __future__ import annotations

from dataclasses import dataclass, field

from fault import Fault

#: Lines of one kind that a fault may bring: more are on their way to fill the log.
LINES_MAX = 3


@dataclass
class Outcome:
    """What became of it all."""

    fault: str
    jobs: int = 0
    failed: int = 0
    hung: int = 0
    wrong: int = 0
    seconds: float = 0.0
    #: Warnings by kind.
    said: dict[str, int] = field(default_factory=dict)
    #: Errors counted, by code.
    counted: dict[str, float] = field(default_factory=dict)
    #: Whether the daemon stores and serves again once the fault is gone: `at once`, `restarted` or `never`.
    works: str = "never"
    findings: list[str] = field(default_factory=list)

    def find(self, what: str) -> None:
        """Something that is wrong."""
        self.findings.append(what)

    def judge(self, fault: Fault) -> None:
        """Finds what is wrong with what the daemon said, and with how it went on."""
        for kind, lines in self.said.items():
            if lines > LINES_MAX:
                self.find(f"{lines} log lines of one kind: {kind[:200]}")
        if not self.said and not fault.silent:
            self.find("the daemon logs nothing" + ("" if self.counted else ", and counts nothing"))
        if self.works == "never":
            self.find("the daemon does not store and serve again, not even after a restart")
        if self.works == "restarted" and not fault.restart:
            self.find("the daemon stores and serves again after a restart only")
