"""Workers at the command line, in processes of their own: run, killed and run again, approved, looked at, limited, replayed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import holdfast.library.refund
from holdfast.service.client import Client
from tests.surface.cli_program import Program, until
from tests.workers.pages import page

REFUND = Path(holdfast.library.refund.__file__).parent
CASE = ("run", "refund.py", "--input", "@case.json", "--key", "case-7")
APPROVAL = re.compile(r"a_[0-9a-f-]+\.[0-9a-f]+")


class Bank:
    """A payment service on this machine: it counts what it was asked to pay."""

    def __init__(self) -> None:
        self.paid: list[tuple[str | None, str | None, Any]] = []
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                bank.paid.append((self.headers["authorization"], self.headers["idempotency-key"], body))
                data = json.dumps({"id": f"r-{body['order']}"}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def bank() -> Iterator[Bank]:
    bank = Bank()
    yield bank
    bank.close()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    for name in ("HOLDFAST_CONFIG", "HOLDFAST_CASSETTE", "OPENAI_API_KEY", "HOLDFAST_MODEL_KEY"):
        made.environment.pop(name, None)
    made.trust()
    return made


@pytest.fixture
def refunds(program: Program, bank: Bank) -> Program:
    """The README's worker, with the model played back and a bank that is here."""
    for name in ("refund.py", "refund-worker.md", "case.json", "cassette.jsonl"):
        shutil.copy(REFUND / name, program.folder)
    file = program.folder / "refund.py"
    file.write_text(file.read_text().replace("https://pay.example", bank.url))
    (program.folder / "holdfast.toml").write_text(
        '[cassette]\nmode = "replay"\npath = "cassette.jsonl"\ntools = ["language_model"]\n[policy.caps]\nruns = 2\ntokens = 10000\n'
    )
    program.environment["PAY_KEY"] = "s3cr3t-value"
    return program


def asked(ended: subprocess.CompletedProcess[str]) -> str:
    """The approval that a run waits for."""
    found = APPROVAL.search(ended.stderr)
    assert found is not None, ended.stderr
    return found.group()


def run_ids(program: Program) -> list[str]:
    with Client.open(str(program.folder / "holdfast.db")) as client:
        return [one.header.id for one in client.runs.list()]


# --- the example of the README


def test_a_refund_waits_for_a_person_and_is_paid_once(refunds: Program, bank: Bank) -> None:
    first = refunds(*CASE)
    assert (first.returncode, first.stdout, bank.paid) == (4, "", [])
    assert re.search(r"^needs_human: approval a_\S+ refund_payment\(order_id='42', cents=1900\)$", first.stderr, re.M)

    approved = refunds("approvals", "approve", asked(first))
    assert approved.returncode == 0, approved.stderr
    assert bank.paid == []

    second = refunds(*CASE)
    assert (second.returncode, json.loads(second.stdout)) == (0, {"refund_id": "r-42"})
    assert re.search(r"^ok, attempt 1, [\d,]+/1,500 tokens, 2 tool calls, isolation: \w+", second.stderr, re.M)

    third = refunds(*CASE, "--json")
    response = json.loads(third.stdout)
    assert (third.returncode, response["status"], response["outputs"]) == (0, "ok", {"refund_id": "r-42"})
    ((authorization, key, body),) = bank.paid
    assert (authorization, body) == ("s3cr3t-value", {"order": "42", "cents": 1900})
    assert key
    assert "s3cr3t-value" not in first.stderr + second.stderr + third.stdout + third.stderr


def test_what_a_person_rejects_is_not_paid(refunds: Program, bank: Bank) -> None:
    approval = asked(refunds(*CASE))
    assert refunds("approvals", "reject", approval, "--comment", "too much").returncode == 0
    ended = refunds(*CASE)
    assert (ended.returncode, ended.stdout, bank.paid) == (1, "", [])
    assert "permanent_error: approval_rejected: " in ended.stderr
    assert "(too much)" in ended.stderr
    again = refunds("approvals", "approve", approval)
    assert (again.returncode, bank.paid) == (2, [])


# --- mistakes, and exit codes by the table


BODIES = """
from holdfast import WorkerError, worker

@worker("plain.md")
async def plain(inputs, ctx):
    if "code" in inputs:
        raise WorkerError(inputs["code"], "so it is", needs_human=inputs.get("human", False), retryable=inputs.get("retryable"))
    return {"n": inputs["n"]}
"""
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
INPUTS = {"type": "object", "properties": {"n": {"type": ["integer", "string"]}}}


@pytest.fixture
def plain(program: Program) -> Program:
    (program.folder / "plain.py").write_text(BODIES)
    (program.folder / "plain.md").write_text(page("plain", attempts=1, inputs=INPUTS, outputs=NUMBER, max_tokens=100))
    return program


