"""`holdfast runner`: real processes that run what waits in a store, chosen by function, queue and tenant, and that leave on a signal."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from holdfast.cli.main import program
from holdfast.model.clock import SystemClock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import ExecutionStatus
from holdfast.model.schedules import Origin
from holdfast.schedules.declarations import Schedule
from holdfast.schedules.store_schedules import Schedules
from holdfast.store.seam import Filter
from tests.library.scene import copied
from tests.surface.cli_program import Program, until
from tests.surface.queue_scene import Scene

FUNCTIONS = """
import os, threading
from pathlib import Path
from holdfast import durable_execution

HERE = Path(__file__).parent


def note(line):
    with (HERE / "log").open("a") as log:
        log.write(line + "\\n")


@durable_execution
def send(event, context):
    note(f"begin {os.getpid()}")
    while event.get("waits") and not (HERE / "go").exists():
        threading.Event().wait(0.01)
    note(f"end {os.getpid()}")
    return event


@durable_execution
def other(event, context):
    return event
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    scene.functions.write_text(FUNCTIONS)
    return scene


def finished(scene: Scene, status: ExecutionStatus = ExecutionStatus.SUCCEEDED) -> list[str]:
    store = scene.opened()
    try:
        return sorted(x.name for x in store.list(Filter(statuses=(status,))))
    finally:
        store.close()


def test_a_runner_takes_its_queue_and_tenant_prints_what_it_hosts_and_leaves_on_a_signal(scene: Scene) -> None:
    for queue, tenant, name in (("emails", "acme", "mine"), ("emails", "other", "theirs"), ("reports", "acme", "elsewhere")):
        scene.push({"id": name}, queue=queue, options=["--tenant", tenant, "--key-field", "id"])
    holdfast = Program(scene.folder)
    words = [
        "runner",
        "mail.py",
        "--function",
        "send",
        "--queue",
        "emails",
        "--queue",
        "email",
        "--tenant",
        "acme",
        "--at-once",
        "2",
        "--metrics-port",
        "0",
        "--store",
        scene.store,
    ]
    process = holdfast.begin(*words)
    told: list[str] = []
    try:
        until(lambda: finished(scene) == ["mine"])
        assert process.stdout is not None
        while not told or not told[-1].startswith("metrics: "):
            told.append(process.stdout.readline().strip())
        address = told.pop().removeprefix("metrics: ")
        measured = until(lambda: text if "closed_total" in (text := httpx.get(address).text) else None)
        strange = httpx.get(address, headers={"host": "evil.example"})
        wrong = httpx.post(address)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert address.startswith("http://127.0.0.1:")
    assert 'queue_depth{queue="emails"} 1' in measured
    assert 'holdfast_executions_closed_total{function="send",status="SUCCEEDED"} 1.0' in measured
    assert (strange.status_code, wrong.status_code) == (421, 404)
    assert told[0].startswith("running what waits in ")
    assert [line.split() for line in told[1:3]] == [["RUNS", "VERSION", "KIND"], ["send", "$LATEST", "function"]]
    assert told[3:] == ["only queues email, emails", "only tenants acme", "at most 2 at once"]
    waits = "warning: queue email is not in this store; the runner waits for runs that are pushed into it. Did you mean `emails`?"
    assert [line for line in err.splitlines() if line.startswith("warning: queue")] == [waits]
    assert "leaving: waiting until running work can be stopped" in err
    assert finished(scene) == ["mine"]


def test_a_runner_prints_what_its_functions_log_and_why_they_failed(scene: Scene) -> None:
    scene.functions.write_text(
        "from holdfast import durable_execution\n\n\n@durable_execution\ndef send(event, context):\n"
        "    context.logger.info('to %s', event)\n    raise ValueError('no such address')\n"
    )
    scene.push("bob")
    process = Program(scene.folder).begin("runner", "mail.py", "--store", scene.store)
    try:
        until(lambda: finished(scene, ExecutionStatus.FAILED))
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    (execution,) = finished(scene, ExecutionStatus.FAILED)
    said = [line.removeprefix(f"send/{execution}: ") for line in err.splitlines() if line.startswith("send/")]
    assert said == ["to bob", f"the code raised ValueError: no such address, at {scene.functions}:7 in send"]


