"""Watches code from Python 3.12 on: by `sys.monitoring`."""

from __future__ import annotations

import sys
import types
from typing import Any

from prebake.execution.active_scopes import READ_VARIABLE, are_any, failed, read_variable, see
from prebake.execution.scope import Scope


class MonitoringWatcher:
    """Each code object tells once that it starts, and is quiet from then on."""

    NAME = "prebake"

    def __init__(self) -> None:
        self._tool: int | None = None
        self._disable: Any = None
        #: The scope that code was last made to tell for, and whether some told to nobody since.
        self._last: Scope | None = None
        self._lost = False

    def begin(self, scope: Scope) -> Any:
        if not self._is_on() and not self._turn_on():
            scope.unseen = scope.unseen or "others watch the interpreter"
            return None
        if (self._last is not scope or self._lost) and scope.is_due():
            self._last, self._lost = scope, False
            sys.monitoring.restart_events()  # type: ignore[attr-defined]
        return None

    def end(self, scope: Scope, begun: Any) -> None:
        if not self._is_on():
            scope.unseen = scope.unseen or "others watch the interpreter"

    def _is_on(self) -> bool:
        tool, monitoring = self._tool, sys.monitoring  # type: ignore[attr-defined]
        return (
            tool is not None
            and monitoring.get_tool(tool) == self.NAME
            and monitoring.get_events(tool) & monitoring.events.PY_START != 0
        )

    def _turn_on(self) -> bool:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        # Those that have no name of a purpose come first.
        for tool in (4, 3, 5, 2, 1, 0):
            if monitoring.get_tool(tool) in (None, self.NAME):
                try:
                    if monitoring.get_tool(tool) is None:
                        monitoring.use_tool_id(tool, self.NAME)
                except ValueError:
                    continue
                self._tool, self._lost = tool, True
                # An interpreter that ends has no `sys` here any more.
                self._disable = monitoring.DISABLE
                monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
                monitoring.set_events(tool, monitoring.events.PY_START)
                return True
        return False

    def _started(self, code: types.CodeType, _: int) -> Any:
        try:
            if code is READ_VARIABLE:
                if are_any():
                    read_variable(sys._getframe(1))
                return None
            if not see(code, sys._getframe(1)):
                self._lost = True
        except Exception as error:
            # It would be raised in the code that starts.
            try:  # noqa: SIM105
                failed(error)
            except Exception:
                # An interpreter that ends has lost much already, also what suppresses errors.
                pass
        return self._disable
