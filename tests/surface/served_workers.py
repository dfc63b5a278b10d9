"""Workers that a test serves over HTTP, and a server of them as users start one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from holdfast.store.backends import open_store
from holdfast.web.auth.keys import Issued
from tests.surface.auth_server import bearer, token
from tests.surface.serve_program import PATIENCE_SECONDS, Program, Programs
from tests.workers.pages import page, write

SOURCE = """
import os
import pathlib
import time

from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker


@tool(effect="write", approval=True)
def pay(call: ToolCall, cents: int) -> dict:
    return {"paid": cents}


@tool(effect="write")
def note(call: ToolCall, path: str, line: str) -> None:
    with pathlib.Path(path).open("a") as file:
        file.write(line + "\\n")


@tool(effect="read")
def appears(call: ToolCall, path: str) -> bool:
    pathlib.Path(path + ".asked").touch()
    while not pathlib.Path(path).exists():
        time.sleep(0.02)
    return True


@worker("echo.md")
async def echo(inputs: dict, ctx: WorkerContext) -> dict:
    match inputs.get("do"):
        case "fail":
            raise WorkerError("no_luck", "there was none", partial={"said": "half"})
        case "human":
            raise WorkerError("ambiguous", "who knows", needs_human=True)
        case "wrong":
            return {"said": 5}
        case "crash":
            os._exit(3)
        case "large":
            return {"said": "x" * 200_000}
        case "page":
            await ctx.artifact("../<b>.html\\r\\nx: y", b"<script>alert(1)</script>", media_type="text/html\\r\\nx: y")
        case "ask":
            ctx.progress({"asking": True})
            return {"said": await ctx.ask("which?", schema={"enum": ["red", "blue"]})}
    ctx.progress({"half": True})
    ctx.log("said it", level="info")
    return {"said": inputs["say"]}


@worker("payer.md")
def payer(inputs: dict, ctx: WorkerContext) -> dict:
    return ctx.tools.pay(cents=inputs["cents"])


@worker("slow.md")
async def slow(inputs: dict, ctx: WorkerContext) -> dict:
    await ctx.tools.note(path=inputs["log"], line="begun")
    await ctx.tools.appears(path=inputs["go"])
    await ctx.tools.note(path=inputs["log"], line="over")
    return {"attempt": "done"}
"""
TEXT = {"type": "string"}
SAYS = {"type": "object", "properties": {"say": TEXT, "do": TEXT}, "required": ["say"]}
SAID = {"type": "object", "properties": {"said": TEXT}, "required": ["said"]}
CENTS = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"], "additionalProperties": False}
OPERATOR_FILE = """
[policy]
artifact_bytes = 1000000
[policy.rate_limits.payer]
count = 4
per_seconds = 3600
[tools]
allow = ["pay", "slow:note", "slow:appears"]
"""


def written(folder: Path) -> Path:
    """The workers' file, with everything beside it."""
    (folder / "holdfast.toml").write_text(OPERATOR_FILE)
    return write(
        folder,
        SOURCE,
        echo=page("echo", attempts=1, inputs=SAYS, outputs=SAID),
        payer=page("payer", "pay", attempts=1, inputs=CENTS),
        slow=page("slow", "note", "appears", attempts=1, timeout_seconds=60),
    )


def start(programs: Programs, *arguments: str) -> Program:
    """A server of them."""
    return programs.begun("worker.py", "--trust", *arguments).started("/v1/workers/")


def web(program: Program, issued: Issued | None = None) -> httpx.Client:
    """A client of the server."""
    headers = {} if issued is None else bearer(issued)
    return httpx.Client(base_url=program.url, timeout=PATIENCE_SECONDS, headers=headers, trust_env=False)


def issue(folder: Path, *roles: str, tenant: str | None = None) -> Issued:
    """A token of the store."""
    store = open_store(str(folder / "orders.db"), "test", None)
    try:
        return token(store, *roles, tenant=tenant)
    finally:
        store.close()


def ask(client: httpx.Client, worker: str, inputs: dict[str, Any], **more: Any) -> httpx.Response:
    """Invoke a worker."""
    headers, params = more.pop("headers", {}), more.pop("params", {})
    return client.post(f"/v1/workers/{worker}/invoke", content=json.dumps({"inputs": inputs, **more}), headers=headers, params=params)


def approval_in(response: httpx.Response) -> Any:
    """The only approval that a run waits for."""
    approvals = response.json()["approvals"]
    assert len(approvals) == 1, response.text
    return approvals[0]


def events_of(text: str) -> list[tuple[str | None, str, Any]]:
    """What a stream said: id, event, data."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found
