"""`holdfast executions` and `holdfast callbacks`: looking and acting from another process than the runner's."""

import json
import shlex
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from holdfast.cli import show
from holdfast.descriptions.history import HistoryEvent
from holdfast.durable.identifier import PATCH
from holdfast.model.execution import ExecutionStatus, Quarantine, State, Terms
from holdfast.model.life import new_execution
from tests.surface.cli_program import Program


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


def begun(holdfast: Program, function: str, name: str) -> None:
    """Bring an execution to where it waits, and leave it there."""
    process = holdfast.begin("run", f"functions.py:{function}", "--name", name)
    try:
        holdfast.waiting(f"{function}/{name}")
    finally:
        process.kill()
        process.communicate()


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_list_filters_orders_and_limits(holdfast: Program) -> None:
    for name in ("a", "b", "c"):
        holdfast("run", "functions.py:greet", "--detach", "--name", name)
    holdfast("run", "functions.py:nap", "--detach", "--name", "a")
    holdfast("executions", "stop", "greet/b")

    def names(*options: str) -> list[object]:
        return [f"{x['function']}/{x['name']}" for x in lines(holdfast("executions", "list", "--json", *options).stdout)]

    assert names() == ["nap/a", "greet/c", "greet/b", "greet/a"]
    assert names("--oldest-first", "--limit", "2") == ["greet/a", "greet/b"]
    assert names("--function", "greet", "--status", "running") == ["greet/c", "greet/a"]
    assert names("--status", "STOPPED", "--status", "FAILED") == ["greet/b"]
    assert names("--name", "a") == ["nap/a", "greet/a"]
    table = holdfast("executions", "list", "--name", "b").stdout.splitlines()
    assert table[0].split() == ["NAME", "FUNCTION", "STATUS", "STATE", "STARTED", "TOOK"]
    assert table[1].split()[:4] == ["b", "greet", "STOPPED", "closed"]


def test_an_empty_list_is_no_error_and_prints_nothing_for_machines(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--detach", "--name", "a")
    ended = holdfast("executions", "list", "--name", "nobody")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "no executions\n")


def test_output_is_plain_where_nobody_watches(holdfast: Program) -> None:
    begun(holdfast, "approve", "a")
    for words in (("list",), ("show", "a"), ("history", "a")):
        stdout = holdfast("executions", *words).stdout
        assert "\x1b" not in stdout
        assert all(line == line.rstrip() for line in stdout.splitlines())


def test_show_says_that_a_callback_is_waited_for_until_when_and_prints_the_command_that_answers_it(holdfast: Program) -> None:
    begun(holdfast, "approve", "a")
    page = holdfast("executions", "show", "a").stdout
    assert "why      It waits for Callback 'approval'." in page
    assert "due          in 59 min" in page  # the heartbeat comes before the timeout
    command = next(line.strip() for line in page.splitlines() if "callbacks succeed" in line)
    answered = holdfast(*shlex.split(command)[1:])
    assert (answered.returncode, answered.stderr) == (0, "answered: approve/a goes on\n")
    assert json.loads(holdfast("run", "functions.py:approve", "--name", "a").stdout) == {"answer": "TEXT"}


def test_show_says_when_a_wait_is_over(holdfast: Program) -> None:
    begun(holdfast, "nap", "a")
    page = holdfast("executions", "show", "nap/a").stdout
    assert "Waits for Wait 'long nap'" in page
    assert "woken by   the clock" in page
    assert "due        in 59 min" in page


def test_show_says_why_a_step_is_tried_again(holdfast: Program) -> None:
    begun(holdfast, "flaky", "a")
    page = holdfast("executions", "show", "a").stdout
    assert "Waits for Step 'call'" in page
    assert "attempts    1" in page
    assert "last error  ConnectionError: no line" in page
    assert "woken by    the clock (next attempt)" in page


def test_show_finds_an_execution_by_arn_id_function_and_name_or_name(holdfast: Program) -> None:
    arn = holdfast("run", "functions.py:greet", "--detach", "--name", "a").stdout.strip()
    identity = arn.rsplit("/", 1)[1]
    assert {holdfast.document("executions", "show", which)["arn"] for which in (arn, identity, "greet/a", "a")} == {arn}


