"""Workers that many ask for: tenants apart, logins and roles, a server that is killed, one that leaves, and one whose files change."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from holdfast.model.audit import NoteFilter
from holdfast.store.backends import open_store
from holdfast.web.auth.keys import Issued
from tests.surface.serve_program import Program, Programs, programs, until
from tests.surface.served_workers import SAID, SAYS, approval_in, ask, events_of, issue, start, web, written
from tests.workers.pages import page


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["error_code"]


class Office:
    """A server with logins."""

    def __init__(self, folder: Path, started: Programs) -> None:
        written(folder)
        self.folder = folder
        self.issued: dict[str, Issued] = {
            "acme": issue(folder, "operator", tenant="acme"),
            "acme_approver": issue(folder, "approver", tenant="acme"),
            "acme_both": issue(folder, "approver", "operator", tenant="acme"),
            "bolt": issue(folder, "operator", "approver", tenant="bolt"),
            "viewer": issue(folder, "viewer", tenant="acme"),
            "own": issue(folder, "approver", "operator", tenant="acme"),
            "settler": issue(folder, "settler", tenant="acme"),
            "admin": issue(folder, "admin"),
        }
        self.program = start(started)
        self.clients = {name: web(self.program, issued) for name, issued in self.issued.items()}

    def __getattr__(self, name: str) -> httpx.Client:
        return self.clients[name]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("office")
    with programs(folder) as started:
        office = Office(folder, started)
        yield office
        for client in office.clients.values():
            client.close()


# --- logins and roles


def test_without_a_login_nothing_is_served_and_the_answer_has_the_protocols_shape(office: Office) -> None:
    with web(office.program) as anonymous:
        for answer in (anonymous.get("/v1/workers"), ask(anonymous, "echo", {"say": "hi"}), anonymous.get("/v1/nothing")):
            assert code_of(answer) == (401, "access_denied")
            assert answer.json()["status"] == "permanent_error"
            assert answer.headers["www-authenticate"] == 'Bearer realm="holdfast"'
        assert anonymous.get("/metrics").status_code == 401


def test_each_role_may_do_its_own(office: Office) -> None:
    approval = approval_in(ask(office.acme, "payer", {"cents": 1}))
    place = f"/v1/approvals/{approval['approval_id']}"
    assert code_of(ask(office.viewer, "echo", {"say": "hi"})) == (403, "access_denied")
    assert code_of(ask(office.acme_approver, "echo", {"say": "hi"})) == (403, "access_denied")
    assert code_of(office.viewer.post("/v1/artifacts", content=b"x")) == (403, "access_denied")
    assert code_of(office.viewer.post(f"/v1/runs/{approval['run_id']}/cancel")) == (403, "access_denied")
    assert code_of(office.acme.post(f"{place}/approve")) == (403, "access_denied")
    assert office.viewer.get(place).json()["state"] == "open"
    assert office.acme_approver.post(f"{place}/reject").json()["state"] == "reject"


def test_nobody_decides_what_he_asked_for_whomever_he_names_as_its_user(office: Office) -> None:
    approval = approval_in(ask(office.acme_both, "payer", {"cents": 1}, user="another person"))
    place = f"/v1/approvals/{approval['approval_id']}"
    assert approval["requested_by"] == office.issued["acme_both"].credential.id
    assert code_of(office.acme_both.post(f"{place}/approve")) == (403, "approver_refused")
    decided = office.acme_approver.post(f"{place}/approve").json()
    assert (decided["decided_by"], decided["own_request"]) == (office.issued["acme_approver"].credential.id, False)
    assert office.acme.get(f"/v1/runs/{approval['run_id']}", params={"wait": "30"}).json()["outputs"] == {"paid": 1}


def test_who_settles_does_not_approve_and_who_approves_does_not_settle(office: Office) -> None:
    approval = approval_in(ask(office.acme, "echo", {"say": "x", "do": "ask"}))
    place = f"/v1/approvals/{approval['approval_id']}"
    for verb, body in (("approve", b"{}"), ("reject", b"{}"), ("answer", b'{"result": "red"}')):
        assert code_of(office.settler.post(f"{place}/{verb}", content=body)) == (403, "access_denied")
    for verdict in ("happened", "stop", "approve", "reject"):
        body = json.dumps({"verdict": verdict}).encode()
        assert code_of(office.acme_approver.post(f"{place}/settle", content=body)) == (403, "access_denied")
        assert code_of(office.settler.post(f"{place}/settle", content=body)) == (422, "approval_refused")
    assert office.acme_approver.post(f"{place}/answer", content=b'{"result": "red"}').status_code == 200


def test_an_approver_cannot_cancel_a_run_through_its_callback(office: Office) -> None:
    approval = approval_in(ask(office.acme, "payer", {"cents": 1}, idempotency_key="not cancelled"))
    store = open_store(str(office.folder / "orders.db"), "looking", None)
    try:
        callbacks = [op.callback_id for op in store.operations(approval["run_id"]) if op.callback_id]
    finally:
        store.close()
    assert len(callbacks) == 2, "the approval, and what cancels"
    for callback in callbacks:
        for how in ("succeed", "fail", "heartbeat"):
            answer = office.acme_approver.post(f"/2025-12-01/durable-execution-callbacks/{quote(callback or '', safe='')}/{how}")
            assert answer.status_code == 404, answer.text
    assert office.viewer.get(f"/v1/runs/{approval['run_id']}").json()["state"] == "waiting"
    assert office.acme.post(f"/v1/runs/{approval['run_id']}/cancel").json()["error"]["error_code"] == "cancelled"


def test_decisions_and_refusals_of_a_server_are_in_the_audit_log(office: Office) -> None:
    approval = approval_in(ask(office.own, "echo", {"say": "x", "do": "ask"}))
    place = f"/v1/approvals/{approval['approval_id']}"
    assert office.own.post(f"{place}/answer", content=b'{"result": "red"}').status_code == 403
    assert office.acme_approver.post(f"{place}/answer", content=b'{"result": "red"}').status_code == 200
    wanted = {("refusal", office.issued["own"].credential.id), ("decision", office.issued["acme_approver"].credential.id)}

    def found() -> bool:
        with contextlib.closing(open_store(str(office.folder / "orders.db"), "looking", None)) as store:
            noted = [one.note for one in store.audit(NoteFilter(limit=1000)) if approval["approval_id"] in one.note.on]
        return {(note.kind.value, note.who) for note in noted} == wanted and {note.tenant for note in noted} == {"acme"}

    until(found, "both lines of the audit log")


# --- tenants


def test_a_tenant_finds_nothing_of_another(office: Office) -> None:
    run = ask(office.acme, "echo", {"say": "hi", "do": "large"}).json()
    artifact = run["artifacts"][0]["artifact_id"]
    waits = ask(office.acme, "echo", {"say": "hi", "do": "ask"}).json()
    approval = waits["approvals"][0]["approval_id"]
    mine = [
        ("GET", f"/v1/runs/{run['run_id']}"),
        ("GET", f"/v1/runs/{run['run_id']}/events"),
        ("POST", f"/v1/runs/{waits['run_id']}/cancel"),
        ("GET", f"/v1/approvals/{approval}"),
        ("POST", f"/v1/approvals/{approval}/answer"),
        ("GET", f"/v1/artifacts/{artifact}"),
    ]
    for method, path in mine:
        answer = office.bolt.request(method, path, content=b'{"result": "red"}' if method == "POST" else b"")
        assert answer.status_code == 404, path
    assert office.bolt.get("/v1/approvals").json()["approvals"] == []
    stolen = ask(office.bolt, "echo", {"say": {"$artifact": {"artifact_id": artifact}}})
    assert stolen.json()["error"]["error_code"] == "artifact_not_found"
    assert office.acme.get(f"/v1/artifacts/{artifact}").status_code == 200
    assert [one["approval_id"] for one in office.acme.get("/v1/approvals").json()["approvals"]] == [approval]
    assert office.admin.get(f"/v1/runs/{run['run_id']}").json()["run_id"] == run["run_id"]
    assert office.admin.post(f"/v1/runs/{waits['run_id']}/cancel").json()["error"]["error_code"] == "cancelled"


def test_a_key_and_an_artifact_of_one_tenant_are_not_those_of_another(office: Office) -> None:
    runs = [ask(client, "echo", {"say": "same"}, idempotency_key="same").json()["run_id"] for client in (office.acme, office.bolt)]
    assert runs[0] != runs[1]
    assert ask(office.bolt, "echo", {"say": "other"}, idempotency_key="k").status_code == 200
    assert ask(office.acme, "echo", {"say": "mine"}, idempotency_key="k").status_code == 200


def test_a_tenant_does_not_use_up_the_rate_of_another(office: Office) -> None:
    """Four an hour, for each."""
    used = [ask(office.acme, "payer", {"cents": 1}, params={"wait": "0"}) for _ in range(5)]
    assert code_of(used[-1]) == (429, "rate_limited")
    free = ask(office.bolt, "payer", {"cents": 1}, params={"wait": "0"})
    assert free.status_code == 202
    for client, answers in ((office.acme, used), (office.bolt, [free])):
        for answer in answers:
            if answer.status_code == 202:
                client.post(f"/v1/runs/{answer.json()['run_id']}/cancel")


def test_metrics_are_of_all_tenants_and_so_for_none(office: Office) -> None:
    assert office.acme.get("/metrics").status_code == 403
    assert ask(office.acme, "echo", {"say": "hi"}).status_code == 200  # a server that wrote nothing yet has no commits to count
    told = office.admin.get("/metrics").text
    assert "success_count" in told
    assert "holdfast_commit_writes_count" in told, "the metrics of functions are beside those of workers"
    assert 'function="' not in told, "runs of workers are not counted as executions of functions too"


# --- a server that dies, and one that leaves


def slow(folder: Path, name: str) -> tuple[dict[str, str], Path, Path]:
    log, go = folder / f"{name}.log", folder / f"{name}.go"
    return {"log": str(log), "go": str(go)}, log, go


def test_a_run_goes_on_after_the_server_was_killed_in_the_middle(tmp_path: Path) -> None:
    written(tmp_path)
    inputs, log, go = slow(tmp_path, "kill")
    with programs(tmp_path) as started:
        first = start(started)
        with web(first) as client:
            place = ask(client, "slow", inputs, idempotency_key="k", params={"wait": "0"}).headers["location"]
        until(Path(f"{go}.asked").exists, "the receipt of the first side effect")
        first.kill()
        go.touch()
        with web(start(started)) as client:
            over = client.get(place, params={"wait": "30"}).json()
            again = ask(client, "slow", inputs, idempotency_key="k").json()
            told = events_of(client.get(f"{place}/events").text)
    assert (over["status"], over["observability"]["attempt"]) == ("ok", 1)
    assert again == over
    assert log.read_text().splitlines() == ["begun", "over"]
    assert told[-1][2] == over


@pytest.mark.long
def test_a_server_that_leaves_tells_who_waits_where_the_run_is_and_the_run_goes_on(tmp_path: Path) -> None:
    written(tmp_path)
    inputs, log, go = slow(tmp_path, "leave")
    answers: list[httpx.Response] = []
    followed: list[str] = []
    with programs(tmp_path) as started:
        first = start(started)

        def wait() -> None:
            with web(first) as client:
                answers.append(ask(client, "slow", inputs))

        def follow(run: str) -> None:
            with web(first) as client, client.stream("GET", f"/v1/runs/{run}/events") as stream:
                followed.extend(stream.iter_text())

        waiter = threading.Thread(target=wait)
        waiter.start()
        until(Path(f"{go}.asked").exists, "the receipt of the first side effect")
        follower = threading.Thread(target=follow, args=(run_of(first),))
        follower.start()
        until(lambda: "event: accepted" in "".join(followed), "the follower")
        assert first.leave() == 0
        waiter.join(30)
        follower.join(30)
        assert not follower.is_alive()
        (told,) = answers
        assert (told.status_code, told.json()["state"]) == (202, "running")
        go.touch()
        with web(start(started)) as client:
            over = client.get(told.headers["location"], params={"wait": "30"}).json()
    assert (over["status"], over["observability"]["attempt"]) == ("ok", 1)
    assert log.read_text().splitlines() == ["begun", "over"]
    assert "leaving: waiting until running work can be stopped" in first.warned


def run_of(program: Program) -> str:
    """The only run that there is."""
    with web(program) as client:
        listed = client.get("/2025-12-01/durable-executions").json()["DurableExecutions"]
    found: str = listed[0]["DurableExecutionArn"].rpartition("/")[2]
    return found


# --- targets


@pytest.mark.long
def test_a_worker_that_has_changed_is_what_new_runs_get_and_old_runs_stay_with_what_they_had(tmp_path: Path) -> None:
    file = written(tmp_path)
    with programs(tmp_path) as started, web(program := start(started, "--reload")) as client:
        waits = ask(client, "echo", {"say": "old", "do": "ask"}).json()
        source = file.read_text().replace('return {"said": inputs["say"]}', 'return {"said": "new " + inputs["say"]}')
        file.write_text(source.replace('{"said": await ctx.ask', '{"said": "new " + await ctx.ask'))
        (tmp_path / "echo.md").write_text(page("echo", attempts=1, inputs=SAYS, outputs=SAID).replace("version: 1.0", "version: 1.1"))
        until(lambda: client.get("/v1/workers/echo").json()["version"] == "1.1", "the new version")
        assert client.get("/v1/workers/echo").json()["versions"] == ["1.0", "1.1"]
        until(lambda: stubs_of(program) == 3, "one sandbox for each worker, and none for what they were")
        assert ask(client, "echo", {"say": "hi"}).json()["outputs"] == {"said": "new hi"}
        assert ask(client, "echo", {"say": "hi"}, version="1.0").json()["outputs"] == {"said": "hi"}
        client.post(f"/v1/approvals/{waits['approvals'][0]['approval_id']}/answer", content=b'{"result": "red"}')
        over = client.get(f"/v1/runs/{waits['run_id']}", params={"wait": "30"}).json()
    assert (over["version"], over["outputs"]) == ("1.0", {"said": "red"})


def stubs_of(program: Program) -> int:
    """How many sandboxes a server keeps ready."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            count += parent == program.process.pid and b"stub.py" in (process / "cmdline").read_bytes()
    return count


