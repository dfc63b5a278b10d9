"""examples/support_triage: three messages on their three ways, crashes before and after each write, and the real command, killed."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.graph_json import graph_id
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import pipeline_kit
from holdfast.workers.approvals import Decision
from holdfast.workers.packages import Packages
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.cassettes import CassetteMode, CassetteSettings
from tests.conftest import ROOT
from tests.library.example_scene import STORES, killed_while, serving, trusted_program
from tests.library.scene import OFTEN

FOLDER = ROOT / "examples" / "support_triage"
PIPELINE = FOLDER / "support_triage.py"
ADDRESS = "http://127.0.0.1:8767"
RUN = ("run", "support_triage.py", "--input", "@case.json", "--key", "t1")
OPENED = {"id": "t1", "url": f"{ADDRESS}/tickets/t1"}


def case(name: str = "case") -> dict[str, Any]:
    told: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return told


def settings_for(folder: Path, address: str = ADDRESS, **policy: Any) -> WorkerSettings:
    """What the example's holdfast.toml says, with the address of a desk."""
    parameters = folder / "parameters.toml"
    parameters.write_text((FOLDER / "parameters.toml").read_text().replace(ADDRESS, address))
    played = CassetteSettings(CassetteMode.REPLAY, str(FOLDER / "cassette.jsonl"), ("language_model",))
    return WorkerSettings(policy=Policy(rate_limits=OFTEN, **policy), parameters=str(parameters), cassette=played)


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process the pipeline's file has no folder of its own to import from."""
    module = ModuleType("labels")
    vars(module).update(runpy.run_path(str(FOLDER / "labels.py")))
    monkeypatch.setitem(sys.modules, "labels", module)


@pytest.fixture
def desk() -> Iterator[Any]:
    with serving(runpy.run_path(str(FOLDER / "local_desk.py"))["LocalDesk"]()) as here:
        yield here


@pytest.mark.usefixtures("labels")
@pytest.mark.parametrize("name, label, asked, tickets", [
    ("case", "delivery", ["decide"], 1), ("case-spam", "spam", [], 0), ("case-unclear", "other", ["look"], 0),
])  # fmt: skip
def test_a_message_goes_its_way_and_only_one_that_a_person_agreed_to_becomes_a_ticket(
    tmp_path: Path, name: str, label: str, asked: list[str], tickets: int
) -> None:
    settings = settings_for(tmp_path, isolation="inline")
    given: dict[str, Any] = {"worker_settings": settings, "tools": {"open_ticket": OPENED}}
    ran = pipeline_kit.run(PIPELINE, case(name), decisions={"decide": "approve", "look": "approve"}, **given)
    assert (ran.status, ran.outputs["label"], [one.node for one in ran.questions]) == ("ok", label, asked)
    assert [tool for tool, _ in ran.writes] == ["open_ticket"] * tickets
    assert ran.outputs["url"] == (OPENED["url"] if tickets else "")


@pytest.mark.usefixtures("labels")
def test_no_ticket_is_opened_if_a_person_says_no_and_a_person_may_change_the_team(tmp_path: Path) -> None:
    given: dict[str, Any] = {"worker_settings": settings_for(tmp_path, isolation="inline"), "tools": {"open_ticket": OPENED}}
    refused = pipeline_kit.run(PIPELINE, case(), decisions={"decide": "reject"}, **given)
    assert (refused.error.error_code, refused.writes) == ("approval_rejected", ())
    edited = {"team": "billing", "summary": "Pay back.", "actions": []}
    changed = pipeline_kit.run(PIPELINE, case(), decisions={"decide": {"verdict": "approve", "edited_arguments": edited}}, **given)
    assert [arguments["ticket"] for _, arguments in changed.writes] == [edited]


async def test_its_page_shows_the_graph_as_it_is_drawn(tmp_path: Path) -> None:
    (built,) = await build(PIPELINE, Packages(tmp_path))
    assert f"```\n{draw_text(built.graph, width=120)}```" in (FOLDER / "README.md").read_text()


async def test_its_pipeline_as_a_page_is_the_graph_that_its_file_builds(tmp_path: Path) -> None:
    """`holdfast graph support_triage.py --as page --out support-triage-page.md` writes the page anew."""
    (python,) = await build(PIPELINE, Packages(tmp_path))
    (page,) = await build(FOLDER / "support-triage-page.md", Packages(tmp_path))
    assert graph_id(page.graph) == graph_id(python.graph)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("labels", "kit_store")
def test_a_crash_anywhere_in_the_example_changes_nothing(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, isolation="inline")
    given: dict[str, Any] = {"worker_settings": settings, "tools": {"open_ticket": OPENED}, "decisions": {"decide": "approve"}}
    assert pipeline_kit.crash_everywhere(PIPELINE, case(), **given) > 40


@pytest.mark.long
async def test_in_its_jails_the_models_see_no_personal_data_and_the_desk_gets_one_ticket(desk: Any, tmp_path: Path) -> None:
    async with holdfast.open(":memory:", workers=[PIPELINE], worker_settings=settings_for(tmp_path, desk.url)) as engine:
        waits = await engine.run("support-triage", case(), idempotency_key="k")
        (approval,) = waits.approvals
        assert approval["arguments"]["summary"].startswith("Ann Lee ")
        decision = Decision(verdict="approve", decided_by="ann", decided_at=approval["requested_at"])
        await engine.worker_service.decide(approval["approval_id"], decision, Caller())
        response = await engine.run("support-triage", case(), idempotency_key="k")
    assert response.status == "ok"
    assert ([*desk.tickets.values()], len(desk.received)) == ([approval["arguments"]], 1)
    for line in (FOLDER / "cassette.jsonl").read_text().splitlines():  # a call is found by its arguments, so these were asked
        prompt = json.loads(line)["arguments"]["prompt"]
        assert [value for value in ("Ann", "Lee", "ann.lee", "1234567") if value in prompt] == []


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_the_command_is_killed_while_it_opens_the_ticket_and_the_desk_counts_one(
    desk: Any, tmp_path: Path, store: Callable[[], str] | None
) -> None:
    folder = tmp_path / "support_triage"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__", "holdfast.db*"))
    (folder / "parameters.toml").write_text((folder / "parameters.toml").read_text().replace(ADDRESS, desk.url))
    program = trusted_program(folder, store)
    assert program.cold(*RUN).returncode == 4
    (approval,) = [json.loads(line)["approval_id"] for line in program("approvals", "list", "--json").stdout.splitlines()]
    assert program("approvals", "approve", approval).returncode == 0
    killed_while(program, RUN, desk, "before_answer")
    ended = program.cold(*RUN, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["status"]) == (0, "ok"), ended.stderr
    assert (len(desk.received), len(desk.tickets)) == (1, 1)
