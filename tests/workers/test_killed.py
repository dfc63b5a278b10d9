"""`kill -9` of a body, a tool's process, the runner and everything, at every moment of a call that changes the world.

Nothing is done twice, and a person is asked about an unknown outcome. A real server counts.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.model.operations import Operation, Status
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from holdfast.workers.run_lookup import Caller, calls_of, find_run
from holdfast.workers.run_operations import INTENT, RECEIPT
from tests.crash.scene import until
from tests.postgres import new_schema
from tests.workers.pages import page, write
from tests.workers.processes import Runner, end, ended, holdfast
from tests.workers.shop import Shop, a_shop

PAYERS = Path(__file__).parent / "bodies" / "payers.py"
TOOLS = ("pay_known", "pay_blind", "pay_known_asked", "pay_blind_asked")
HELD = ("before", "received", "done", "answered")
HAPPENED = ("done", "answered", "told")
ENOUGH_SECONDS = 300
"""Of an attempt that a test holds still while eight others reach their moments: its own time must not run out before the blow."""
HASTY_SECONDS = 12
"""Of an attempt that must run out of time, and whose next one must not."""
pytestmark = pytest.mark.timeout(ENOUGH_SECONDS)


class Case(msgspec.Struct, frozen=True):
    """One run, and the moment of its call at which the blow comes. `told`: the receipt is written, and the body has not heard of it."""

    moment: str
    tool: str
    worker: str = "async-payer"

    @property
    def order(self) -> str:
        return f"{self.moment}-{self.tool}"

    @property
    def asked(self) -> bool:
        return self.tool.endswith("_asked")

    @property
    def known(self) -> bool:
        """Whether the tool can find out what became of a lost call."""
        return "known" in self.tool


class Scene:
    """A shop, a store, and a runner that may be killed and started again."""

    def __init__(self, folder: Path, shop: Shop, store: str) -> None:
        self.shop = shop
        self._folder = folder
        self._store = store
        pages = {
            name: page(name.replace("_", "-"), *TOOLS, attempts=3, timeout_seconds=ENOUGH_SECONDS)
            for name in ("async_payer", "plain_payer")
        }
        self._file = write(folder / "payers", PAYERS, **pages)
        self._runners: list[Runner] = []
        self._runs: dict[str, str] = {}
        self.runner = self.another()
        self.client = Client.open(store)

    def another(self) -> Runner:
        """Start a runner on the same store."""
        environment = {"SHOP": self.shop.url}
        self.runner = Runner(self._store, self._file, folder=self._folder, environment=environment)
        self._runners.append(self.runner)
        return self.runner

    def close(self) -> None:
        self.client.close()
        self.runner.close()

    def ask(self, case: Case, **more: Any) -> int:
        return self.runner.ask(case.worker, {"order": case.order, "tool": case.tool}, key=case.order, **more)

    def begin(self, cases: Sequence[Case]) -> list[int]:
        """Bring every call to its moment, approved where that is needed."""
        numbers = []
        for case in cases:
            self.shop.hold(case.order, "received" if case.moment == "told" else case.moment)
            number = self.ask(case)
            if case.asked:
                response = self.runner.answer(number)
                assert (response["status"], response["error"]["error_code"]) == ("needs_human", "approval_required")
                self.client.approvals.decide(response["approvals"][0]["approval_id"], "approve")
                number = self.ask(case)
            numbers.append(number)
        for case in cases:
            self.shop.wait_for(case.order, "received" if case.moment == "told" else case.moment)
        told = [case for case in cases if case.moment == "told"]
        if told:
            self._tell_nobody(told)
        return numbers

    def _tell_nobody(self, cases: Sequence[Case]) -> None:
        """Let the calls be answered and written down while no body can hear of it."""
        for pid in self.runner.bodies():
            end(pid, signal.SIGSTOP)
        for case in cases:
            self.shop.let_go(case.order)
        for case in cases:
            until(lambda case=case: any(op.status is Status.SUCCEEDED for op in self.found(case, RECEIPT)), "its receipt")  # type: ignore[misc]

    def let_go(self, cases: Sequence[Case], *, lost: bool) -> None:
        for case in cases:
            if case.moment != "told":
                self.shop.let_go(case.order, lost=lost)

    def found(self, case: Case, sub_type: str) -> list[Operation]:
        """Operations of the case's run."""
        return [op for op in self.client.operations(self._run(case)) if op.sub_type == sub_type]

    def _run(self, case: Case) -> str:
        for header in self.client.list(Filter(limit=1000)):
            if header.id not in self._runs:
                self._runs[header.id] = self.client._store.input(header.id) or ""
            if f'"{case.order}"' in self._runs[header.id]:
                return header.id
        raise AssertionError(f"there is no run of {case.order}")

    def settle(self, case: Case, response: dict[str, Any], **more: Any) -> dict[str, Any]:
        """What a person does who looks at the shop's books."""
        assert (response["status"], response["error"]["error_code"]) == ("needs_human", "unknown_outcome"), case
        (approval,) = response["approvals"]
        assert (approval["kind"], approval["tool"]) == ("unknown_outcome", case.tool)
        if self.shop.effects_of(case.order):
            self.client.approvals.decide(approval["approval_id"], "happened", result={"paid": case.order})
        else:
            self.client.approvals.decide(approval["approval_id"], "not_happened")
        return self.runner.answer(self.ask(case, **more))

    def check_good(self, case: Case, response: dict[str, Any], attempt: int = 1) -> None:
        """It came to its end, and the shop did it once."""
        assert (response["status"], response["outputs"]) == ("ok", {"paid": case.order}), (case, response)
        assert (self.shop.effects_of(case.order), response["observability"]["attempt"]) == (1, attempt), case
        given = [op for op in self.found(case, "Approval") if '"verdict":"approve"' in (op.result or "")]
        calls = calls_of(self.client._store, *find_run(self.client._store, self._run(case), Caller()))
        spent = [call for call in calls if call.intent.approval is not None and not (call.receipt and call.receipt.void)]
        assert len(given) == len(spent) == case.asked, "approved once, and spent once"
        assert response["observability"]["isolation"] == "all"