FUNCTION = """
from holdfast.durable import durable_execution


@durable_execution
async def greet(event, context):
    return "hello"
"""


def test_a_folder_has_workers_beside_functions_and_ready_workers_have_names(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "greeting.py").write_text(FUNCTION)
    with programs(tmp_path) as started:
        program = started.begun(".", "web-scrape-worker", "--trust").started("/v1/workers/")
        with web(program) as client:
            named = {one["worker_id"] for one in client.get("/v1/workers").json()["workers"]}
            greeted = client.post("/2015-03-31/functions/greet:$LATEST/invocations", headers={"X-Amz-Invocation-Type": "Event"})
    assert named == {"echo", "payer", "slow", "web-scrape-worker"}
    assert greeted.status_code == 202
    assert any("export AWS_ENDPOINT_URL_LAMBDA=" in line for line in program.said)


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("worker.py", "twin.py"), "error[duplicate_function]: Several targets have a worker or a function echo."),
        (
            ("worker.py", "--isolation", "none"),
            "error[invalid_parameter]: --isolation (in a program: isolation=) is 'none'; it must be all, process or inline.",
        ),
        (("lone.py",), "error[worker_invalid]: lone.py, line 5: the page nowhere.md of lone is not in the folder of the file."),
    ],
)
def test_a_mistake_in_what_is_to_be_served_is_told_at_once(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    written(tmp_path)
    (tmp_path / "twin.py").write_text(FUNCTION.replace("greet", "echo"))
    (tmp_path / "lone.py").write_text('from holdfast import worker\n\n\n@worker("nowhere.md")\ndef lone(inputs, ctx):\n    return {}\n')
    with programs(tmp_path) as started:
        program = started.begun(*arguments, "--trust")
        assert program.process.wait(60) != 0
        until(lambda: any(complaint in line for line in program.warned), f"{complaint} among {program.warned}")


def test_inline_is_a_word_that_the_operator_must_say(tmp_path: Path) -> None:
    written(tmp_path)
    with programs(tmp_path) as started:
        for arguments, isolation in (((), "all"), (("--isolation", "inline"), "none")):
            program = start(started, *arguments)
            with web(program) as client:
                seen = ask(client, "echo", {"say": "hi"}).json()["observability"]
            assert seen["isolation"] == isolation
            assert program.leave() == 0
            warned = any("cannot be killed" in line for line in program.warned)  # all that it said has been read by now
            assert warned is (isolation == "none")
