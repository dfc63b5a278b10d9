"""What `holdfast serve` takes and refuses: Python files and modules, folders, templates, places to listen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.surface.serve_program import Programs, programs, until
from tests.workers.pages import page

GREETING = """
from holdfast.durable import durable_execution


@durable_execution(execution_timeout=60)
def greet(event, context):
    return context.step(lambda _: f"hello {event['who']}", name="greet")


@durable_execution(execution_timeout=60)
async def greet_all(event, context):
    return [await context.invoke("greet", {"who": who}) for who in event]
"""
TEMPLATE = """
Resources:
  Caller:
    Type: AWS::Serverless::Function
    Properties:
      InlineCode: |
        from aws_durable_execution_sdk_python import durable_execution

        @durable_execution
        def handler(event, context):
            return [context.invoke("greet:$LATEST", {"who": "official"}), context.invoke("Plain", {"n": 1})]
      Handler: index.handler
      Runtime: python3
      DurableConfig: {ExecutionTimeout: 60}
      AutoPublishAlias: live
  Plain:
    Type: AWS::Lambda::Function
    Properties:
      Code: {ZipFile: "def handler(event, context): return event['n'] + 1"}
      Handler: index.handler
      Runtime: python3
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    (tmp_path / "greeting.py").write_text(GREETING)
    with programs(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "target", ["greeting.py", pytest.param("greeting", marks=pytest.mark.long), pytest.param(".", marks=pytest.mark.long)]
)
def test_functions_of_a_python_file_run_in_the_server_itself(serve: Programs, target: str) -> None:
    server = serve(target)
    assert [line.split() for line in server.said[2:4]] == [
        ["greet", "$LATEST", "durable", "in", "this", "process"],
        ["greet_all", "$LATEST", "durable", "in", "this", "process"],
    ]
    assert server.invoke("greet_all:$LATEST", ["a", "b"])["Payload"] == ["hello a", "hello b"]
    assert not (serve.folder / "orders.db.functions").exists()
    opened = httpx.get(server.url, follow_redirects=True)
    assert (opened.status_code, str(opened.url), [one.status_code for one in opened.history]) == (200, f"{server.url}/console/", [303])
    told = httpx.get(f"{server.url}/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'holdfast_executions_closed_total{function="greet",status="SUCCEEDED"} 2.0' in told.text, "no worker is served here"


def test_a_server_prints_what_functions_of_a_python_file_log_and_why_they_failed(serve: Programs) -> None:
    (serve.folder / "broken.py").write_text(
        "from holdfast import durable_execution\n\n\n@durable_execution(execution_timeout=60)\ndef broken(event, context):\n"
        "    context.logger.info('to %s', event)\n    raise ValueError('no such address')\n"
    )
    server = serve("broken.py")
    assert "FunctionError" in server.invoke("broken:$LATEST", "bob")

    def said() -> list[str]:
        return [line.partition(": ")[2] for line in server.warned if line.startswith("broken/")]

    until(lambda: len(said()) == 2, "both lines")
    assert said() == ["to bob", f"the code raised ValueError: no such address, at {serve.folder / 'broken.py'}:7 in broken"]


def test_a_server_of_a_store_in_memory_serves_functions_and_says_that_it_has_no_console(serve: Programs) -> None:
    server = serve("greeting.py", store=":memory:")
    assert server.invoke("greet_all:$LATEST", ["a"])["Payload"] == ["hello a"]
    assert "console: none, because this store is in memory; name a file or a database with --store to have one" in server.said
    assert httpx.get(f"{server.url}/console/runs").status_code == 404


def test_a_server_declares_the_schedules_of_a_python_file(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(
        "from holdfast import Schedule, durable_execution\n\n\n@durable_execution\ndef report(event, context):\n    return event\n\n\n"
        'nightly = Schedule("nightly", report, cron="0 2 * * *", input={"team": "sales"})\n'
    )
    server = serve("reports.py")
    found = httpx.get(f"{server.url}/v1/schedules/nightly").json()
    assert (found["run"], found["origin"], found["input"]) == ("report", "code", {"team": "sales"})


TELLER = """
from holdfast import worker


@worker("teller.md")
async def teller(inputs, ctx):
    return {}
"""
DECLARING = """
from holdfast import Limits, Queue, Schedule, durable_execution

emails = Queue("emails", at_once=AT_ONCE, rates="100/m", per_tenant=Limits(at_once=1), ttl="1h")


@durable_execution
def report(event, context):
    return event


nightly = Schedule("nightly", report, cron="0 HOUR * * *", input={"team": "sales"}, start="2026-01-01T00:00:00Z")
"""


def declaring(at_once: int, hour: int) -> str:
    return DECLARING.replace("AT_ONCE", str(at_once)).replace("HOUR", str(hour))


def test_under_reload_queues_and_schedules_of_a_python_file_are_declared_and_declared_again_after_a_change(
    serve: Programs, tmp_path: Path
) -> None:
    (tmp_path / "reports.py").write_text(declaring(2, 3))
    (tmp_path / "teller.md").write_text(page("teller", inputs={"type": "object"}, schedule="0 5 * * *"))
    (tmp_path / "tellers.py").write_text(TELLER)
    server = serve("reports.py", "tellers.py", "--reload")

    def seen() -> tuple[object, ...]:
        queue, times = httpx.get(f"{server.url}/v1/queues/emails").json(), {}
        for one in httpx.get(f"{server.url}/v1/schedules").json()["schedules"]:
            times[one["name"]] = one["cron"]
        return queue["settings"]["declared"]["at_once"], times

    assert seen() == (2, {"nightly": "0 3 * * *", "teller": "0 5 * * *"})
    (tmp_path / "reports.py").write_text(declaring(7, 4))
    (tmp_path / "teller.md").write_text(page("teller", inputs={"type": "object"}, schedule="0 6 * * *"))
    until(lambda: seen() == (7, {"nightly": "0 4 * * *", "teller": "0 6 * * *"}), "the new declarations")
    (tmp_path / "reports.py").write_text(declaring(7, 4).partition("nightly")[0])
    gone = "warning: schedule nightly of report was declared earlier (code), and is not now; it goes on. If its declaration was deleted: "
    until(lambda: f"{gone}holdfast schedules remove nightly" in server.warned, "the warning")


REWRITING = """
from pathlib import Path

if not Path("rewritten").exists():  # the first import of this file ends with another file on the disk
    Path("rewritten").touch()
    Path(__file__).write_text(Path("next.txt").read_text())
"""


def test_under_reload_a_change_while_the_server_reads_its_files_is_published(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "reports.py").write_text(declaring(2, 3) + REWRITING)
    (tmp_path / "next.txt").write_text(declaring(7, 4))
    server = serve("reports.py", "--reload")

    def at_once() -> object:
        return httpx.get(f"{server.url}/v1/queues/emails").json()["settings"]["declared"]["at_once"]

    until(lambda: at_once() == 7, "the declaration of the changed file")


def test_official_and_own_functions_invoke_each_other(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "caller.yaml").write_text(TEMPLATE)
    server = serve("caller.yaml", "greeting.py")
    assert server.invoke("Caller:live", {})["Payload"] == ["hello official", 2]


@pytest.mark.long
def test_under_reload_a_python_file_runs_in_processes_and_its_changes_are_versions(serve: Programs, tmp_path: Path) -> None:
    server = serve("greeting.py", "--reload")
    assert server.invoke("greet:1", {"who": "you"})["Payload"] == "hello you"
    (tmp_path / "greeting.py").write_text(GREETING.replace("hello", "goodbye"))
    until(lambda: "greet is version 2 now" in server.warned, "the second version")
    assert server.invoke("greet:2", {"who": "you"})["Payload"] == "goodbye you"
    assert server.invoke("greet:1", {"who": "you"})["Payload"] == "hello you"
    assert server.invoke("greet:$LATEST", {"who": "you"})["Payload"] == "goodbye you"


def refused(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "holdfast.cli", "serve", "--port", "0", "--store", "orders.db", *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((), "error[invalid_parameter]: There is nothing to serve"),
        (("nothing.py",), "error[function_not_loadable]: There is no file nothing.py"),
        (("nowhere/template.yaml",), "error[template_invalid]: nowhere/template.yaml could not be read"),
        pytest.param(("empty.py",), "error[function_not_loadable]: empty.py defines no durable function", marks=pytest.mark.long),
        pytest.param(("empty",), "error[function_not_loadable]: empty has no template.yaml", marks=pytest.mark.long),
        pytest.param(("broken.yaml",), "error[template_invalid]: broken.yaml: The template cannot be read as YAML", marks=pytest.mark.long),
        pytest.param(
            ("greeting.py", "greeting.py"), "error[duplicate_function]: Several targets have a function greet", marks=pytest.mark.long
        ),
        pytest.param(
            ("greeting.py", "--parameter", "A=1"),
            "error[invalid_parameter]: No template here has a parameter A. Parameters here: none.",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("greeting.py", "--parameter", "A"), "error[invalid_parameter]: --parameter: 'A' is not NAME=VALUE", marks=pytest.mark.long
        ),
        pytest.param(
            ("greeting.py", "--host", "0.0.0.0"),
            "error[credentials_needed]: 0.0.0.0 can be reached from other machines",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    (tmp_path / "greeting.py").write_text(GREETING)
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.yaml").write_text("Resources: [")
    assert says in refused(tmp_path, *arguments)


def test_a_port_that_is_taken_is_refused(serve: Programs) -> None:
    server = serve("greeting.py")
    port = server.url.rpartition(":")[2]
    says = refused(serve.folder, "greeting.py", "--port", port)
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use. Name another port with --port, 0 for any free one" in says


def test_a_second_server_does_not_touch_the_deployed_functions_of_the_first(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "caller.yaml").write_text(TEMPLATE)
    serve("caller.yaml")
    second = serve.begun("caller.yaml")
    assert second.process.wait(60) == 3
    until(lambda: any("error[store_busy]" in line for line in second.warned), "why it refused")