@pytest.mark.parametrize(
    "inputs, exit_code, told",
    [
        ({"n": 1}, 0, "ok, attempt 1"),
        ({"code": "no_such_order"}, 1, "permanent_error: no_such_order: so it is"),
        ({"n": [1]}, 2, "invalid_request: schema_mismatch: The inputs do not fit: /n: "),
        ({"code": "unclear", "human": True}, 4, "needs_human: unclear: so it is"),
        ({"n": "one"}, 5, "invalid_output: output_schema_mismatch: The outputs do not fit: /n: "),
        ({"code": "closed_today", "retryable": True}, 75, "retryable_error: closed_today: so it is"),
    ],
)
def test_every_status_has_its_exit_code(plain: Program, inputs: Any, exit_code: int, told: str) -> None:
    ended = plain("run", "plain.py", "--input", json.dumps(inputs), "--isolation", "inline")
    assert ended.returncode == exit_code, ended.stderr
    assert told in ended.stderr
    assert (ended.stdout != "") == (exit_code == 0)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "words, told",
    [
        (["--input", "[1]"], "error[invalid_parameter]: --input of a worker must be a JSON object"),
        (["--input", "{"], "error[payload_not_json]: --input: "),
        (["--input", "@none.json"], "error[invalid_parameter]: --input: none.json could not be read"),
        (["--constraints", "3"], "error[invalid_parameter]: --constraints must be a JSON object"),
        (["--key", ""], "invalid_request: schema_mismatch: The request does not fit: /idempotency_key"),
        (["--detach"], "error[invalid_parameter]: --detach is for durable functions."),
        (["--constraints", '{"max_token": 3}'], "invalid_request"),
        (["--constraints", '{"max_tokens": 1000}'], "invalid_request: constraint_widened: "),
        (
            ["--isolation", "none"],
            "error[invalid_parameter]: --isolation (in a program: isolation=) is 'none'; it must be all, process or inline.",
        ),
    ],
)
def test_a_bad_request_is_exit_code_two_and_leaves_no_run(plain: Program, words: list[str], told: str) -> None:
    ended = plain("run", "plain.py", *([] if "--input" in words else ["--input", '{"n": 1}']), *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (plain.folder / "holdfast.db").exists() or run_ids(plain) == []


def test_a_key_that_was_used_with_other_inputs_is_a_conflict(plain: Program) -> None:
    words = ("run", "plain.py", "--key", "k", "--isolation", "inline", "--input")
    assert plain(*words, '{"n": 1}').returncode == 0
    ended = plain(*words, '{"n": 2}')
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "invalid_request: idempotency_conflict: " in ended.stderr


@pytest.mark.parametrize(
    "change, told",
    [
        ({"plain.md": None}, "the page plain.md of plain is not in the folder of the file"),
        ({"plain.md": "# nothing\n"}, "error[contract_invalid]: "),
        ({"plain.py": BODIES.replace('"plain.md"', "PAGE")}, "must be a literal"),
        ({"plain.py": BODIES + BODIES.replace("plain", "other"), "other.md": page("other")}, "has several workers (plain, other)"),
        ({"holdfast.toml": "[policy.caps]\ntoken = 3\n"}, "[policy.caps] has token, which Holdfast does not know"),
    ],
)
def test_wrong_files_are_told_with_their_place(plain: Program, change: dict[str, str | None], told: str) -> None:
    for name, text in change.items():
        path = plain.folder / name
        path.unlink() if text is None else path.write_text(text)
    ended = plain("run", "plain.py", "--input", '{"n": 1}', "--isolation", "inline")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_one_of_several_workers_is_named_by_its_id(plain: Program) -> None:
    (plain.folder / "plain.py").write_text(BODIES + BODIES.replace("plain", "other").split("\n\n", 1)[1])
    (plain.folder / "other.md").write_text(page("other"))
    ended = plain("run", "plain.py:other", "--input", '{"n": 7}', "--isolation", "inline", "--json")
    assert json.loads(ended.stdout)["worker_id"] == "other"


def test_what_a_body_says_is_told_while_it_works(plain: Program) -> None:
    said = BODIES.replace("    if", '    ctx.progress({"half": 1})\n    ctx.log("tea\\nis ready", cups=2)\n    if', 1)
    (plain.folder / "plain.py").write_text(said)
    ended = plain("run", "plain.py", "--input", '{"n": 1}', "--isolation", "inline")
    assert 'progress: {"half": 1}\ninfo: tea\\nis ready {"cups": 2}\n' in ended.stderr
    assert json.loads(ended.stdout) == {"n": 1}


# --- a new worker


def test_a_new_worker_runs_is_killed_in_the_middle_and_has_one_effect(program: Program) -> None:
    made = program("new", "worker", "page-facts")
    assert made.returncode == 0, made.stderr
    folder = program.folder / "page-facts"
    names = ["case.json", "cassette.jsonl", "holdfast.toml", "page-facts.md", "page_facts.py", "test_page_facts.py"]
    assert made.stdout.splitlines() == [f"page-facts/{name}" for name in names]
    assert sorted(path.name for path in folder.iterdir()) == names
    hint = re.search(r"cd page-facts && holdfast (.+)$", made.stderr, re.M)
    assert hint is not None
    words = hint.group(1).split()
    program.folder = folder

    saved = folder / "facts.jsonl"
    first = program.begin(*words)
    until(saved.exists)  # the effect took place, and it is not recorded yet
    first.kill()
    _, told = first.communicate()
    assert (first.returncode, "calls save_facts" in told) == (-9, True)

    second = program(*words)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["saved"] == 4
    assert re.search(r"^ok, attempt 1, 154/1,500 tokens, 3 tool calls, isolation: \w+", second.stderr, re.M)
    assert "calls fetch_url" in told
    assert not re.search("^calls ", second.stderr, re.M)
    assert len(saved.read_text().splitlines()) == 1


def test_a_new_worker_has_a_page_without_problems_and_a_test_that_passes(program: Program) -> None:
    assert program("new", "worker", "Ship-Log", "--in", "my workers").returncode == 0
    folder = program.folder / "my workers" / "Ship-Log"
    assert {"Ship-Log.md", "ship_log.py", "test_ship_log.py"} < {path.name for path in folder.iterdir()}
    assert [path.name for path in folder.iterdir() if re.search("page.facts", path.read_text())] == []
    checked = program("check", "--tool", "save_facts", str(folder / "Ship-Log.md"))
    assert checked.stdout.splitlines()[0].endswith("Ship-Log 1.0 is fine, no warnings")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env={**program.environment, "PYTEST_ADDOPTS": "-p no:asyncio"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


def test_a_new_worker_never_overwrites(program: Program) -> None:
    (program.folder / "mine").mkdir()
    (program.folder / "mine" / "notes").write_text("keep me")
    ended = program("new", "worker", "mine")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error[invalid_parameter]: mine exists already; nothing was written.")
    assert [path.name for path in (program.folder / "mine").iterdir()] == ["notes"]
    assert list(program.folder.glob(".mine*")) == []


@pytest.mark.parametrize("name", ["", "1st", "a/b", "../up", "a b", "ä", "x" * 65, "class", "json", "holdfast"])
def test_a_name_that_cannot_be_a_workers_is_refused(program: Program, name: str) -> None:
    before = sorted(program.folder.iterdir())
    ended = program("new", "worker", "--", name)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error[invalid_parameter]: ")
    assert sorted(program.folder.iterdir()) == before


# --- runs


def test_runs_are_listed_shown_and_cancelled(refunds: Program, bank: Bank) -> None:
    waits = asked(refunds(*CASE))
    line = json.loads(refunds("runs", "list", "--json").stdout)
    assert (line["worker_id"], line["state"], line["status"], line["error_code"]) == (
        "refund-worker", "waiting", "needs_human", "approval_required",
    )  # fmt: skip
    assert (line["idempotency_key"], line["tenant"], line["ended_at"]) == ("case-7", "default", None)
    shown = refunds("runs", "show", line["run_id"])
    assert f"waits for {waits} refund_payment" in shown.stdout
    assert re.search(r"^language_model +1 .*\"cents\":1900", shown.stdout, re.M)
    document = refunds.document("runs", "show", line["run_id"])
    assert (document["inputs"]["order_id"], [call["tool"] for call in document["calls"]]) == ("42", ["language_model"])
    assert document["calls"][0]["outcome"] == "done"
    assert document["response"]["approvals"][0]["approval_id"] == waits

    assert refunds("runs", "cancel", line["run_id"]).stderr.startswith("cancelled: refund-worker run ")
    ended = refunds(*CASE)
    assert (ended.returncode, bank.paid) == (1, [])
    assert "permanent_error: cancelled: " in ended.stderr
    assert refunds("runs", "cancel", line["run_id"]).stderr.startswith("nothing to cancel: ")
    table = refunds("runs", "list", "--worker", "refund-worker", "--limit", "1").stdout.splitlines()
    assert (table[0].split(), table[1].split()[1:5]) == (
        ["RUN", "WORKER", "STATUS", "CODE", "KEY", "STARTED", "TOOK"],
        ["refund-worker", "permanent_error", "cancelled", "case-7"],
    )


def test_an_execution_of_a_function_is_no_run(plain: Program) -> None:
    assert plain("run", "functions.py:greet", "--input", '{"who": "you"}', "--name", "first").returncode == 0
    assert plain("runs", "list").stderr == "no runs found\n"
    for words in (["runs", "show", "first"], ["runs", "cancel", "greet/first"], ["replay", "first"]):
        ended = plain(*words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("error[execution_not_found]: ")


# --- limits


def test_limits_show_what_is_spent_and_what_is_beyond_a_cap_is_refused(refunds: Program) -> None:
    refunds(*CASE)
    spent = {line["what"]: line for line in map(json.loads, refunds("limits", "--json").stdout.splitlines())}
    assert (spent["runs"]["spent"], spent["runs"]["cap"], spent["runs"]["left"]) == (1, 2, 1)
    assert (spent["tokens"]["cap"], 0 < spent["tokens"]["spent"] < 10_000) == (10_000, True)
    (run,) = run_ids(refunds)
    (call,) = refunds.document("runs", "show", run)["calls"]
    assert spent["tokens"]["spent"] == call["usage"]["input_tokens"] + call["usage"]["output_tokens"]
    assert "cost_usd" not in spent
    assert refunds(*CASE[:-1], "case-8").returncode == 4
    refused = refunds(*CASE[:-1], "case-9")
    assert refused.returncode == 75
    assert "retryable_error: rate_limited: " in refused.stderr
    rows = [line.split() for line in refunds("limits", "--tenant", "default", "--tenant", "acme").stdout.splitlines()]
    assert rows[0] == ["TENANT", "WHAT", "SPENT", "CAP", "LEFT", "UNTIL"]
    assert [row[:5] for row in rows[1:4:2]] == [["default", "runs", "2", "2", "0"], ["acme", "runs", "0", "2", "2"]]


def test_without_caps_there_is_nothing_to_show(plain: Program) -> None:
    plain("run", "plain.py", "--input", '{"n": 1}', "--isolation", "inline")
    ended = plain("limits")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "nothing is capped: set [policy.caps] in holdfast.toml\n")


# --- replay


def test_a_run_is_replayed_on_its_receipts_and_other_code_is_told_apart(refunds: Program, bank: Bank) -> None:
    first = refunds(*CASE)
    (run,) = run_ids(refunds)
    waits = refunds("replay", run)
    assert (waits.returncode, waits.stderr) == (
        2, f"error[invalid_parameter]: The run {run} has not ended yet. Only a run that has ended can be replayed.\n",
    )  # fmt: skip
    refunds("approvals", "approve", asked(first))
    assert refunds(*CASE).returncode == 0
    history = refunds("executions", "history", run, "--json").stdout
    same = refunds("replay", run)
    assert (same.returncode, same.stdout) == (0, f"matches: refund-worker run {run}, 1 attempt, 2 receipts\n")

    file = refunds.folder / "refund.py"
    file.write_text(file.read_text().replace('cents=verdict["cents"])', 'cents=verdict["cents"] * 2)'))
    other = refunds("replay", run, "refund.py")
    assert other.returncode == 1
    assert other.stdout.splitlines()[1:] == [
        '  attempt 1: refund_payment was called with {"cents":1900,"order_id":"42"}, and now with {"cents":3800,"order_id":"42"}'
    ]
    assert refunds("replay", run).returncode == 0, "its own code is the snapshot, whatever the file says now"

    exported = refunds("executions", "export", run, "-o", "run.json")
    assert exported.returncode == 0
    document = json.loads(refunds("replay", "run.json", "refund.py", "--json").stdout)
    assert (document["matches"], document["differences"][0]["kind"], document["receipts"]) == (False, "other_arguments", 2)
    lacks = refunds("replay", "run.json")
    assert (lacks.returncode, "name the code to run on it" in lacks.stderr) == (2, True)

    assert len(bank.paid) == 1
    assert refunds("executions", "history", run, "--json").stdout == history


def test_the_code_of_another_worker_is_refused(plain: Program) -> None:
    plain("run", "plain.py", "--input", '{"n": 1}', "--isolation", "inline")
    (run,) = run_ids(plain)
    (plain.folder / "other.py").write_text(BODIES.replace("plain", "other"))
    (plain.folder / "other.md").write_text(page("other"))
    ended = plain("replay", run, "other.py", "--isolation", "inline")
    assert (ended.returncode, ended.stderr) == (
        2,
        "error[invalid_parameter]: The run is one of plain, and the file has other. Give the file of that worker.\n",
    )