def test_a_name_that_several_have_is_an_error_that_names_them(holdfast: Program) -> None:
    for function in ("greet", "nap"):
        holdfast("run", f"functions.py:{function}", "--detach", "--name", "a")
    ended = holdfast("executions", "show", "a")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "nap/a, greet/a" in ended.stderr


def test_history_shows_every_event_and_leaves_data_out_on_request(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "you"}')
    whole = lines(holdfast("executions", "history", "a", "--json").stdout)
    assert [event["EventId"] for event in whole] == [1, 2, 3, 4, 5]
    assert "hello you" in json.dumps(whole)
    assert "hello you" not in holdfast("executions", "history", "a", "--json", "--no-data").stdout
    table = holdfast("executions", "history", "a").stdout.splitlines()
    assert [line.split()[2] for line in table] == [
        "TYPE", "ExecutionStarted", "StepStarted", "StepSucceeded", "InvocationCompleted", "ExecutionSucceeded",
    ]  # fmt: skip


def test_a_heartbeat_moves_the_callbacks_due_time(holdfast: Program) -> None:
    begun(holdfast, "approve", "a")
    before = holdfast.waiting("a")
    assert holdfast("callbacks", "heartbeat", before["callback_id"]).returncode == 0
    after = holdfast.waiting("a")
    assert datetime.fromisoformat(after["due_at"]) > datetime.fromisoformat(before["due_at"])


def test_a_callback_answer_comes_from_a_file_or_stdin_and_only_the_first_counts(holdfast: Program) -> None:
    begun(holdfast, "approve", "a")
    callback = holdfast.waiting("a")["callback_id"]
    (holdfast.folder / "answer").write_text("from a file")
    assert holdfast("callbacks", "succeed", callback, "--result", "@answer").returncode == 0
    for late in (("succeed", callback, "--result", "-"), ("fail", callback), ("heartbeat", callback)):
        ended = holdfast("callbacks", *late, given="too late")
        assert (ended.returncode, "error[callback_closed]" in ended.stderr) == (2, True)
    assert json.loads(holdfast("run", "functions.py:approve", "--name", "a").stdout) == {"answer": "from a file"}


def test_stopping_what_is_over_changes_nothing(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "you"}')
    ended = holdfast("executions", "stop", "a")
    assert (ended.returncode, ended.stderr) == (0, "nothing to stop: greet/a is over (SUCCEEDED)\n")
    assert holdfast.document("executions", "stop", "a")["status"] == "SUCCEEDED"


def test_the_store_comes_from_the_option_else_the_environment_else_the_folder(holdfast: Program) -> None:
    holdfast.environment["HOLDFAST_STORE"] = "env.db"
    holdfast("run", "functions.py:greet", "--detach", "--store", "option.db")
    holdfast("run", "functions.py:greet", "--detach")
    del holdfast.environment["HOLDFAST_STORE"]
    holdfast("run", "functions.py:greet", "--detach")
    assert sorted(path.name for path in holdfast.folder.glob("*.db")) == ["env.db", "holdfast.db", "option.db"]


PLAIN = """
from datetime import date
from decimal import Decimal

from holdfast import durable_execution


@durable_execution
def shop(event, context):
    context.step(lambda _: {"due": date(2026, 5, 1), "lines": [{"sku": "a", "price": Decimal("1.5")}], "pair": (1, None)}, name="price")
    context.run_in_child_context(lambda child: {"a": {"b": 1}}, name="child")
    return {"t": "m", "v": {"mine": 1}}
"""


def test_history_shows_values_as_their_author_knows_them(holdfast: Program) -> None:
    (holdfast.folder / "plain.py").write_text(PLAIN)
    assert holdfast("run", "plain.py:shop", "--name", "a").returncode == 0
    table = holdfast("executions", "history", "a").stdout
    assert '{"due": "2026-05-01", "lines": [{"sku": "a", "price": "1.5"}], "pair": [1, null]}' in table
    assert '{"a": {"b": 1}}' in table
    assert '{"t": "m", "v": {"mine": 1}}' in table  # a result is written as plain JSON, so this is the value itself
    assert '"t":"m"' in holdfast("executions", "history", "a", "--json").stdout.replace("\\", "")  # as the history API of AWS shows it


