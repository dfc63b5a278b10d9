"""The last of what functions printed, by execution: what an Invoke shows that asks for the tail of the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from holdfast.hosts.runtime.output import TAIL, Line
from holdfast.model.execution import Execution
from holdfast.service.describing import arn_of

_MOST: Final = 1000
"""Executions whose tails are kept: those that printed last."""


class Tails:
    """Tails of executions."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._tails: OrderedDict[str, bytes] = OrderedDict()

    def take(self, lines: Sequence[Line]) -> None:
        """What was printed just now."""
        for line in lines:
            if line.execution is not None:
                text = self._tails.pop(line.execution, b"") + line.text.encode() + b"\n"
                self._tails[line.execution] = text[-TAIL:]
        while len(self._tails) > self._most:
            self._tails.popitem(last=False)

    def of(self, header: Execution) -> bytes:
        """The tail of an execution; nothing if it is not known."""
        return self._tails.get(arn_of(header), b"")
