"""`holdfast queues`: look, push, pause, limit, and start parked runs again, on a store that no process runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.author_files.function_loader import load
from holdfast.cli.main import program
from holdfast.model import codec
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.queue_errors import QueueFull
from tests.surface.queue_scene import Scene
from tests.workers.pages import page, write


@pytest.fixture
def queues(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_push_writes_each_line_and_names_lines_with_mistakes_by_their_number(queues: Scene) -> None:
    file = queues.folder / "inputs.jsonl"
    file.write_text('{"id": 1}\nnope\n\n{"x": 3}\n{"id": 4}\n')
    ended = queues("push", "emails", f"{queues.functions}:send", f"@{file}", "--key-field", "id")
    assert ended.exit_code == 1
    assert ended.stderr.splitlines() == [
        "line 2: error[payload_not_json]: The payload is not JSON: Expecting value: line 1 column 1 (char 0)",
        "line 4: error[invalid_parameter]: The input has no text or whole number in 'id'.",
        "queue emails: pushed 2, 2 lines were refused",
    ]
    assert [line["waiting"] for line in queues.lines("list")] == [2]


@pytest.mark.parametrize("target", ["mail.py:send", "queue-based-worker"])
def test_a_line_that_is_longer_than_any_input_is_too_large_and_the_lines_after_it_go_in(queues: Scene, target: str) -> None:
    file, most = queues.folder / "inputs.jsonl", codec.MAX_PAYLOAD_BYTES
    good = '{"message": {"task": "Sum up."}, "idempotency_key": "a"}'
    largest = "".join('{"x": "' + "x" * (size - 9) + '"}\n' for size in (10_000_000, 2 * most + 5, most + 1))
    file.write_text(f"{good}\n{largest}{good}\n")
    ended = queues("push", "emails", str(queues.functions) + ":send" if "mail" in target else target, f"@{file}")
    told = f"error[payload_too_large]: The line is longer than {most:,} bytes, the most that an input may have."
    assert [line for line in ended.stderr.splitlines() if "error" in line] == [f"line {number}: {told}" for number in (2, 3, 4)]
    assert "pushed 2, 3 lines were refused" in ended.stderr


def test_an_idempotency_key_that_cannot_be_one_is_called_so_and_cut(queues: Scene) -> None:
    ended = queues("push", "emails", f"{queues.functions}:send", "-", "--key-field", "id", input=json.dumps({"id": "x y" * 900}) + "\n")
    (line,) = [line for line in ended.stderr.splitlines() if "error" in line]
    assert line.startswith("line 1: error[invalid_parameter]: Idempotency key 'x yx y")
    assert line.endswith("use 1 to 64 letters, digits, '-' or '_'.")
    assert len(line) < 250


@pytest.mark.parametrize("option", ["--ttl", "--delay", "--head-start"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "31622401", "-1"])
def test_a_time_that_no_run_can_have_is_refused_with_the_range_and_pushes_nothing(queues: Scene, option: str, value: str) -> None:
    ended = queues("push", "emails", f"{queues.functions}:send", "-", option, value, input="1\n")
    assert isinstance(ended.exception, InvalidParameter)
    assert str(ended.exception) == f"{option} is {float(value)!r}; use a number of seconds from 0 up to 31,622,400 (366 days)."
    assert not Path(queues.store).exists()
    assert "pushed 1" in queues.said("push", "emails", f"{queues.functions}:send", "-", option, "31622400", input="1\n")


def test_the_same_push_again_pushes_only_what_is_missing(queues: Scene) -> None:
    queues.push({"id": 1}, {"id": 2}, options=["--key-field", "id"])
    assert "pushed 1, 2 were there already" in queues.push({"id": 1}, {"id": 2}, {"id": 3}, options=["--key-field", "id"])
    assert queues.document("show", "emails")["waiting"] == 3


def test_a_push_of_thousands_is_a_few_commits_and_reaches_the_lanes_of_its_fields(queues: Scene) -> None:
    told = queues.push(
        *({"user": f"u{number % 3}", "n": number} for number in range(2500)), options=["--lane-field", "user", "--tenant", "acme"]
    )
    assert "pushed 2,500" in told
    lanes = {lane["lane"]: lane["waiting"] for lane in queues.document("show", "emails")["lanes"] if lane["level"] == "key"}
    assert lanes == {f"emails/tenant=acme/key=u{user}": 834 if user == 0 else 833 for user in range(3)}


def test_a_full_queue_ends_a_push_and_says_when_to_come_back(queues: Scene) -> None:
    queues.push({"id": 0}, options=["--key-field", "id"])
    queues.said("set", "emails", "most_waiting=2")
    text = "".join(json.dumps({"id": number}) + "\n" for number in range(5))
    ended = queues("push", "emails", f"{queues.functions}:send", "-", "--key-field", "id", input=text)
    assert isinstance(ended.exception, QueueFull)
    assert ended.stderr == "pushed 1, 1 was there already; the same command goes on where this one ended\n"
    assert "it accepts at most 2. Try again in 60 s." in str(ended.exception)
    queues.said("pause", "emails")
    paused = queues("push", "emails", f"{queues.functions}:send", "-", input='{"id": 9}\n')
    assert "it accepts at most 2. The queue is paused. Try again in 60 s." in str(paused.exception)
    assert queues.document("show", "emails")["waiting"] == 2


def test_a_function_is_pushed_to_by_name_once_a_process_has_hosted_it(queues: Scene) -> None:
    ended = queues("push", "emails", "send", "-", input="{}\n")
    assert isinstance(ended.exception, HoldfastError)
    assert ended.exception.code == "store_not_found"
    queues.push({})
    ended = queues("push", "emails", "send", "-", input="{}\n")
    assert isinstance(ended.exception, HoldfastError)
    assert ended.exception.code == "function_not_found"
    queues.said("pause", "emails")
    with holdfast.open(queues.store, functions=[load(str(queues.functions)).function]):
        pass
    assert "pushed 1" in queues.said("push", "emails", "send", "-", input="{}\n")


def test_show_prints_declared_and_operators_settings_side_by_side_and_what_counts(queues: Scene) -> None:
    loaded = load(str(queues.functions))
    emails = holdfast.Queue("emails", at_once=2, rates="100/m", per_tenant=holdfast.Limits(at_once=1))
    with holdfast.open(queues.store, functions=[loaded.function], queues=[emails]):
        pass
    queues.said("set", "emails", "at_once=5", "per_key.at_once=1", "ttl=1h")
    rows = {row[0]: row[1:] for line in queues.said("show", "emails").splitlines() if (row := line.split()) and len(row) > 2}
    assert rows["at_once"] == ["2", "5", "5"]
    assert rows["rates"] == ["100/m", "100/m"]
    assert rows["ttl"] == ["3600", "3600"]
    queues.said("set", "emails", "--reset", "at_once", "rates=none")
    told = queues.document("show", "emails")["settings"]
    assert told["operator"] == {"per_key.at_once": 1, "ttl": 3600, "rates": []}
    assert (told["counts"]["at_once"], told["counts"]["rates"], told["counts"]["per_tenant.at_once"]) == (2, [], 1)


@pytest.mark.parametrize(
    "words, says",
    [
        (["at_once"], "'at_once' is not NAME=VALUE"),
        (["most=5"], "'most' is not a setting of a queue. There are at_once, rates, per_tenant.at_once"),
        (["at_once=0"], "at_once is 0"),
        (["at_once=many"], "at_once is 'many'; write a whole number"),
        (["rates=often"], "'often' is not a rate"),
        (["parks=maybe"], "write true or false"),
        (["ttl=soon"], "ttl is 'soon'"),
        (["--reset", "all"], "'all' is not a setting of a queue"),
        ([], "There is nothing to set"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_and_changes_nothing(queues: Scene, words: list[str], says: str) -> None:
    queues.push({})
    ended = queues("set", "emails", *words)
    assert isinstance(ended.exception, HoldfastError)
    assert says in str(ended.exception)
    assert queues.document("show", "emails")["settings"]["operator"] == {}


def test_a_paused_queue_admits_nothing_until_it_is_resumed(queues: Scene) -> None:
    queues.push({}, {})
    queues.said("pause", "emails")
    assert queues.admitted(1) == []
    assert queues.document("show", "emails")["next_admission"] == "none while the queue is paused"
    queues.said("resume", "emails")
    assert len(queues.admitted(1)) == 1


def test_a_draining_queue_takes_no_more(queues: Scene) -> None:
    queues.push({})
    queues.said("drain", "emails")
    ended = queues("push", "emails", f"{queues.functions}:send", "-", input="{}\n")
    assert isinstance(ended.exception, QueueFull)
    assert len(queues.admitted(1)) == 1


def test_a_queue_that_is_not_there_is_refused(queues: Scene) -> None:
    queues.push({})
    for verb in ("show", "pause", "resume", "drain", "parked"):
        ended = queues(verb, "emials")
        assert isinstance(ended.exception, HoldfastError)
        assert ended.exception.code == "queue_not_found"
        assert str(ended.exception) == "There is no queue 'emials' here. Did you mean `emails`?"


def test_a_push_into_a_queue_that_the_store_does_not_have_says_so_and_names_a_similar_one(queues: Scene) -> None:
    new = "note: queue {} is new here, and has no limits until a runner or a program declares it."
    assert new.format("reports") in queues.push({}, queue="reports")
    assert "note:" not in queues.push({}, queue="reports")
    assert "note:" not in queues.push({}), "the file of the function declares it"
    assert f"{new.format('emials')} Did you mean `emails`?" in queues.push({}, queue="emials")


def test_a_queue_that_set_makes_is_noted_as_new_with_a_similar_one(queues: Scene) -> None:
    queues.push({"n": 1})
    told = queues.said("set", "emials", "at_once=2")
    assert "note: queue emials is new here: no runner and no program has declared it. Did you mean `emails`?" in told
    assert "note" not in queues.said("set", "emials", "at_once=3")


def test_parked_runs_are_listed_with_code_and_message_and_redriven_under_the_same_name(queues: Scene) -> None:
    queues.push({"id": 1}, {"id": 2}, {"id": 3}, options=["--key-field", "id", "--tenant", "acme", "--lane-field", "id"])
    queues.said("set", "emails", "at_once=none", "per_tenant.at_once=none", "rates=none")
    first, second, third = queues.admitted(3)
    queues.failed(first)
    queues.failed(second, "TimeoutError", "no answer")
    queues.succeeded(third)
    listed = queues.lines("parked", "emails")
    assert [(run["id"], run["error_code"], run["message"]) for run in listed] == [
        (first.id, "LookupError", "no such address"),
        (second.id, "TimeoutError", "no answer"),
    ]
    assert "1 run to start again" in queues.said("redrive", "--all", "--error", "TimeoutError", "--dry-run")
    done = queues.document("redrive", "--all", "--queue", "emails", "--error", "TimeoutError")
    assert [one["parked"] for one in done["started"]] == [second.id]
    (again,) = queues.admitted(2)
    assert (again.id, again.name, again.tenant) == (done["started"][0]["started"], second.name, "acme")
    assert again.place is not None
    assert second.place is not None
    assert again.place.lane == second.place.lane
    assert [run["id"] for run in queues.lines("parked")] == [first.id]


def test_a_run_that_is_not_parked_is_not_started_again(queues: Scene) -> None:
    queues.push({"id": 1}, options=["--key-field", "id"])
    (run,) = queues.admitted(1)
    ended = queues("redrive", run.id, "--json")
    assert ended.exit_code == 1
    (refused,) = json.loads(ended.stdout)["refused"]
    assert (refused["parked"], refused["error"]) == (run.id, "invalid_parameter")
    for words in ([], [run.id, "--all"], [run.id, "--error", "x"]):
        assert isinstance(queues("redrive", *words).exception, HoldfastError)


def test_each_change_of_an_operator_is_in_the_audit_log(queues: Scene) -> None:
    queues.push({"id": 1})
    (run,) = queues.admitted(1)
    queues.failed(run)
    for words in (["set", "emails", "at_once=3"], ["pause", "emails"], ["resume", "emails"], ["drain", "emails"], ["resume", "emails"]):
        queues.said(*words)
    queues.said("redrive", run.id)
    noted = CliRunner().invoke(program("audit"), ["audit", "--json", "--store", queues.store]).stdout.splitlines()
    told = [(line["what"], line["on"], line["outcome"]) for line in map(json.loads, reversed(noted))]
    assert told == [
        ("queue_push", "emails", "pushed 1"),
        ("queue_set", "emails", "at_once=3"),
        ("queue_pause", "emails", "paused"),
        ("queue_resume", "emails", "open"),
        ("queue_drain", "emails", "draining"),
        ("queue_resume", "emails", "open"),
        ("queue_redrive", "emails", "1 started again"),
    ]


def test_runs_of_a_worker_are_pushed_after_its_contract_has_accepted_them_and_none_is_run(queues: Scene) -> None:
    message = {"message": {"task": "Sum up."}, "idempotency_key": "a"}
    text = "".join(json.dumps(one) + "\n" for one in (message, {"message": {}, "idempotency_key": "b"}, {"massage": 1}, message))
    ended = queues("push", "messages", "queue-based-worker", "-", "--key-field", "idempotency_key", input=text)
    assert ended.exit_code == 1
    assert ended.stderr.splitlines() == [
        "note: queue messages is new here, and has no limits until a runner or a program declares it.",
        "line 3: error[invalid_parameter]: The input has no text or whole number in 'idempotency_key'.",
        "queue messages: pushed 2, 1 was there already, 1 line was refused",
    ]
    wrong = queues("push", "messages", "queue-based-worker", "-", input='{"message": 3}\n')
    assert wrong.stderr.startswith("line 1: error[schema_mismatch]: The inputs do not fit: ")
    told = queues.document("show", "messages")
    assert (told["waiting"], told["admitted"]) == (2, 0)


SCHEDULED = """
from holdfast import WorkerContext, worker


