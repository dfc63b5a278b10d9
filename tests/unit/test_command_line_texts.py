"""Small texts of the command line: what an option reads, and what an event says."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

import pytest

from holdfast.cli.arguments import read_text
from holdfast.cli.show import _failures_in_a_row
from holdfast.descriptions.history import HistoryEvent
from holdfast.model.errors import InvalidParameter


class Unreadable(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))


def test_stdin_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Unreadable()))
    with pytest.raises(InvalidParameter, match=r"^--input: stdin could not be read: Is a directory\.$"):
        read_text("--input", "-")


def test_an_invocation_that_ends_well_ends_a_row_of_failures() -> None:
    failed: dict[str, Any] = {"Error": {"Payload": {"ErrorMessage": "no"}}}
    details = [failed, failed, {}, failed]
    events = [HistoryEvent(number=at, type="InvocationCompleted", at=0, details=said) for at, said in enumerate(details, 1)]
    assert _failures_in_a_row(events) == {1: 1, 2: 2, 4: 1}
