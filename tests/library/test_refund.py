"""refund-worker, the README's example: a model that is real enough, a person, and a payment that happens once."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.model import codec
from holdfast.testing import worker_kit
from holdfast.workers.approvals import Decision
from holdfast.workers.run_lookup import Caller
from tests.conftest import ROOT
from tests.library.scene import case_of, copied, file_of, model_at, ran, recorded, working
from tests.surface.cli_program import Program
from tests.tools.models import Model, a_model
from tests.tools.servers import Asked, Site, head, site

WORKER = "refund-worker"
CASE = case_of(WORKER)
VERDICT = {"decision": "refund", "cents": 1900}
PAID = {"id": "re_1", "cents": 1900}
LOCAL = Caller()


def approve(**more: Any) -> Decision:
    return Decision(verdict="approve", decided_by="anna", decided_at=0, **more)


# --- the file ----------------------------------------------------------------------------------------------------------------


def test_the_reference_page_shows_the_file_letter_for_letter() -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text()
    shown = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "refund_payment" in block)
    assert file_of(WORKER).read_text().partition("\n\n")[2] == shown


# --- as it stands, on answers played back ---------------------------------------------------------------------------------------


async def test_it_runs_as_written_without_a_key_and_waits_for_a_person() -> None:
    assert "PAY_KEY" not in os.environ
    async with working(WORKER, cassette=recorded(WORKER)) as engine:
        waits = await ran(engine, WORKER, CASE, idempotency_key="case-7")
        (asked,) = waits["approvals"]
        assert (waits["status"], asked["tool"], asked["arguments"]) == ("needs_human", "refund_payment", {"order_id": "42", "cents": 1900})
        await engine.worker_service.decide(asked["approval_id"], approve(), LOCAL)
        told = await ran(engine, WORKER, CASE, idempotency_key="case-7")
    assert (told["status"], told["outputs"], told["run_id"]) == ("ok", {"refund_id": "re_1900"}, waits["run_id"])
    assert told["observability"]["usage"]["tokens"] == {"input": 118, "output": 1086}
    assert told["observability"]["attempt"] == 1


def test_the_command_line_does_what_the_issue_shows(tmp_path: Path) -> None:
    folder = copied(WORKER, tmp_path).parent
    holdfast = Program(folder)
    command = ("run", "refund.py", "--input", "@case.json", "--key", "case-7")
    refused = holdfast(*command)
    assert (refused.returncode, "error[trust_needed]: " in refused.stderr) == (2, True)
    waits = holdfast(*command, "--trust")
    assert waits.returncode == 4
    found = re.search(r"needs_human: approval (a_\S+) refund_payment\(", waits.stderr)
    assert found is not None, waits.stderr
    assert holdfast("approvals", "approve", found.group(1)).returncode == 0
    ended = holdfast(*command)
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"refund_id": "re_1900"})
    assert re.search(r"ok, attempt 1, 1,204/1,500 tokens.*isolation: all", ended.stderr), ended.stderr


def test_a_plain_def_works_the_same_without_await(tmp_path: Path) -> None:
    file = copied(WORKER, tmp_path)
    file.write_text(file.read_text().replace("async def", "def").replace("await ctx", "ctx"))
    tools = {"language_model": VERDICT, "refund_payment": PAID}
    assert worker_kit.run(file, CASE, tools=tools, decisions={"refund_payment": "approve"}).outputs == {"refund_id": "re_1"}


# --- with a model's server and a payment service on this machine -------------------------------------------------------------


class Payments:
    """Counts what it paid, by the key it is given."""

    def __init__(self, web: Site) -> None:
        self.web = web
        self.paid: dict[str, Any] = {}
        web.pages["/refunds"] = self.serve

    async def serve(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        assert asked.headers["authorization"] == "secret-of-the-bank"
        self.paid[asked.headers["idempotency-key"]] = json.loads(asked.body)
        data = json.dumps({"id": f"re_{len(self.paid)}"}).encode()
        writer.write(head(201, {"content-type": "application/json", "content-length": str(len(data))}) + data)


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as here:
        here.answer = json.dumps(VERDICT)
        yield here


@pytest.fixture
async def payments(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Payments]:
    monkeypatch.setenv("PAY_KEY", "secret-of-the-bank")
    async with site() as web:
        yield Payments(web)


@pytest.fixture
def near(payments: Payments, tmp_path: Path) -> Path:
    """The worker as it stands, but for the address of the payment service."""
    file = copied(WORKER, tmp_path)
    file.write_text(file.read_text().replace("https://pay.example", payments.web.url))
    return file


async def test_the_money_is_paid_once_after_a_person_agreed(near: Path, model: Model, payments: Payments) -> None:
    async with working(near, model=model_at(model.url)) as engine:
        waits = await ran(engine, WORKER, CASE, idempotency_key="k")
        assert (waits["status"], payments.paid) == ("needs_human", {})
        await engine.worker_service.decide(waits["approvals"][0]["approval_id"], approve(), LOCAL)
        told = await ran(engine, WORKER, CASE, idempotency_key="k")
        again = await ran(engine, WORKER, CASE, idempotency_key="k")
    assert (told["status"], told["outputs"]) == ("ok", {"refund_id": "re_1"})
    assert again == told
    assert list(payments.paid.values()) == [{"order": "42", "cents": 1900}]
    (asked,) = model.asked
    assert asked["messages"] == [{"role": "user", "content": CASE["message"]}]
    assert asked["response_format"]["json_schema"]["schema"]["required"] == ["decision", "cents"]
    tokens = told["observability"]["usage"]["tokens"]
    assert tokens["input"] + tokens["output"] == model.counted
    assert "secret-of-the-bank" not in codec.dumps(told)


async def test_a_person_may_pay_less_and_a_person_may_say_no(near: Path, model: Model, payments: Payments) -> None:
    async with working(near, model=model_at(model.url)) as engine:
        waits = await ran(engine, WORKER, CASE, idempotency_key="less")
        await engine.worker_service.decide(
            waits["approvals"][0]["approval_id"], approve(edited_arguments={"order_id": "42", "cents": 500}), LOCAL
        )
        assert (await ran(engine, WORKER, CASE, idempotency_key="less"))["status"] == "ok"
        waits = await ran(engine, WORKER, CASE, idempotency_key="no")
        no = Decision(verdict="reject", decided_by="anna", decided_at=0, comment="too much")
        await engine.worker_service.decide(waits["approvals"][0]["approval_id"], no, LOCAL)
        told = await ran(engine, WORKER, CASE, idempotency_key="no")
    assert (told["status"], told["error"]["error_code"]) == ("permanent_error", "approval_rejected")
    assert list(payments.paid.values()) == [{"order": "42", "cents": 500}]


async def test_a_case_that_cannot_be_read_goes_to_a_person_with_the_verdict(near: Path, model: Model, payments: Payments) -> None:
    model.answer = json.dumps({"decision": "unclear", "cents": 0})
    async with working(near, model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["error"]["error_code"]) == ("needs_human", "ambiguous_request")
    assert (told["outputs"], told["observability"]["partial"]) == ({"verdict": {"decision": "unclear", "cents": 0}}, True)
    assert payments.paid == {}


async def test_a_verdict_that_does_not_fit_is_asked_for_again_and_never_paid(near: Path, model: Model, payments: Payments) -> None:
    model.answer = json.dumps({"decision": "refund", "cents": "all of it"})
    async with working(near, model=model_at(model.url)) as engine:
        told = await ran(engine, WORKER, CASE)
    assert (told["status"], told["error"]["error_code"], told["observability"]["attempt"]) == (
        "invalid_output",
        "output_schema_mismatch",
        2,
    )
    assert (len(model.asked), payments.paid) == (2, {})


async def test_a_payment_whose_answer_was_lost_is_asked_about_and_not_sent_again(near: Path, model: Model, payments: Payments) -> None:
    async def lost(asked: Asked, writer: asyncio.StreamWriter) -> None:
        payments.paid[asked.headers["idempotency-key"]] = json.loads(asked.body)
        writer.write(head(500, {"content-length": "0"}))

    payments.web.pages["/refunds"] = lost
    async with working(near, model=model_at(model.url)) as engine:
        waits = await ran(engine, WORKER, CASE, idempotency_key="k")
        await engine.worker_service.decide(waits["approvals"][0]["approval_id"], approve(), LOCAL)
        unknown = await ran(engine, WORKER, CASE, idempotency_key="k")
        (asked,) = unknown["approvals"]
        assert (unknown["status"], asked["kind"]) == ("needs_human", "unknown_outcome")
        happened = Decision(verdict="happened", decided_by="anna", decided_at=0, result={"id": "re_77"})
        await engine.worker_service.decide(asked["approval_id"], happened, LOCAL)
        told = await ran(engine, WORKER, CASE, idempotency_key="k")
    assert (told["status"], told["outputs"]) == ("ok", {"refund_id": "re_77"})
    assert payments.web.paths() == ["/refunds"]


# --- with the testing kit ----------------------------------------------------------------------------------------------------


def test_a_crash_at_any_point_pays_once() -> None:
    tools = {"language_model": VERDICT, "refund_payment": PAID}
    assert worker_kit.crash_everywhere(WORKER, CASE, tools=tools, decisions={"refund_payment": "approve"}) > 0


def test_a_copy_of_the_folder_is_all_it_needs(tmp_path: Path) -> None:
    files = sorted(path.name for path in copied(WORKER, tmp_path).parent.iterdir())
    assert files == ["case.json", "cassette.jsonl", "holdfast.toml", "refund-worker.md", "refund.py"]
