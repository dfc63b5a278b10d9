"""`holdfast run` of a worker: one request, its response, and an exit code that says whose turn it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.arguments import StorePlace, read_json
from holdfast.cli.terminal import print_document, printable, say, shortened, warn_of_root
from holdfast.library import find
from holdfast.model.errors import InvalidParameter
from holdfast.signals.observing import AttemptSeen, Nobody, RunSeen, ToolSeen

if TYPE_CHECKING:
    from holdfast.cli.consent import RunTerms
    from holdfast.contract.protocol import Response
    from holdfast.contract.terms import Limits


class WorkerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for."""

    file: Path
    worker: str | None
    inputs: Any
    key: str | None
    constraints: Any
    isolation: str | None
    user: str | None
    place: StorePlace
    config: Path | None = None
    trust: bool = False

    @classmethod
    def of(cls, target: str, inputs: str | None, key: str | None, constraints: str | None, **more: Any) -> WorkerOrder:
        """The order of a command line."""
        file, _, worker = target.partition(":")
        read = {} if inputs is None else read_json("--input", inputs)
        tighter = None if constraints is None else read_json("--constraints", constraints)
        return cls(file=Path(file), worker=worker or None, inputs=read, key=key, constraints=tighter, **more)


def declares_workers(target: str) -> bool:
    """Whether a target is a worker's file, or the id of a ready worker; a file is read, not run."""
    file = Path(target.partition(":")[0])
    if not file.exists() and find(str(file)) is not None:
        return True
    if file.suffix != ".py" or not file.is_file():
        return False
    from holdfast.workers.tools.declaring import declarations_of

    declared = declarations_of(file.read_bytes())
    # One that is written wrong is a worker's file too: it must not be imported here instead, as a durable function's would be.
    return bool(declared.workers) or any("@worker" in problem.message for problem in declared.problems)


def run_worker(order: WorkerOrder, *, json_output: bool, detach: bool = False) -> int:
    """Run it, print what it came to, and answer with the exit code."""
    from holdfast.contract.protocol import response_document

    if detach:
        raise InvalidParameter("--detach is for durable functions. A worker that is left alone goes on with the same command and --key.")
    if not isinstance(order.inputs, dict):
        raise InvalidParameter("--input of a worker is a JSON object: its inputs by name.")
    if not isinstance(order.constraints, dict | None):
        raise InvalidParameter('--constraints is a JSON object, such as {"max_tokens": 500}.')
    from holdfast.cli.consent import run_terms

    warn_of_root()
    terms = run_terms(order.file, order.place, order.isolation, order.config, trust=order.trust)
    response, limits = asyncio.run(_ran(order, terms))
    if json_output:
        print_document(response_document(response))
    elif response.outputs is not None:
        print_document(response.outputs)
    say(summary(response, limits))
    return exit_code(response)


async def _ran(order: WorkerOrder, terms: RunTerms) -> tuple[Response, Limits]:
    from holdfast.service.engines import open as open_engine

    opening = open_engine(order.place.where, workers=[order.file], worker_settings=terms.settings, codec=order.place.codec())
    runtime = opening.runtime
    assert runtime is not None
    terms.check(runtime.packages)
    runtime.admits = lambda worker, tool: terms.refusal
    for line in dict.fromkeys(line for package in runtime.packages for line in package.left_behind):
        say(f"warning: {printable(line)}")
    async with opening as engine:
        served = engine.worker_service.served
        worker = order.worker or _only(list(served), order.file)
        engine.worker_service.observe(_Teller())
        response = await engine.run(worker, order.inputs, idempotency_key=order.key, constraints=order.constraints, user=order.user)
        limits = list(served[worker].values())[-1].worker.contract.limits
        return response, limits


class _Teller(Nobody):
    """Tells people what goes on. A call is told when it is made; a body that is run again after a crash says again what it said."""

    def __init__(self) -> None:
        self._failed: str | None = None

    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None:
        say(f"calls {printable(tool.tool)}")

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        if tool.error_code is not None and not tool.reused:
            why = f"{tool.error_code}: {shortened(tool.message or '(no message)', 400)}"
            say(f"{printable(tool.tool)} failed: {printable(why)}")

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        self._failed = attempt.error_code

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        if number > 1:
            why = "" if self._failed is None else f": attempt {number - 1} failed with {printable(self._failed)}"
            say(f"attempt {number}{why}")

    def progressed(self, run: RunSeen, data: Any) -> None:
        say(f"progress: {printable(shortened(_text(data), 200))}")

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in record.items() if name not in ("level", "message", "attempt")}
        more = f" {shortened(_text(fields), 200)}" if fields else ""
        say(f"{printable(str(record['level']))}: {printable(shortened(str(record['message']), 400))}{printable(more)}")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _only(workers: list[str], file: Path) -> str:
    if len(workers) != 1:
        raise InvalidParameter(f"{file} has several workers ({', '.join(workers)}): say which, as {file}:WORKER_ID.")
    return workers[0]


_DECIDE = {"approve": "approve {}", "question": "answer {} JSON", "unknown_outcome": "settle {} happened|not_happened|stop"}


def _phrase(message: str) -> str:
    """A sentence without its full stop, because the line goes on."""
    return message if message.endswith("..") else message.removesuffix(".")


def summary(response: Response, limits: Limits | None = None) -> str:
    """What it came to, in a line."""
    seen, error = response.observability, response.error
    if response.approvals:
        told = "\n".join(
            f"needs_human: approval {one['approval_id']} {printable(one['question'] or call_of(one['tool'], one['arguments']))}"
            for one in response.approvals
        )
        first = response.approvals[0]
        return f"{told}\nrun {response.run_id}; decide with: holdfast approvals {_DECIDE[first['kind']].format(first['approval_id'])}"
    parts = [
        response.status.value if error is None else printable(f"{response.status.value}: {error.error_code}: {_phrase(error.message)}")
    ]
    if error is not None and error.retry_after_seconds is not None:
        parts.append(f"try again in {error.retry_after_seconds:.0f} s")
    if seen.attempt:
        parts.append(f"attempt {seen.attempt}")
    tokens = seen.usage.tokens.input + seen.usage.tokens.output
    if tokens:
        cap = "" if limits is None or limits.max_tokens is None else f"/{limits.max_tokens:,}"
        parts.append(f"{tokens:,}{cap} tokens")
    if seen.usage.tool_calls:
        parts.append(f"{seen.usage.tool_calls} tool call{'s' * (seen.usage.tool_calls != 1)}")
    if seen.isolation is not None:
        parts.append(f"isolation: {seen.isolation}")
    return ", ".join(parts)


def call_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as people read it; long arguments are cut, and show that they are."""
    return f"{tool}({', '.join(f'{name}={shortened(repr(value), 60)}' for name, value in arguments.items())})"


def exit_code(response: Response) -> int:
    """By the one table."""
    from holdfast.contract.codes import CODES, ending_of

    known = None if response.error is None else CODES.get(response.error.error_code)
    return known.exit if known is not None and known.status is response.status else ending_of(response.status).exit
