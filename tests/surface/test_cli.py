"""`holdfast run`: real processes, real files, real kills."""

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.surface import warm
from tests.surface.cli_program import PATIENCE_SECONDS, Program, until


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


@contextmanager
def running(holdfast: Program, *words: str) -> Iterator[warm.Talking | subprocess.Popen[str]]:
    process = holdfast.begin(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("function", ["greet", "greet_async"])
def test_run_prints_the_result_and_nothing_else_on_stdout(holdfast: Program, function: str) -> None:
    ended = holdfast("run", f"functions.py:{function}", "--input", '{"who": "you"}')
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"greeting": "hello you"})


def test_what_a_function_prints_goes_to_stderr(holdfast: Program) -> None:
    assert "hello from the function" in holdfast("run", "functions.py:greet", "--input", '{"who": "you"}').stderr


def test_input_comes_from_a_file_or_from_stdin(holdfast: Program) -> None:
    (holdfast.folder / "event.json").write_text('{"who": "file"}')
    assert "hello file" in holdfast("run", "functions.py:greet", "--input", "@event.json").stdout
    assert "hello stdin" in holdfast("run", "functions.py:greet", "--input", "-", given='{"who": "stdin"}').stdout


def test_a_failing_function_is_exit_code_one_and_one_clear_line(holdfast: Program) -> None:
    ended = holdfast("run", "functions.py:fail")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == "error[execution_failed]: LookupError: no such order"
    assert "Traceback" not in ended.stderr


def test_run_tells_machines_how_it_ended(holdfast: Program) -> None:
    good = json.loads(holdfast("run", "functions.py:greet", "--input", '{"who": "you"}', "--name", "a", "--json").stdout)
    assert (good["status"], good["name"], good["result"], good["error"]) == ("SUCCEEDED", "a", {"greeting": "hello you"}, None)
    ended = holdfast("run", "functions.py:fail", "--json")
    bad = json.loads(ended.stdout)
    assert (ended.returncode, bad["status"], bad["result"]) == (1, "FAILED", None)
    assert (bad["error"]["ErrorType"], bad["error"]["ErrorMessage"]) == ("LookupError", "no such order")


def test_after_kill_9_the_same_command_finishes_and_no_completed_step_runs_twice(holdfast: Program) -> None:
    command = ("run", "functions.py:two_steps", "--name", "order-42", "--input", '{"order": 42}')
    with running(holdfast, *command) as process:
        until(lambda: "second" in holdfast.log)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
    shown = holdfast.show("order-42")
    assert shown is not None
    assert shown["why"].startswith("Its runner has died.")
    (holdfast.folder / "go").touch()

    ended = holdfast(*command)

    assert (ended.returncode, json.loads(ended.stdout)) == (0, ["first", "second"])
    assert holdfast.log == ["first", "second", "second"]


def test_a_finished_execution_gives_its_result_again_and_runs_nothing(holdfast: Program) -> None:
    (holdfast.folder / "go").touch()
    command = ("run", "functions.py:two_steps", "--name", "once")
    assert holdfast(*command).stdout == holdfast(*command).stdout
    assert holdfast.log == ["first", "second"]


def test_a_name_alone_finds_the_execution_with_its_own_input(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "you"}')
    assert "hello you" in holdfast("run", "functions.py:greet", "--name", "a").stdout


def test_a_name_with_another_input_is_a_conflict(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "you"}')
    ended = holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "me"}')
    assert ended.returncode == 2
    assert "error[execution_already_started]" in ended.stderr


def test_detach_leaves_an_execution_for_a_later_run(holdfast: Program) -> None:
    (holdfast.folder / "go").touch()
    command = ("run", "functions.py:two_steps", "--name", "later", "--input", "{}")
    left = holdfast(*command, "--detach")
    assert (left.returncode, left.stdout.startswith("arn:aws:lambda:local:")) == (0, True)
    assert holdfast.log == []
    assert holdfast.document("executions", "show", left.stdout.strip())["state"] == "ready"
    assert holdfast(*command, "--detach").stdout == left.stdout
    assert holdfast.document(*command, "--detach")["created"] is False
    assert holdfast.log == []

    ended = holdfast("run", "functions.py:two_steps", "--name", "later")

    assert json.loads(ended.stdout) == ["first", "second"]


def test_a_runner_also_runs_what_others_left_for_its_file(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--name", "left", "--input", '{"who": "you"}', "--detach")
    with running(holdfast, "run", "functions.py:nap"):
        until(lambda: (holdfast.show("left") or {}).get("status") == "SUCCEEDED")


@pytest.mark.parametrize("function", ["approve", "approve_async"])
def test_an_answer_from_another_process_wakes_the_runner(holdfast: Program, function: str) -> None:
    with running(holdfast, "run", f"functions.py:{function}", "--name", "a") as process:
        callback = holdfast.waiting("a")["callback_id"]
        assert holdfast("callbacks", "succeed", callback, "--result", "yes, please").returncode == 0
        stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, json.loads(stdout)) == (0, {"answer": "yes, please"})