Make = Callable[[str], Scene]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Make]:
    made: list[Scene] = []
    with a_shop() as shop:

        def make(store: str) -> Scene:
            made.append(Scene(tmp_path, shop, store))
            return made[-1]

        yield make
        for one in made:
            one.close()


def mixed(swapped: bool, *cases: tuple[str, str]) -> list[Case]:
    """Half of them by an `async def` body, half by a `def` body."""
    return [Case(moment, tool, "plain-payer" if (number + swapped) % 2 else "async-payer") for number, (moment, tool) in enumerate(cases)]


EVERY_MOMENT = tuple((moment, tool) for moment in HELD for tool in ("pay_known", "pay_blind"))
APPROVED = (
    ("told", "pay_known"),
    ("told", "pay_blind"),
    ("before", "pay_known_asked"),
    ("done", "pay_known_asked"),
    ("before", "pay_blind_asked"),
    ("answered", "pay_blind_asked"),
    ("told", "pay_known_asked"),
)


@pytest.mark.parametrize(
    "told", [pytest.param(EVERY_MOMENT, id="every-moment"), pytest.param(APPROVED, id="approved", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("target", ["runner", pytest.param("all", marks=pytest.mark.long)])
def test_after_the_death_of_the_runner_nothing_is_done_twice(
    scene: Make, tmp_path: Path, target: str, told: Sequence[tuple[str, str]]
) -> None:
    killed_everywhere(scene(str(tmp_path / "s.db")), mixed(target == "all", *told), target)


def killed_everywhere(at: Scene, cases: list[Case], target: str) -> None:
    at.begin(cases)
    if target == "runner":
        at.runner.kill()
    else:
        at.runner.kill_all()
    for case in cases:
        assert at.shop.effects_of(case.order) == (case.moment in HAPPENED), "the blow came at its moment"
    at.let_go(cases, lost=True)
    at.another()
    numbers = [at.ask(case) for case in cases]
    for case, number in zip(cases, numbers, strict=True):
        response = at.runner.answer(number)
        if not case.known and case.moment != "told":
            response = at.settle(case, response)
        at.check_good(case, response)
        assert len(at.found(case, INTENT)) == (1 if case.moment in HAPPENED else 2), "only what certainly did not happen is sent again"


@pytest.mark.long
def test_on_a_database_it_is_the_same(scene: Make) -> None:
    cases = mixed(False, ("before", "pay_known"), ("done", "pay_known_asked"), ("done", "pay_blind"), ("told", "pay_blind"))
    killed_everywhere(scene(new_schema()), cases, "all")


@pytest.mark.long
def test_a_killed_body_is_tried_again_and_its_call_in_flight_counts(scene: Make, tmp_path: Path) -> None:
    at = scene(str(tmp_path / "s.db"))
    second = (("told", "pay_known"), ("told", "pay_blind"), ("done", "pay_known_asked"), ("before", "pay_blind_asked"))
    for cases in (mixed(False, *EVERY_MOMENT), mixed(False, *second)):
        numbers = at.begin(cases)
        for pid in at.runner.bodies():
            end(pid)
        at.let_go(cases, lost=False)
        for case, number in zip(cases, numbers, strict=True):
            at.check_good(case, at.runner.answer(number), attempt=2)
            assert len(at.found(case, INTENT)) == 1


@pytest.mark.long
def test_a_killed_tool_leaves_a_call_to_be_found_out_or_asked_about(scene: Make, tmp_path: Path) -> None:
    at = scene(str(tmp_path / "s.db"))
    cases = mixed(False, *EVERY_MOMENT)
    numbers = at.begin(cases)
    for pid in at.runner.tool_processes():
        end(pid)
    at.let_go(cases, lost=True)
    for case, number in zip(cases, numbers, strict=True):
        response = at.runner.answer(number)
        if not case.known:
            response = at.settle(case, response)
        assert (response["status"], at.shop.effects_of(case.order)) == ("ok", 1), (case, response)


@pytest.mark.long
def test_a_call_that_is_killed_with_its_attempt_is_found_out_or_asked_about(scene: Make, tmp_path: Path) -> None:
    at = scene(str(tmp_path / "s.db"))
    cases = mixed(False, ("done", "pay_known"), ("done", "pay_blind"), ("before", "pay_known"), ("before", "pay_blind"))
    for case in cases:
        at.shop.hold(case.order, case.moment)
    numbers = [at.ask(case, constraints={"timeout_seconds": HASTY_SECONDS}) for case in cases]
    for case, number in zip(cases, numbers, strict=True):
        response = at.runner.answer(number)
        if not case.known:
            response = at.settle(case, response, constraints={"timeout_seconds": HASTY_SECONDS})
        assert (response["status"], at.shop.effects_of(case.order)) == ("ok", 1), (case, response)


@pytest.mark.long
def test_the_command_line_goes_on_after_a_kill_and_a_person_settles_what_is_unknown(tmp_path: Path) -> None:
    pages = {name: page(name.replace("_", "-"), *TOOLS, timeout_seconds=ENOUGH_SECONDS) for name in ("async_payer", "plain_payer")}
    file = write(tmp_path / "payers", PAYERS, **pages)
    with a_shop() as shop:

        def told(case: Case) -> subprocess.Popen[str]:
            inputs = json.dumps({"order": case.order, "tool": case.tool})
            target = f"{file}:{case.worker}"
            more = ("--input", inputs, "--key", case.order, "--json", "--trust")
            return holdfast("run", target, *more, folder=tmp_path, environment={"SHOP": shop.url})

        for case in (Case("done", "pay_known"), Case("received", "pay_blind", "plain-payer")):
            shop.hold(case.order, case.moment)
            killed = told(case)
            shop.wait_for(case.order, case.moment)
            killed.kill()
            assert ended(killed)[0] == -signal.SIGKILL
            shop.let_go(case.order, lost=True)
            code, out, errors = ended(told(case))
            response = json.loads(out)
            if not case.known:
                assert (code, response["error"]["error_code"]) == (4, "unknown_outcome"), errors
                approval = response["approvals"][0]["approval_id"]
                assert f"holdfast approvals settle {approval}" in errors
                settled = holdfast("approvals", "settle", approval, "not_happened", folder=tmp_path, environment={})
                assert ended(settled)[0] == 0
                code, out, errors = ended(told(case))
                response = json.loads(out)
            assert (code, response["status"], response["outputs"]) == (0, "ok", {"paid": case.order}), errors
            assert (shop.effects_of(case.order), response["observability"]["attempt"]) == (1, 1)
