"""A store with queues, the command line in this process, and a runner by hand: what waits is admitted and ended as a test says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from holdfast.cli.main import program
from holdfast.model.clock import SystemClock
from holdfast.model.execution import Claimant, Execution, Outcome, OutcomeStatus
from holdfast.model.ids import id_at
from holdfast.model.operations import Failure
from holdfast.model.verbs import Settle
from holdfast.store.backends import open_store
from holdfast.store.seam import Store, Target

FUNCTIONS = """
from holdfast import Limits, Queue, durable_execution

emails = Queue("emails", at_once=2, rates="100/m", per_tenant=Limits(at_once=1))


@durable_execution
def send(event, context):
    return event
"""


class Scene:
    """One store, and commands on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder / "shop.db")
        self.functions = folder / "mail.py"
        self.functions.write_text(FUNCTIONS)

    def __call__(self, *words: str, input: str | None = None) -> Result:
        """Run `holdfast queues …` here."""
        return CliRunner().invoke(program("queues"), ["queues", *words, "--store", self.store], input=input)

    def said(self, *words: str, input: str | None = None) -> str:
        """The output of a command that succeeds."""
        ended = self(*words, input=input)
        assert ended.exit_code == 0, (ended.output, ended.exception)
        return ended.output

    def document(self, *words: str) -> Any:
        """The JSON document that a command prints."""
        return json.loads(self(*words, "--json").stdout)

    def lines(self, *words: str) -> list[dict[str, Any]]:
        """The JSON lines that a command prints."""
        return [json.loads(line) for line in self(*words, "--json").stdout.splitlines()]

    def push(self, *inputs: object, queue: str = "emails", options: Sequence[str] = ()) -> str:
        """Push these inputs to the function."""
        text = "".join(json.dumps(one) + "\n" for one in inputs)
        return self.said("push", queue, f"{self.functions}:send", "-", *options, input=text)

    def opened(self) -> Store:
        """The store, to be closed by the test."""
        return open_store(self.store, "tester", None)

    def admitted(self, count: int) -> Sequence[Execution]:
        """Admit at most so many runs, as a runner does."""
        store, now = self.opened(), SystemClock().now()
        try:
            done = store.admit([Target("send", "$LATEST")], [Claimant("tester", id_at(now)) for _ in range(count)], now)
            return [header for header in done.answers if isinstance(header, Execution)]
        finally:
            store.close()

    def ended(self, header: Execution, outcome: Outcome) -> Execution:
        """End the invocation of an admitted run."""
        store = self.opened()
        try:
            now = SystemClock().now()
            assert header.invocation is not None
            write = Settle(execution=header.id, epoch=header.epoch, invocation=header.invocation, seen=header.revision, outcome=outcome)
            (after,) = store.commit([write], now).answers
            assert isinstance(after, Execution), after
            return after
        finally:
            store.close()

    def failed(self, header: Execution, code: str = "LookupError", message: str = "no such address") -> Execution:
        """Let an admitted run fail."""
        return self.ended(header, Outcome(OutcomeStatus.FAILED, error=Failure(message, code)))

    def succeeded(self, header: Execution) -> Execution:
        """Let an admitted run succeed."""
        return self.ended(header, Outcome(OutcomeStatus.SUCCEEDED, "null"))
