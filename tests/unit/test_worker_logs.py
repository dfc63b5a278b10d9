"""The writer of the log: never waits, loses nothing silently, and goes on when its file is moved away."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.signals.worker_logs import LineWriter


def test_lines_come_in_order_and_after_rotation_in_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    writer = LineWriter(str(path))
    for number in range(100):
        writer.write(b"%d\n" % number)
    writer.close()
    assert path.read_text().split() == [str(number) for number in range(100)]
    assert path.stat().st_mode & 0o777 == 0o600
    path.rename(tmp_path / "w.log.1")
    again = LineWriter(str(path))
    again.write(b"next\n")
    again.close()
    assert path.read_text() == "next\n"


def test_what_cannot_be_kept_up_with_is_counted_and_nobody_waits(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ends = os.open(pipe, os.O_RDWR)  # both of them, so that it is never closed; no process reads yet, so that it is soon full
    writer = LineWriter(str(pipe), most_lines=10)
    line = b"x" * 99_999 + b"\n"
    for _ in range(1000):
        writer.write(line)
    told = b""

    def read() -> None:
        nonlocal told
        while not told.endswith(b"END\n"):
            told += os.read(ends, 1 << 20)

    reading = threading.Thread(target=read)
    reading.start()
    writer.close(10)
    os.write(ends, b"END\n")
    reading.join(30)
    os.close(ends)
    *lines, _ = told.splitlines()
    dropped = [json.loads(line) for line in lines if line.startswith(b"{")]
    assert {each["event"] for each in dropped} == {"log_dropped"}
    assert len(lines) - len(dropped) + sum(each["dropped"] for each in dropped) == 1000
    assert len(lines) <= 100


def test_a_path_that_cannot_be_written_is_told_of_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be written"):
        LineWriter(str(tmp_path / "nowhere" / "w.log"))


def test_a_line_after_the_end_is_no_error(tmp_path: Path) -> None:
    writer = LineWriter(str(tmp_path / "w.log"))
    writer.close()
    writer.write(b"late\n")
    assert (tmp_path / "w.log").read_text() == ""
