"""Schedules of workers: declared by page, by file and by program; accepted, refused, limited and cancelled as any other run is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Schedule, WorkerSettings
from holdfast.model.clock import VirtualClock
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.operator.holdfast_toml import read_operator
from holdfast.schedules.store_schedules import Schedules
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller, run_view, run_views
from tests.flow.harness import in_real_time
from tests.flow.timetables import at, told
from tests.workers.pages import page, write

SOURCE = """
import asyncio
from holdfast import WorkerContext, worker


@worker("teller.md")
async def teller(inputs: dict, ctx: WorkerContext) -> dict:
    if inputs.get("ask"):
        await ctx.ask("Go on?")
    return {"told": inputs.get("word", "nothing")}
"""


class Scene:
    """A worker that is served under virtual time."""

    def __init__(self, folder: Path, **constraints: Any) -> None:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}}
        self.file = write(folder / "w", SOURCE, teller=page("teller", inputs=schema, **constraints))
        self.where = str(folder / "s.db")
        self.clock = VirtualClock(at("2026-01-01 00:00"), skipping=False)
        self.store = open_store(self.where, "a look from outside", None)
        self.verbs = Schedules(self.store, self.clock)
        self.settings = WorkerSettings(policy=Policy(isolation="inline"))

    def open(self, *schedules: Schedule) -> Any:
        settings = Settings(clock=self.clock, tune=False)
        return holdfast.open(self.where, workers=[self.file], schedules=schedules, worker_settings=self.settings, settings=settings)

    async def until(self, engine: Any, moment: str) -> None:
        self.clock.move_to(at(moment))
        engine._engine.look_for_work()
        await in_real_time(lambda: not self.store.due_schedules(["teller"], self.clock.now(), 1) and engine._engine.idle)

    def runs(self) -> list[Any]:
        return [run_view(self.store, found.header.id, Caller()) for found in run_views(self.store, Caller(), limit=50)]


async def test_a_page_with_a_schedule_starts_its_worker_once_at_each_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, schedule="0 2 * * * Europe/Berlin")
    async with scene.open() as engine:
        for day in (1, 2, 3):
            await scene.until(engine, f"2026-01-0{day} 01:00")
    runs = scene.runs()
    assert [run.response.outputs for run in runs] == [{"told": "nothing"}] * 3
    assert {run.accepted.requested_by for run in runs} == {"schedule:teller"}
    assert [told(run.occurrence.at) for run in reversed(runs)] == [f"2026-01-0{day} 01:00" for day in (1, 2, 3)]
    assert scene.verbs.get("teller").origin.value == "page"


async def test_a_schedule_that_wants_inputs_which_do_not_fit_shows_why_nothing_ran(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.open(Schedule("s", "teller", every="1h", input={"word": 5}), Schedule("t", "teller", every="1h", input=[1])) as engine:
        await scene.until(engine, "2026-01-01 01:00")
    assert scene.runs() == []
    (line,) = scene.verbs.get("s").recent
    assert (line.outcome, told(line.at)) == ("refused", "2026-01-01 01:00")
    assert line.why is not None
    assert "The inputs do not fit" in line.why
    assert scene.verbs.get("t").recent[0].why == "The inputs of a worker must be a JSON object."


async def test_an_occurrence_pays_its_workers_rate_and_one_beyond_it_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rate_limit="1/day per tenant")
    async with scene.open(Schedule("s", "teller", every="1h", input={})) as engine:
        await scene.until(engine, "2026-01-01 01:00")
        await scene.until(engine, "2026-01-01 02:00")
    assert len(scene.runs()) == 1
    assert [line.outcome for line in scene.verbs.get("s").recent] == ["refused", "started"]


async def test_the_operator_who_asked_for_a_run_is_its_requester(tmp_path: Path) -> None:
    from holdfast.model.audit import Actor

    scene = Scene(tmp_path)
    ada = Schedules(scene.store, scene.clock, actor=Actor(who="ada", origin="cli"))
    async with scene.open(Schedule("s", "teller", every="1h", input={"word": "hi"})) as engine:
        ada.run_now("s")
        await scene.until(engine, "2026-01-01 00:10")
    (run,) = scene.runs()
    assert (run.accepted.requested_by, run.occurrence.how.value, run.response.outputs) == ("ada", "now", {"told": "hi"})


async def test_replace_cancels_a_run_that_waits_for_a_person(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.open(Schedule("s", "teller", every="1h", input={"ask": True}, overlap="replace")) as engine:
        await scene.until(engine, "2026-01-01 01:00")
        await in_real_time(lambda: engine.worker_service.approvals(Caller()))
        await scene.until(engine, "2026-01-01 02:00")
        await in_real_time(lambda: len(scene.runs()) == 2 and not scene.verbs.get("s").waiting)
    second, first = scene.runs()
    assert first.response.error.error_code == "cancelled"
    assert second.state != "done"


def test_a_file_declares_schedules_and_a_mistake_in_it_names_the_table(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[schedules.nightly]\nrun = "teller"\ncron = "0 2 * * *"\nstart = 2026-01-01T00:00:00Z\ninput = {word = "hi"}\n')
    (schedule,) = read_operator(file=file, environment={}).schedules
    assert (schedule.name, schedule.run, schedule.definition().timing.start) == ("nightly", "teller", at("2026-01-01 00:00"))
    for text, says in (
        ('[schedules.x]\ncron = "* * * * *"\n', r"\[schedules.x\] does not say what to run"),
        ('[schedules.x]\nrun = "f"\nevery = "1h"\nzones = "UTC"\n', "has zones, which Holdfast does not know"),
        ('[schedules.x]\nrun = "f"\ncron = 5\n', r"\[schedules.x\] is wrong"),
        ('[schedules.x]\nrun = "f"\nevery = "1h30m"\n', "Write an integer above 0 and s, m, h or d"),
        ('[schedules."a b"]\nrun = "f"\nevery = "1h"\n', "use 1 to 40 letters"),
        ("schedules = 5\n", "schedules is wrong"),
    ):
        file.write_text(text)
        with pytest.raises(holdfast.HoldfastError, match=says):
            read_operator(file=file, environment={})


def test_a_page_whose_schedule_cannot_be_followed_is_told_so(tmp_path: Path) -> None:
    from holdfast.contract.page_reader import read as read_page

    required = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}
    for schedule, inputs, code in (
        ("0 2 * *", {"type": "object"}, "bad_value"),
        ("0 0 30 2 *", {"type": "object"}, "bad_value"),
        ("every 5 minutes", {"type": "object"}, "bad_value"),
        ("0 2 * * * Mars/Olympus", {"type": "object"}, "bad_value"),
        ("every 15m", required, "schedule_needs_inputs"),
    ):
        reading = read_page(page("teller", inputs=inputs, schedule=schedule))
        assert [problem.code for problem in reading.errors] == [code]
    assert read_page(page("teller", schedule="0 2 * * * Europe/Berlin")).contract is not None


def test_two_schedules_of_one_name_are_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, schedule="every 1h")
    with pytest.raises(ScheduleInvalid, match="Several schedules are called teller"), scene.open(Schedule("teller", "teller", every="2h")):
        pass
