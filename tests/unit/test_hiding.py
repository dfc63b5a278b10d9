"""Secrets of a run's inputs stay out of its log, and looking for them costs the same whatever a caller and a body choose."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdfast.contract.redaction import REDACTED
from holdfast.workers.attempt_log import AttemptLog
from holdfast.workers.input_secrets import MOST_CHARACTERS, MOST_SECRETS, InputSecrets, secrets_in
from holdfast.workers.run_reporters import RunReporter
from holdfast.workers.tools.encodings import undone
from holdfast.workers.tools.secrets import Redactor

SCHEMA = {"type": "object", "properties": {"keys": {"x-redact": True}}}
DENSE = "%2541\nAAAABBBBCCCC\n4142434445464748%25"
"""Has every disguise in it, so that each can be undone in any order."""


def line(message: str, **more: Any) -> dict[str, Any]:
    return {"level": "info", "message": message, "attempt": 1, **more}


def test_a_secret_of_the_inputs_is_not_in_a_line() -> None:
    hiding = InputSecrets({"keys": ["hunter2hunter2"]}, SCHEMA)
    told = line("I was given hunter2hunter2", more=["hunter2hunter2"])
    wanted = line("I was given [redacted:keys]", more=["[redacted:keys]"])
    assert hiding.line(told) == wanted
    assert asyncio.run(hiding.line_in_thread(told)) == wanted


@pytest.mark.parametrize("keys", [[f"secret-{number:05}" for number in range(20_000)], ["s" * (MOST_CHARACTERS + 1)]])
def test_a_run_with_more_secrets_than_can_be_looked_for_has_a_log_without_texts(keys: list[str]) -> None:
    began = time.process_time()
    hiding = InputSecrets({"keys": keys}, SCHEMA)
    assert hiding.line(line(f"I was given {keys[-1]}", key=keys[-1])) == line(REDACTED, key=REDACTED)
    refusal = line(f"no {keys[-1]}", event="tool_refused", tool="pay", error_code="tool_failed")
    assert hiding.line(refusal) == {**refusal, "message": REDACTED}
    assert hiding.text(keys[-1]) == REDACTED
    assert time.process_time() - began < 0.5  # each secret has some thirty forms: all of them took five seconds


def test_as_many_secrets_as_can_be_looked_for_are() -> None:
    keys = [f"secret-{number:05}" for number in range(MOST_SECRETS)]
    assert len(secrets_in({"keys": keys}, SCHEMA) or ()) == MOST_SECRETS
    assert secrets_in({"keys": [*keys, "one-more"]}, SCHEMA) is None


def test_layers_that_can_be_undone_in_any_order_are_looked_at_once() -> None:
    seen = [view.text for view in undone(DENSE, 4)]
    assert len(seen) == len(set(seen))
    assert len(seen) < 64


def test_a_long_line_of_a_body_is_looked_at_beside_the_loop() -> None:
    class Watching(RunReporter):
        async def without_secrets(self, record: dict[str, Any]) -> dict[str, Any]:
            return await InputSecrets({"keys": ["hunter2hunter2"]}, SCHEMA).line_in_thread(record)

    where: set[int] = set()
    value = Redactor.value

    def noted(self: Redactor, given: Any) -> Any:
        where.add(threading.get_ident())
        return value(self, given)

    async def said() -> tuple[dict[str, Any], ...]:
        lines = AttemptLog(1, Watching(), 10)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Redactor, "value", noted)
            await lines.add_from_body("info", "hunter2hunter2", {"texts": [DENSE] * 300})
        return lines.kept()

    (kept,) = asyncio.run(said())
    assert kept["message"] == "[redacted:keys]"
    assert where, "it was looked at"
    assert threading.get_ident() not in where
