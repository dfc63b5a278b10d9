"""Queues and schedules at the top of Python files: who declares them, and who is told that a file does not."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Queue, Schedule, Settings, durable_execution
from holdfast.lambda_api.templates.discovery import discover
from holdfast.lambda_api.templates.targets import find_all
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import FunctionNotLoadable
from tests.workers.pages import page, write

TIMES = """
from holdfast import Queue, Schedule

emails = Queue("emails", at_once=3)
nightly = Schedule("nightly", "teller", cron="0 2 * * *")
"""
TELLER = 'from holdfast import worker\n\n\n@worker("teller.md")\nasync def teller(inputs, ctx):\n    return {}\n'
FUNCTION = "\nimport datetime\n\n@holdfast.durable_execution(version=3)\ndef send(event, context):\n    return event\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "times.py").write_text(TIMES)
    write(tmp_path / "w", TELLER, teller=page("teller"))
    return tmp_path


@pytest.mark.parametrize("processes", [False, True])
def test_a_file_with_only_schedules_of_workers_is_taken_beside_the_workers(files: Path, processes: bool) -> None:
    worker = next((files / "w").glob("*.py"))
    found = find_all([str(files / "times.py"), str(worker)], {}, processes=processes)
    assert [(one.name, one.definition().function) for one in found.schedules] == [("nightly", "teller")]
    assert [(queue.name, queue.at_once) for queue in found.queues] == [("emails", 3)]
    (files / "w" / "more.py").write_text(TIMES)
    assert len(find_all([str(files / "w")], {}, processes=processes).schedules) == 1, "of a folder, too"
    with pytest.raises(FunctionNotLoadable, match="there is no durable function and no worker, so there is nothing to run"):
        find_all([str(files / "times.py")], {}, processes=processes)


def test_a_queue_or_a_schedule_in_a_file_of_workers_is_warned_of(files: Path) -> None:
    worker = next((files / "w").glob("*.py"))
    assert find_all([str(worker)], {}).warnings == ()
    worker.write_text("import holdfast\n" + TELLER + '\nslow: object = holdfast.Queue("slow", at_once=1)\n' + TIMES)
    (warning,) = find_all([str(worker)], {}).warnings
    assert re.search(
        r"it is not imported, and does not declare emails, nightly, slow: declare it in a Python file without workers", warning
    )
    worker.write_text(worker.read_text() + FUNCTION)
    spelled = worker.parent / "." / ".." / worker.parent.name / worker.name
    told = find_all([str(worker), f"{spelled}:send"], {}).warnings
    assert not any("does not declare" in each for each in told), "a target that names a function imports the file"


def test_discovery_sends_queues_and_schedules_of_a_file_through_another_process(tmp_path: Path) -> None:
    file = tmp_path / "mail.py"
    file.write_text(
        "import holdfast\n"
        + FUNCTION
        + 'emails = holdfast.Queue("emails", rates=["5/s"], per_key=holdfast.Limits(at_once=1), oldest="10m")\n'
        'one = holdfast.Schedule("one", send, every="1h", start=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), input=[1])\n'
        'two = holdfast.Schedule("two", "other", cron="0 1 * * *", version=7, jitter="5m")\n'
    )
    found = discover(str(file))
    assert found.queues == [Queue("emails", rates=["5/s"], per_key=holdfast.Limits(at_once=1), oldest="10m")]
    one, two = [schedule.definition() for schedule in found.schedules]
    assert (one.function, one.version, one.timing.start, found.schedules[0].input_text()) == ("send", None, 1767225600000, "[1]")
    assert (two.function, two.version, two.timing.jitter) == ("other", "7", 300)


def test_a_change_in_the_same_second_and_of_the_same_length_is_discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    file = tmp_path / "mail.py"

    def declared(at_once: int) -> int | None:
        file.write_text(f'import holdfast\n\nemails = holdfast.Queue("emails", at_once={at_once})\n')
        os.utime(file, (1_800_000_000, 1_800_000_000))
        return discover(str(file)).queues[0].at_once

    assert [declared(2), declared(7)] == [2, 7]
    assert list(tmp_path.iterdir()) == [file]


@durable_execution
async def report(event: Any, context: AsyncDurableContext) -> Any:
    return event


@durable_execution
async def other(event: Any, context: AsyncDurableContext) -> Any:
    return event


async def test_a_schedule_that_a_program_declares_no_longer_is_warned_of_with_the_command_that_removes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept, gone = Schedule("kept", report, every="1h"), [Schedule("gone", report, every="1h"), Schedule("elsewhere", other, every="1h")]

    async def opened(*schedules: Schedule) -> list[str]:
        caplog.clear()
        settings = Settings(clock=VirtualClock(), tune=False)
        async with holdfast.open(tmp_path / "a.db", functions=[report], schedules=schedules, settings=settings):
            return [record.message for record in caplog.records if record.levelno >= logging.WARNING]

    assert await opened(kept, *gone) == []
    told = "schedule gone of report was declared earlier (code), and is not now; it goes on. If its declaration was deleted: "
    assert await opened(kept) == [f"{told}holdfast schedules remove gone"]
    assert await opened() == [], "a program without schedules may leave them to another one"
    holdfast.Client.open(str(tmp_path / "a.db")).schedules.remove("gone")
    assert await opened(kept) == []