def test_an_error_from_another_process_is_raised_where_the_function_waits(holdfast: Program) -> None:
    with running(holdfast, "run", "functions.py:approve", "--name", "a") as process:
        callback = holdfast.waiting("a")["callback_id"]
        holdfast("callbacks", "fail", callback, "--error-message", "out of stock", "--error-type", "Shop.Empty")
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "out of stock" in stderr.splitlines()[-1]


def test_a_run_says_which_callback_it_waits_for_and_how_to_answer_it(holdfast: Program) -> None:
    with running(holdfast, "run", "functions.py:approve", "--name", "a") as process:
        assert process.stderr is not None
        told = next(line for line in process.stderr if "answer it with: " in line)
        command = shlex.split(told.split("answer it with: ")[1])
        assert command[0] == "holdfast"
        assert holdfast(*command[1:]).returncode == 0
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_stop_from_another_process_ends_the_run(holdfast: Program) -> None:
    with running(holdfast, "run", "functions.py:nap", "--name", "a") as process:
        holdfast.waiting("a")
        holdfast("executions", "stop", "a", "--error-message", "enough", "--error-type", "Shop.Closed")
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert stderr.splitlines()[-1] == "error[execution_stopped]: Shop.Closed: enough"


def test_a_stop_ends_the_run_although_a_step_never_ends(holdfast: Program) -> None:
    with running(holdfast, "run", "functions.py:two_steps", "--name", "a") as process:
        until(lambda: "second" in holdfast.log)
        holdfast("executions", "stop", "a")
        assert process.wait(PATIENCE_SECONDS) == 1


@pytest.mark.parametrize("function", ["two_steps", "nap"])
def test_an_interrupt_says_how_to_go_on_and_the_command_it_names_works(holdfast: Program, function: str) -> None:
    with running(holdfast, "run", f"functions.py:{function}", "--store", "my store.db") as process:
        assert process.stderr is not None
        name = process.stderr.readline().split(" ")[0].split("/")[1]
        until(lambda: "second" in holdfast.log if function == "two_steps" else _suspended(holdfast, name))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    told = stderr.splitlines()[-1]
    assert "the execution stays in my store.db" in told
    if function == "two_steps":
        (holdfast.folder / "go").touch()
        ended = holdfast(*shlex.split(told.split("Go on with: holdfast ")[1]))
        assert json.loads(ended.stdout) == ["first", "second"]
        assert holdfast.log == ["first", "second", "second"]


def _suspended(holdfast: Program, name: str) -> bool:
    ended = holdfast("executions", "show", name, "--store", "my store.db", "--json")
    return ended.returncode == 0 and json.loads(ended.stdout)["state"] == "suspended"


def test_what_kills_its_runner_again_and_again_is_put_aside_until_its_next_try_or_a_release(holdfast: Program) -> None:
    command = ("run", "functions.py:deadly", "--name", "a")
    for deaths in (1, 2, 3):
        with running(holdfast, *command) as process:
            until(partial(_begun, holdfast, deaths))
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_SECONDS)
    (holdfast.folder / "go").touch()
    with running(holdfast, *command) as process:
        until(partial(_put_aside, holdfast))
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
    shown = holdfast("executions", "show", "a").stdout
    assert "Its runner died 3 times in a row. It is tried again by itself at 20" in shown
    assert "holdfast executions release deadly/a" in shown
    assert "ready, its runner died 3 times" in holdfast("executions", "list").stdout
    assert len(holdfast.log) == 3
    assert holdfast("executions", "release", "a").returncode == 0
    assert json.loads(holdfast(*command).stdout) == "begun"


def _put_aside(holdfast: Program) -> bool:
    return json.loads(holdfast("executions", "show", "a", "--json").stdout)["next_try"] is not None


def _begun(holdfast: Program, times: int) -> bool:
    return len(holdfast.log) == times


def test_a_sibling_module_can_be_imported_and_a_module_named_instead_of_a_file(holdfast: Program) -> None:
    package = holdfast.folder / "shop"
    package.mkdir()
    (package / "prices.py").write_text("PRICE = 7\n")
    body = (
        "from holdfast.durable import durable_execution\n@durable_execution(name='sell-it')\ndef sell(event, context):\n    return PRICE\n"
    )
    (package / "orders.py").write_text("from prices import PRICE\n" + body)
    (package / "sales.py").write_text("from .prices import PRICE\n" + body)
    assert holdfast("run", "shop/orders.py").stdout == "7\n"
    assert holdfast("run", "shop.sales:sell").stdout == "7\n"
    assert holdfast("run", "shop.sales:sell-it").stdout == "7\n"


def test_a_file_called_like_a_loaded_module_does_not_take_its_place(holdfast: Program) -> None:
    (holdfast.folder / "mine").mkdir()
    (holdfast.folder / "functions.py").rename(holdfast.folder / "mine" / "json.py")
    assert "hello you" in holdfast("run", "mine/json.py:greet", "--input", '{"who": "you"}').stdout
