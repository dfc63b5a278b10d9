"""Every code of the one table, each reached by a real run: its status, whether it may be tried again, and its exit code are the table's."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

import holdfast
from holdfast.cli.workers import exit_code
from holdfast.contract.codes import CODES
from holdfast.contract.protocol import Response, WorkerRequest, response_from
from holdfast.durable.journal import identity_of
from holdfast.model.clock import VirtualClock
from holdfast.model.operations import Failure, Type
from holdfast.service.client import Client
from holdfast.service.engines import BlockingEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from holdfast.workers.artifacts import HandedFile
from holdfast.workers.child_requests import MAX_DEPTH, ChildRequest
from holdfast.workers.policy import DayCaps, Most, Policy
from holdfast.workers.run_lookup import Caller, find_run
from holdfast.workers.tools.fetch_url import FetchSettings
from tests.conftest import ROOT
from tests.crash.scene import until
from tests.unit.test_schema_costs import doubling
from tests.workers.pages import page, write
from tests.workers.processes import ended
from tests.workers.processes import holdfast as command_line

REACHING = Path(__file__).parent / "bodies" / "reaching.py"
TOOLS = ("look", "slow", "far", "broken", "held", "late", "vanishing", "pay", "pay_asked", "fetch_url", "language_model")
ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
WHAT = {"type": "object", "properties": {"do": {"type": "string"}}, "required": ["do"]}
KERNEL = "unshare,setns,mount,landlock_create_ruleset"
"""Without these the sandbox cannot lock a body in."""
PAY = {"do": "tool", "tool": "pay_asked", "arguments": {"cents": 1}}


def worker_file(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    limits: dict[str, Any] = {"max_memory_mb": 192, "max_cpu_seconds": 1.5, "timeout_seconds": 90, "idle_timeout_seconds": 60}
    return write(
        folder / "worker",
        REACHING,
        reaching=page("reaching", *TOOLS, attempts=1, inputs=WHAT, outputs=ANSWER, **limits),
        seldom=page("seldom", attempts=1, rate_limit="1/min per tenant"),
    )


class World:
    """An engine with real jails, a web server that refuses, one that says nothing, and an address without a server."""

    def __init__(self, folder: Path, engine: BlockingEngine, file: Path, forbidden: str, silent: str) -> None:
        self.engine = engine
        self.client = Client.open(str(folder / "s.db"))
        self.folder = folder
        self.file = file
        self.forbidden = forbidden
        self.silent = silent

    def run(self, do: Any, *, key: str | None = None, constraints: Mapping[str, Any] | None = None, **inputs: Any) -> Response:
        response: Response = self.engine.run("reaching", {"do": do, **inputs}, idempotency_key=key, constraints=constraints)
        return response

    def tool(self, name: str, constraints: Mapping[str, Any] | None = None, **arguments: Any) -> Response:
        return self.run("tool", constraints=constraints, tool=name, arguments=arguments)

    def twice(self, name: str, *calls: Mapping[str, Any], **constraints: Any) -> Response:
        return self.run("twice", constraints=constraints or None, tool=name, calls=calls)

    def rejected(self) -> Response:
        """A person said no."""
        asked: Response = self.engine.run("reaching", PAY, idempotency_key="rejected")
        self.client.approvals.decide(asked.approvals[0]["approval_id"], "reject")
        response: Response = self.engine.run("reaching", PAY, idempotency_key="rejected")
        return response

    def dear(self) -> Response:
        """The most that it can cost is not known, its tenant's day has a cap, and the operator wants to know before."""
        policy = Policy(isolation="inline", estimate="worst", caps=DayCaps(tokens=1000))
        with holdfast.open(":memory:", workers=[self.file], worker_settings=WorkerSettings(policy=policy)) as engine:
            response: Response = engine.run("reaching", {"do": "well"})
            return response

    def expired(self) -> Response:
        """No person decided, on a clock that does not wait."""
        worker_settings = WorkerSettings(policy=Policy(isolation="inline", approval_seconds=60))
        settings = Settings(clock=VirtualClock(), tune=False)
        with holdfast.open(":memory:", workers=[self.file], worker_settings=worker_settings, settings=settings) as engine:

            async def over() -> Response:
                service = engine._inner.worker_service
                header = (await service.accept(WorkerRequest(worker_id="reaching", inputs=PAY), Caller()))[0]
                await engine._inner._engine.ending(header.id)
                return await service.response(header.id, Caller())

            response: Response = engine._loop_thread.call(over)
            return response

    def cancelled(self) -> Response:
        """Another caller cancelled the run while its body was at work."""
        engine, found = self.engine, list[Response]()
        thread = threading.Thread(target=lambda: found.append(self.run("sleep", key="cancelled")))
        thread.start()
        (at_work,) = until(lambda: [x for x in self.client.list(Filter(limit=1)) if x.invocation is not None], "it to be at work")
        engine._loop_thread.call(lambda: engine._inner.worker_service.cancel(at_work.id, Caller()))
        thread.join()
        return found[0]

    def grown(self) -> Response:
        """The body writes on while its artifact is read; the reader waits for that here, so that it always happens."""
        read = HandedFile.read

        def late(file: HandedFile, most: int) -> bytes:
            until(lambda: os.fstat(file._fd).st_size > file.size, "the body to write on")
            return read(file, most)

        with mock.patch.object(HandedFile, "read", late):
            return self.run("growing")

    def changed(self) -> Response:
        """While a run waited for a person, its code was changed on disk."""
        store, file = str(self.folder / "changed.db"), worker_file(self.folder / "changed")
        with holdfast.open(store, workers=[file]) as engine:
            asked: Response = engine.run("reaching", PAY, idempotency_key="changed")
        Path(f"{store}.workers/packages/{self._pinned(store)}").write_text("import os\n")
        file.write_text(file.read_text() + "# another version\n")
        with holdfast.open(store, workers=[file]) as engine:
            with closing(Client.open(store)) as client:
                client.approvals.decide(asked.approvals[0]["approval_id"], "approve")
            response: Response = engine.run("reaching", PAY, idempotency_key="changed")
        return response

    def untrusted(self) -> Response:
        """The operator does not trust the folder that the worker's tools are in."""
        opening = holdfast.open(str(self.folder / "untrusted.db"), workers=[worker_file(self.folder / "untrusted")])
        assert opening.runtime is not None
        opening.runtime.admits = lambda worker, tool: f"{worker} is not trusted, and so {tool.name} does not run."
        with opening as engine:
            response: Response = engine.run("reaching", PAY)
        return response

    @staticmethod
    def _pinned(store: str) -> str:
        (folder,) = [path.parent for path in Path(f"{store}.workers/packages").glob("*/reaching.md")]
        (folder / "reaching.py").chmod(0o644)
        return f"{folder.name}/reaching.py"

    def conflict(self) -> Response:
        self.run("nothing", key="conflict")
        return self.run("something", key="conflict")

    def too_often(self) -> Response:
        self.engine.run("seldom", {})
        response: Response = self.engine.run("seldom", {})
        return response

    def on_another_machine(self) -> Response:
        """Whose kernel cannot lock anybody in."""
        order = ["run", f"{self.file}:reaching", "--input", '{"do": "x"}', "--json", "--trust"]
        command = [sys.executable, "-m", "tests.workers.refusing", KERNEL, *order]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "HOLDFAST_STORE": str(self.folder / "other.db")}
        code, out, errors = ended(
            subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        assert code == CODES["sandbox_unavailable"].exit, errors
        return response_from(out)

    def deep(self) -> Response:
        """A run that stands below as many as may be asks for one more."""
        service = self.engine._inner.worker_service
        header, accepted = find_run(self.engine._inner._store, self.run("well").run_id, Caller())
        child = ChildRequest(worker_id="reaching", inputs={"do": "well"})
        run = msgspec.structs.replace(accepted, depth=MAX_DEPTH)
        refused = self.engine._loop_thread.call(lambda: service.accept_child(header, run, identity_of(Type.STEP, "x", "x"), child))
        assert isinstance(refused, Failure)
        return response_from(refused.data or "")

    def other(self, worker: str, **more: Any) -> Response:
        response: Response = self.engine.run(worker, {"do": "x"}, **more)
        return response


def _raised(code: str) -> Callable[[World], Response]:
    return lambda world: world.run("raise", code=code)


REACHED: dict[str, Callable[[World], Response]] = {
    "schema_mismatch": lambda world: world.run(7),
    "worker_not_found": lambda world: world.other("no-such-worker"),
    "version_not_found": lambda world: world.other("reaching", version="9.9"),
    "idempotency_conflict": World.conflict,
    "constraint_widened": lambda world: world.run("x", constraints={"timeout_seconds": 91}),
    "missing_diff_context": lambda world: world.run("raise", code="missing_diff_context"),
    "output_schema_mismatch": lambda world: world.run("wrong"),
    "timeout": lambda world: world.run("sleep", constraints={"timeout_seconds": 0.5}),
    "idle_timeout": lambda world: world.run("sleep", constraints={"idle_timeout_seconds": 0.3}),
    "rate_limited": World.too_often,
    "overloaded": lambda world: world.run("crowd", many=8),
    "worker_crashed": lambda world: world.run("die"),
    "tool_timeout": lambda world: world.tool("slow"),
    "tool_unavailable": lambda world: world.tool("far"),
    "fetch_timeout": lambda world: world.tool("fetch_url", url=world.silent),
    "schema_too_costly": lambda world: world.tool("language_model", prompt="hm", schema=doubling(36)),
    "budget_exceeded": lambda world: world.twice("look", {}, {}, max_tool_calls=1),
    "estimate_exceeded": World.dear,
    "price_unknown": lambda world: world.tool("language_model", {"max_cost_usd": 1}, prompt="hm"),
    "tool_not_allowed": lambda world: world.tool("elsewhere"),
    "tool_quota_exceeded": lambda world: world.twice("look", {}, {}, tool_quotas={"look": 1}),
    "tool_failed": lambda world: world.tool("broken"),
    "egress_denied": lambda world: world.tool("fetch_url", url="http://10.0.0.1/"),
    "access_denied": lambda world: world.tool("fetch_url", url=world.forbidden),
    "memory_exceeded": lambda world: world.run("remember"),
    "cpu_exceeded": lambda world: world.run("spin"),
    "disk_exceeded": lambda world: world.run("scribble"),
    "process_limit": lambda world: world.run("fork"),
    "limits_unreadable": lambda world: world.run("raise", code="limits_unreadable"),
    "step_limit": lambda world: world.run("steps", many=30),
    "sandbox_unavailable": World.on_another_machine,
    "cancelled": World.cancelled,
    "artifact_not_found": lambda world: world.run("open"),
    "artifact_too_large": lambda world: world.run("keep", bytes=5000),
    "artifact_changed": World.grown,
    "package_changed": World.changed,
    "tool_not_trusted": World.untrusted,
    "approval_rejected": World.rejected,
    "approval_expired": World.expired,
    "merge_conflict": lambda world: world.run("raise", code="merge_conflict"),
    "depth_exceeded": World.deep,
    "run_unavailable": lambda world: world.run("raise", code="run_unavailable"),
    "poison_message": lambda world: world.run("raise", code="poison_message"),
    # Pipelines reach these (tests/pipelines); `expired` belongs to queues.
    **{code: _raised(code) for code in ("supervise_unknown_choice", "supervise_invalid_answer", "supervise_turns", "until_not_reached")},
    **{code: _raised(code) for code in ("pipeline_invalid", "edge_mismatch", "gate_blocked", "route_unknown", "expired", "undo_failed")},
    "approval_impossible": _raised("approval_impossible"),
    "unknown_outcome": lambda world: world.tool("vanishing"),
    "receipt_conflict": lambda world: world.twice("pay", {"cents": 1, "key": "k"}, {"cents": 2, "key": "k"}),
    "approval_required": lambda world: world.tool("pay_asked", cents=1),
}


class _Forbidding(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("codes")
    file = worker_file(folder)
    server = HTTPServer(("127.0.0.1", 0), _Forbidding)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    gone, silent = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    addresses = [f"http://127.0.0.1:{number}/" for number in (server.server_address[1], silent.getsockname()[1], gone.getsockname()[1])]
    gone.close()
    worker_settings = WorkerSettings(
        policy=Policy(scratch_mb=4, artifact_bytes=4000, most=Most(steps=20)),
        fetch=FetchSettings(allow_private=("127.0.0.1",), robots=False, timeout_seconds=0.3),
    )
    with (
        mock.patch.dict(os.environ, {"NO_SERVER": addresses[2]}),
        holdfast.open(str(folder / "s.db"), workers=[file], worker_settings=worker_settings) as engine,
    ):
        world = World(folder, engine, file, *addresses[:2])
        with contextlib.closing(world.client):
            yield world
    silent.close()
    server.shutdown()
    server.server_close()


def test_every_code_of_the_table_has_a_run_that_reaches_it() -> None:
    assert set(REACHED) == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_run_reaches_the_code_and_means_what_the_table_says(world: World, code: str) -> None:
    response, meaning = REACHED[code](world), CODES[code]
    assert response.error is not None
    assert (response.error.error_code, response.status, response.error.retryable) == (code, meaning.status, meaning.retryable), response
    assert exit_code(response) == meaning.exit
    assert response.observability.log_fields.get("error_code", code) == code


def test_a_good_run_is_ok_and_says_what_held_it(world: World) -> None:
    response = world.run("well")
    assert (response.status, response.outputs, response.error, exit_code(response)) == ("ok", {"answer": "well"}, None, 0)
    assert response.observability.isolation == "all"


@pytest.mark.parametrize(
    "inputs, more",
    [
        (None, {}), ([], {}), ({1: 2}, {}), ({"do": object()}, {}), ({"do": "x"}, {"constraints": 5}), ({"do": "x"}, {"version": 1.0}),
        ({"do": "x"}, {"idempotency_key": ""}), ({"do": "x"}, {"user": 5}), ({"do": "x"}, {"run_timeout_seconds": -1}),
        ({"do": "x"}, {"trace": {"trace_id": 5}}),
    ],
)  # fmt: skip
def test_in_python_too_a_request_that_does_not_fit_is_answered_and_nothing_is_raised(world: World, inputs: Any, more: Any) -> None:
    response: Response = world.engine.run("reaching", inputs, **more)
    assert response.error is not None
    assert (response.status, response.error.error_code, response.run_id) == ("invalid_request", "schema_mismatch", "")


def test_outputs_above_the_limit_of_an_artifact_are_refused_as_such(world: World) -> None:
    response = world.run("large", bytes=100_000)
    assert response.error is not None
    assert (response.error.error_code, response.status) == ("artifact_too_large", "permanent_error")


@pytest.mark.parametrize(
    "inputs, exit",
    [({"do": "raise", "code": "merge_conflict"}, 1), ({}, 2), pytest.param({"do": "die"}, 75, marks=pytest.mark.long)],
)
def test_the_command_line_ends_with_the_exit_code_of_the_table(world: World, inputs: dict[str, Any], exit: int) -> None:
    process = command_line("run", f"{world.file}:reaching", "--trust", "--input", json.dumps(inputs), folder=world.folder, environment={})
    assert ended(process)[0] == exit
