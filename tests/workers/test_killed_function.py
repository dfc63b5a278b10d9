"""`kill -9` of the process of a durable function, in the middle of a run that it has asked for: the side effect happens once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.crash.scene import until
from tests.workers.pages import page, write
from tests.workers.processes import descendants, end, ended, holdfast

WORKER = """
import threading
from pathlib import Path

from holdfast import tool, worker

@tool(effect="write")
def publish(call, title: str):
    with open({log!r}, "a") as log:
        log.write(call.idempotency_key + " " + title + "\\n")
    while not Path({go!r}).exists():
        threading.Event().wait(0.02)
    return {{"url": title}}

@publish.reconcile
def published(call, title: str):
    found = call.idempotency_key in Path({log!r}).read_text()
    return call.happened({{"url": title}}) if found else call.did_not_happen()

@worker("publisher.md")
async def publisher(inputs, ctx):
    return await ctx.tools.publish(title=inputs["title"])
"""
FUNCTION = """
from pathlib import Path

from holdfast import durable_execution

def prepared(step):
    with open({log!r} + ".steps", "a") as log:
        log.write("prepared\\n")
    return "Skerry"

@durable_execution
async def release(event, context):
    title = await context.step(prepared, name="prepare")
    response = await context.run("publisher", {{"title": title}}, name="publish")
    return response.outputs
"""


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_killed_function_goes_on_with_the_run_that_it_had_begun(tmp_path: Path) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    folder = write(tmp_path / "shop", WORKER.format(log=str(log), go=str(go)), publisher=page("publisher", "publish")).parent
    (folder / "functions.py").write_text(FUNCTION.format(log=str(log)))
    command = ("run", "functions.py:release", "--name", "first", "--trust", "--isolation", "process")
    process = holdfast(*command, folder=folder, environment={})
    until(log.exists, "the side effect to begin")
    family = [process.pid, *descendants(process.pid)]
    for pid in family:
        end(pid, signal.SIGKILL)
    ended(process)
    go.touch()
    code, out, errors = ended(holdfast(*command, folder=folder, environment={}))
    assert (code, '"url": "Skerry"' in out) == (0, True), errors
    assert len(log.read_text().splitlines()) == 1
    assert Path(f"{log}.steps").read_text() == "prepared\n"
    code, listed, errors = ended(holdfast("runs", "list", "--json", folder=folder, environment={}))
    assert (code, len(listed.splitlines())) == (0, 1), errors