def test_a_runner_declares_the_schedules_of_its_files_and_of_the_operators_file(scene: Scene) -> None:
    scene.functions.write_text(FUNCTIONS + '\nfrom holdfast import Schedule\nnightly = Schedule("nightly", send, cron="0 2 * * *")\n')
    (scene.folder / "operator.toml").write_text('[schedules.weekly]\nrun = "other"\ncron = "0 6 * * MON"\n')
    store = scene.opened()
    Schedules(store, SystemClock()).declare(Schedule("deleted", "send", cron="0 3 * * *"), origin=Origin.CODE)
    store.close()
    holdfast = Program(scene.folder)
    process = holdfast.begin("runner", "mail.py", "--config", "operator.toml", "--store", scene.store)

    def declared() -> list[tuple[str, str, object]]:
        lines = holdfast("schedules", "list", "--json", "--store", scene.store).stdout.splitlines()
        return [(one["name"], one["origin"], one["input"]) for one in map(json.loads, lines)]

    try:
        until(lambda: declared() == [("deleted", "code", {}), ("nightly", "code", {}), ("weekly", "toml", {})] or None)
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    (told,) = [line for line in err.splitlines() if "schedule" in line]
    assert told == (
        "warning: schedule deleted of send was declared earlier (code), and is not now; it goes on. "
        "If its declaration was deleted: holdfast schedules remove deleted"
    )


def test_no_more_run_at_once_than_the_runner_is_told(scene: Scene) -> None:
    scene.push(*({"id": number, "waits": True} for number in range(6)), options=["--key-field", "id"])
    holdfast = Program(scene.folder)
    process = holdfast.begin("runner", "mail.py", "--at-once", "2", "--store", scene.store)
    try:
        until(lambda: (scene.folder / "log").exists() and len((scene.folder / "log").read_text().splitlines()) == 2)
        assert scene.document("show", "emails")["held"] == 2
        (scene.folder / "go").touch()
        until(lambda: len(finished(scene)) == 6)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    running = most = 0
    for line in (scene.folder / "log").read_text().splitlines():
        running += 1 if line.startswith("begin") else -1
        most = max(most, running)
    assert most == 2


@pytest.mark.parametrize(
    "words, says",
    [
        (["--function", "sned"], "--function: the targets have no sned. Known: other, send."),
        (["--worker", "w"], "--worker: the targets have no w. Known: none."),
        (["--pipeline", "p"], "--pipeline: the targets have no p. Known: none."),
        (["--queue", "e mails"], "is not a name of a queue"),
        (["--store", ":memory:"], "A store in memory belongs to one program"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused_before_anything_runs(scene: Scene, words: list[str], says: str) -> None:
    ended = CliRunner().invoke(program("runner"), ["runner", str(scene.functions), "--store", scene.store, *words])
    assert isinstance(ended.exception, HoldfastError)
    assert says in str(ended.exception)
    assert not Path(scene.store).exists()


def test_a_metrics_port_that_is_in_use_is_refused_with_what_to_do(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["runner", str(scene.functions), "--metrics-port", port, "--store", scene.store]
        ended = CliRunner().invoke(program("runner"), words)
    assert isinstance(ended.exception, HoldfastError)
    assert "Name another port with --metrics-port, 0 for any free one" in str(ended.exception)


def test_a_template_is_left_to_a_server(scene: Scene) -> None:
    template = scene.folder / "template.json"
    function = {"Type": "AWS::Serverless::Function", "Properties": {"Handler": "mail.send", "Runtime": "python3.11", "CodeUri": "."}}
    template.write_text(json.dumps({"Transform": "AWS::Serverless-2016-10-31", "Resources": {"Send": function}}))
    ended = CliRunner().invoke(program("runner"), ["runner", str(template), "--store", scene.store])
    assert isinstance(ended.exception, HoldfastError)
    assert "functions of templates run in `holdfast serve`" in str(ended.exception)


@pytest.mark.long
def test_a_runner_runs_a_worker_that_a_queue_admits_and_leaves_functions_to_others(scene: Scene, tmp_path: Path) -> None:
    folder = copied("queue-based-worker", tmp_path).parent
    case = json.loads((folder / "case.json").read_text())
    lines = "".join(json.dumps(one) + "\n" for one in (case, {"message": {}, "idempotency_key": "poison"}))
    scene.said("push", "messages", str(folder / "worker.py"), "-", "--key-field", "idempotency_key", input=lines)
    scene.push({"id": "plain"}, options=["--key-field", "id"])
    holdfast = Program(folder)
    targets = ["worker.py", str(scene.functions)]
    process = holdfast.begin(
        "runner", *targets, "--worker", "queue-based-worker", "--trust", "--config", "holdfast.toml", "--store", scene.store
    )
    try:
        until(lambda: scene.document("show", "messages")["admitted"] == 2 and scene.document("show", "messages")["held"] == 0)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert [line.split() for line in out.splitlines()[1:]] == [["RUNS", "VERSION", "KIND"], ["queue-based-worker", "$LATEST", "worker"]]
    (parked,) = scene.lines("parked", "messages")
    assert parked["error_code"] == "poison_message"
    assert scene.document("show", "emails")["waiting"] == 1
    assert scene.document("show", "messages")["settings"]["declared"]["at_once"] == 20