@worker("teller.md")
async def teller(inputs: dict, ctx: WorkerContext) -> dict:
    return {}
"""


def test_a_push_declares_the_queues_of_the_operators_file_and_no_schedule_of_a_page(queues: Scene, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {}}
    file = write(tmp_path / "w", SCHEDULED, teller=page("teller", inputs=schema, schedule="0 2 * * *"))
    (tmp_path / "operator.toml").write_text('[queues.words]\nat_once = 7\n\n[schedules.weekly]\nrun = "teller"\ncron = "0 6 * * MON"\n')
    for target in (str(file), f"{queues.functions}:send"):
        told = queues.said("push", "words", target, "-", "--config", str(tmp_path / "operator.toml"), input="{}\n")
        assert told == "queue words: pushed 1\n"
    assert queues.document("show", "words")["settings"]["declared"] == {"at_once": 7}
    assert queues.document("show", "emails")["settings"]["declared"]["at_once"] == 2
    store = queues.opened()
    try:
        assert list(store.schedules("", 10)) == []
    finally:
        store.close()


def test_a_push_gives_the_tokens_of_each_line_to_rates_of_tokens(queues: Scene) -> None:
    queues.push({"n": 1, "tokens": 60}, {"n": 2, "tokens": 60}, {"n": 3, "tokens": 30}, queue="words", options=["--units-field", "tokens"])
    queues.said("set", "words", "rates=100 tokens/m")
    assert len(queues.admitted(3)) == 1
    wrong = queues(
        "push", "words", f"{queues.functions}:send", "-", "--units-field", "tokens", input='{"tokens": -1}\n{"tokens": 1.5}\n{}\n'
    )
    told = "error[invalid_parameter]: The input has no whole number from 0 on in 'tokens'."
    assert wrong.stderr.splitlines()[:3] == [f"line {number}: {told}" for number in (1, 2, 3)]


# --- where a run stands


def shown(queues: Scene, *words: str) -> str:
    ended = CliRunner().invoke(program(words[0]), [*words, "--store", queues.store])
    assert ended.exit_code == 0, (ended.output, ended.exception)
    return ended.stdout


def test_executions_show_tells_queue_lane_position_and_the_limit_that_it_waits_for(queues: Scene) -> None:
    queues.push({"id": "first"}, {"id": "next"}, {"id": "later"}, options=["--key-field", "id", "--tenant", "acme"])
    queues.said("set", "emails", "per_tenant.at_once=1")
    (taken,) = queues.admitted(3)
    told = json.loads(shown(queues, "executions", "show", "send/later", "--json"))
    assert told["place"]["lane"] == "emails/tenant=acme/function=send:$LATEST"
    assert (told["place"]["position"], told["place"]["limit"]) == (2, "tenant acme has 1 of 1 slots in use")
    assert told["why"] == "It waits in queue emails: tenant acme has 1 of 1 slots in use; 2nd in its lane, 1 before it."
    page = " ".join(shown(queues, "executions", "show", "send/later").split())
    assert "position 2nd in its lane, 1 before it limit tenant acme has 1 of 1 slots in use" in page
    assert "position admitted" in " ".join(shown(queues, "executions", "show", taken.id).split())
    queues.said("pause", "emails")
    assert json.loads(shown(queues, "executions", "show", "send/later", "--json"))["place"]["limit"] == "queue emails is paused"


def test_a_parked_execution_says_so_and_how_to_start_it_again_and_lists_take_a_queue(queues: Scene) -> None:
    queues.push({"id": 1}, options=["--key-field", "id"])
    queues.push({"id": 2}, queue="other", options=["--key-field", "id"])
    first, second = sorted(queues.admitted(2), key=lambda header: header.name)
    queues.failed(first)
    page = shown(queues, "executions", "show", first.id)
    assert "It is over: FAILED. It is parked: a person may start it again." in page
    assert f"holdfast queues redrive {first.id}" in page
    listed = [json.loads(line) for line in shown(queues, "executions", "list", "--queue", "emails", "--json").splitlines()]
    assert [(line["id"], line["queue"], line["parked"]) for line in listed] == [(first.id, "emails", True)]
    assert "closed, parked" in shown(queues, "executions", "list", "--queue", "emails")
    assert second.id not in shown(queues, "executions", "list", "--queue", "emails", "--json")


def test_runs_show_and_list_tell_the_queue_of_a_workers_run(queues: Scene) -> None:
    message = json.dumps({"message": {"task": "Sum up."}, "idempotency_key": "a"})
    queues.said("push", "messages", "queue-based-worker", "-", input=message + "\n")
    (line,) = [json.loads(line) for line in shown(queues, "runs", "list", "--queue", "messages", "--json").splitlines()]
    assert (line["state"], line["queue"], line["parked"]) == ("queued", "messages", False)
    assert shown(queues, "runs", "list", "--queue", "emails", "--json") == ""
    told = json.loads(shown(queues, "runs", "show", line["run_id"], "--json"))
    assert (told["place"]["queue"], told["place"]["position"]) == ("messages", 1)
    assert "1st in its lane, 0 before it" in shown(queues, "runs", "show", line["run_id"])
