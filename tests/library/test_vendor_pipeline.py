"""examples/vendor_research as a pipeline: a lost page, a revision, a conflict, a person, publish and undo; and the real command, killed."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.contract.protocol import Response
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.draw.text import draw_text
from holdfast.service.engines import OpenEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.approvals import Decision
from holdfast.workers.packages import Packages
from holdfast.workers.run_lookup import Caller
from tests.library.example_scene import STORES, killed_while, trusted_program
from tests.library.vendor_scene import FOLDER, case_at, copied_for, serving_site, settings_for

PIPELINE = FOLDER / "vendor_research.py"
BEFORE_THE_PERSON = [
    ("pages", 1, "partial"),
    ("facts", 1, "ok"),
    ("report", 1, "ok"),
    ("check", 1, "blocked"),
    ("facts", 2, "ok"),
    ("report", 2, "ok"),
    ("check", 2, "ok"),
]
RUN = ("run", "vendor_research.py", "--input", "@case.json", "--key", "v1")


@pytest.fixture
def web() -> Iterator[Any]:
    with serving_site() as site:
        yield site


@pytest.fixture
def settings(web: Any, tmp_path: Path) -> WorkerSettings:
    return settings_for(web, tmp_path)


def test_the_web_of_the_example_says_nothing_about_a_client_that_was_killed(
    web: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answered, shut = threading.Event(), web.shutdown_request

    def shutdown(request: Any) -> None:
        shut(request)
        answered.set()

    monkeypatch.setattr(web, "shutdown_request", shutdown)
    with socket.create_connection(web.server_address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its end is a reset, as after a kill
        web.before_answer = client.close
        client.sendall(b"POST /reports HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}")
        assert answered.wait(20)
    assert capfd.readouterr().err == ""
    assert list(web.reports) == ["k"]


async def decided(engine: OpenEngine, key: str, inputs: dict[str, Any], verdict: str) -> tuple[Response, list[tuple[str, int, str]]]:
    """The response of a run after a person decided, and the ends of its nodes beside `prices`, whose place among the first is by chance."""
    service = engine.worker_service
    waits = await engine.run("vendor-research", inputs, idempotency_key=key)
    assert (waits.status, [approval["tool"] for approval in waits.approvals]) == ("needs_human", ["sign-off"])
    (approval,) = waits.approvals
    assert [conflict["path"] for conflict in approval["arguments"]["conflicts"]] == [".delivery_days"], "the person sees it"
    assert approval["may_cost"]["most"]["tokens"] == 0, "and that the rest asks no model"
    decision = Decision(verdict=verdict, decided_by="ann", decided_at=approval["requested_at"])
    await service.decide(approval["approval_id"], decision, Caller())
    response = await engine.run("vendor-research", inputs, idempotency_key=key)
    view = await engine.view(response.run_id)
    assert view is not None
    return response, [(end.node, end.round, end.state) for end in view.history if end.node != "prices"]


async def test_a_page_fails_a_gate_asks_again_a_person_signs_and_the_report_is_published_once(web: Any, settings: WorkerSettings) -> None:
    async with holdfast.open(":memory:", workers=[PIPELINE], worker_settings=settings) as engine:
        response, ends = await decided(engine, "k", case_at(web), "approve")
        assert ends == [*BEFORE_THE_PERSON, ("sign-off", 1, "ok"), ("publish", 1, "ok"), ("read-back", 1, "ok")]
        outputs, seen = response.outputs, response.observability
        assert outputs is not None
        assert (response.status, seen.partial, seen.usage.tokens.input + seen.usage.tokens.output) == ("ok", True, 1489)
        assert list(web.reports.values()) == [outputs["report"]]
        assert outputs["seen"] == {"vendor": "Acme Lamps", "summary": outputs["report"]["summary"]}
        assert (len(web.received), web.removed) == (1, [])


async def test_a_report_that_cannot_be_read_back_is_taken_back_and_a_refused_one_is_never_published(
    web: Any, settings: WorkerSettings
) -> None:
    async with holdfast.open(":memory:", workers=[PIPELINE], worker_settings=settings) as engine:
        refused, ends = await decided(engine, "refused", case_at(web), "reject")
        assert refused.error is not None
        assert (refused.error.error_code, ends[-1], web.received) == ("approval_rejected", ("sign-off", 1, "failed"), [])
        web.hides = True
        response, ends = await decided(engine, "hidden", case_at(web), "approve")
        assert response.error is not None
        assert (response.status, response.error.error_code) == ("permanent_error", "page_not_found")
        assert ends[-3:] == [("publish", 1, "ok"), ("read-back", 1, "failed"), ("publish", 1, "undone")]
        assert (len(web.received), len(web.removed), web.reports) == (1, 1, {})


async def test_its_page_shows_the_graph_as_it_is_drawn(tmp_path: Path) -> None:
    (built,) = await build(PIPELINE, Packages(tmp_path))
    assert f"```\n{draw_text(built.graph, width=120)}```" in (FOLDER / "README.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "hides, store", [pytest.param(False, None, id="sqlite"), *(pytest.param(True, *each.values, id=f"undo-{each.id}") for each in STORES)]
)
def test_the_command_is_killed_while_it_publishes_and_while_it_undoes_and_each_happens_once(
    web: Any, tmp_path: Path, hides: bool, store: Callable[[], str] | None
) -> None:
    program, web.hides = trusted_program(copied_for(web, tmp_path), store), hides
    waits = program.cold(*RUN)
    assert waits.returncode == 4, waits.stderr
    (approval,) = [json.loads(line)["approval_id"] for line in program("approvals", "list", "--json").stdout.splitlines()]
    assert program("approvals", "approve", approval).returncode == 0
    killed_while(program, RUN, web, "before_answer")
    if hides:
        killed_while(program, RUN, web, "before_removal_answer")
    ended = program.cold(*RUN, "--json")
    assert ended.stdout, (ended.returncode, ended.stderr)
    response = json.loads(ended.stdout)
    told = [line.split(" ·")[0] for line in ended.stderr.splitlines() if line.startswith(("publish", "read-back"))]
    if hides:
        assert (ended.returncode != 0, response["error"]["error_code"]) == (True, "page_not_found")
        assert told == ["publish: ● ok", "read-back: ✕ failed", "publish: ↩ undone"]
    else:
        assert (ended.returncode, response["status"]) == (0, "ok")
        assert told == ["publish: ● ok", "read-back: ● ok"]
    assert (len(web.received), len(web.removed)) == (1, int(hides))
    again = program.cold(*RUN, "--json")
    assert again.stdout == ended.stdout, (again.returncode, again.stderr)
    assert (len(web.received), len(web.removed)) == (1, int(hides))
