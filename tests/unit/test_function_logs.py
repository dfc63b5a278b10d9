"""How a server prints what functions log."""

from __future__ import annotations

import logging
import os
import sys

import pytest

from holdfast.cli.function_logs import FunctionLogPrinter


def record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "executionArn": "mine"})


def test_a_function_does_not_wait_for_a_stderr_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(read, encoding="utf-8") as reader, os.fdopen(write, "w", buffering=1, encoding="utf-8") as writer:
        monkeypatch.setattr(sys, "stderr", writer)
        printer = FunctionLogPrinter(most=10)
        for number in range(3_000):  # a pipe holds 64 KB: a thread that printed these lines itself would wait for ever
            printer.handle(record(f"{number} " + "x" * 100))
        printed = dropped = 0
        while printed + dropped < 3_000:
            line = reader.readline()
            if line.endswith("x\n"):
                printed += 1
            else:
                count, _, rest = line.partition(" ")
                assert rest == "lines of functions were not printed: stderr was not read fast enough\n"
                dropped += int(count)
        printer._finish()
    assert (printed + dropped, dropped > 1_000) == (3_000, True)