def test_callbacks_list_shows_what_waits_for_an_answer_with_age_and_end(holdfast: Program) -> None:
    ended = holdfast("run", "functions.py:nap", "--detach", "--name", "none")
    assert ended.returncode == 0
    ended = holdfast("callbacks", "list")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "no callback waits for an answer\n")
    begun(holdfast, "approve", "a")
    begun(holdfast, "approve_async", "b")
    first, second = lines(holdfast("callbacks", "list", "--json").stdout)
    assert (first["name"], first["function"], first["execution"]) == ("approval", "approve", "a")
    assert (second["function"], second["execution"], second["due_at"]) == ("approve_async", "b", None)
    assert str(first["due_at"]) > str(first["started_at"])
    head, *rows = holdfast("callbacks", "list", "--function", "approve").stdout.splitlines()
    assert head.split() == ["NAME", "EXECUTION", "AGE", "EXPIRES", "CALLBACK", "ID"]
    (row,) = rows
    assert row.startswith("approval  approve/a  ")
    assert " in 59 min " in row
    assert row.endswith(str(first["callback_id"]))
    assert holdfast("callbacks", "list", "--limit", "1").stdout.count("\n") == 2
    assert holdfast("callbacks", "succeed", str(first["callback_id"])).returncode == 0
    assert [x["execution"] for x in lines(holdfast("callbacks", "list", "--json").stdout)] == ["b"]


BREAKS = """
from holdfast import StepConfig, durable_execution
from holdfast.durable.retries import RetryPresets


def breaks(step):
    raise LookupError("no such order")


@durable_execution
def shop(event, context):
    context.step(breaks, name="look", config=StepConfig(retry_strategy=RetryPresets.none()))
"""


def test_people_read_the_names_of_our_own_classes_and_machines_the_names_of_aws(holdfast: Program) -> None:
    (holdfast.folder / "breaks.py").write_text(BREAKS)
    ended = holdfast("run", "breaks.py:shop", "--name", "a")
    shown = [ended.stderr, holdfast("executions", "show", "a").stdout, holdfast("executions", "history", "a").stdout]
    for page in shown:
        assert "holdfast.durable.exceptions.StepError: " in page
        assert "aws_durable_execution_sdk_python" not in page
    assert "aws_durable_execution_sdk_python.exceptions.StepError" in holdfast("executions", "show", "a", "--json").stdout
    assert "aws_durable_execution_sdk_python.exceptions.StepError" in holdfast("executions", "history", "a", "--json").stdout


def test_a_list_says_why_an_execution_was_put_aside_and_that_a_name_was_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    header = new_execution("id", "sale-1", "sale", "$LATEST", payload="{}", now=0, terms=Terms())
    over = {"status": ExecutionStatus.FAILED, "state": State.CLOSED, "superseded_by": "other", "ended_at": 0}
    aside = {"state": State.QUARANTINED, "quarantine": Quarantine.REPLAY_MISMATCH}
    found = [msgspec.structs.replace(header, **changed) for changed in (over, aside)]
    show.executions_table([(x, None) for x in found], 0)
    _, first, second = capsys.readouterr().out.splitlines()
    assert "closed, superseded" in first
    assert "quarantined: replay_mismatch" in second
    assert [show.execution_json(x)["quarantine"] for x in found] == [None, "replay_mismatch"]
    assert [show.execution_json(x)["superseded_by"] for x in found] == ["other", None]


def test_a_release_names_one_execution_or_a_function_and_not_both(holdfast: Program) -> None:
    for words in ((), ("a", "--function", "greet")):
        ended = holdfast("executions", "release", *words)
        assert ended.returncode == 2
        assert "Name one execution, or say --function NAME" in ended.stderr


def test_history_says_that_a_marker_is_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    marker = HistoryEvent(number=4, at=1000, type="StepSucceeded", sub_type=PATCH, name="weigh", details={})
    show.history_table([marker, msgspec.structs.replace(marker, number=5, sub_type="Step")])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("weigh  context.patched is true from here on")
    assert second.endswith("weigh")


def test_a_release_that_finds_nothing_says_so(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--input", '{"who": "you"}')
    found = holdfast("executions", "release", "--function", "grete")
    assert (found.returncode, found.stderr) == (0, "nothing to release: no execution of grete is quarantined\n")
