"""`holdfast run` of a worker: one request, its response, and an exit code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.author_files.function_loader import declares_function
from holdfast.cli.arguments import StorePlace, read_json
from holdfast.cli.named_worker import meant_worker
from holdfast.cli.terminal import print_document, printable, say, shortened, warn_of_root
from holdfast.library import find
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Kind
from holdfast.signals.observers import AttemptSeen, RunObserver, RunSeen, ToolSeen

if TYPE_CHECKING:
    from holdfast.cli.consent import RunTerms
    from holdfast.contract.protocol import Response
    from holdfast.contract.terms import RunLimits
    from holdfast.service.engines import OpenEngine
    from holdfast.workers.accept import ServedVersion


class WorkerRunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `holdfast run` for a worker or a pipeline."""

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
    def of(cls, target: str, inputs: str | None, key: str | None, constraints: str | None, **more: Any) -> WorkerRunOptions:
        """Read the options of a command line. Raises PayloadNotJson if `inputs` or `constraints` is not JSON, and InvalidParameter if it
        names a file that cannot be read."""
        file, _, worker = target.partition(":")
        read = {} if inputs is None else read_json("--input", inputs)
        tighter = None if constraints is None else read_json("--constraints", constraints)
        return cls(file=Path(file), worker=worker or None, inputs=read, key=key, constraints=tighter, **more)


def declares_workers(target: str) -> bool:
    """Whether a target of `holdfast run` is a worker or a pipeline: the id of a worker of the library, a path that ends in `.md`, or a
    Python file that declares a worker or a pipeline, also with mistakes. False for `FILE:NAME` if NAME is a durable function of the Python
    file. A file is read, not run."""
    file = Path(target.partition(":")[0])
    if not file.exists() and find(str(file)) is not None:
        return True
    if file.suffix == ".md":
        return True  # a page is a pipeline, or is refused with the reason
    if file.suffix != ".py" or not file.is_file():
        return False
    if (named := target.partition(":")[2]) and declares_function(file, named):
        return False
    from holdfast.author_files.worker_search import declares_pipelines
    from holdfast.workers.tools.declarations import declarations_of

    if declares_pipelines(file):
        return True
    declared = declarations_of(file.read_bytes())
    # A worker's file with mistakes is a worker's file too: it must not be imported here as a file of durable functions.
    return bool(declared.workers) or any("@worker" in problem.message for problem in declared.problems)


def run_worker(options: WorkerRunOptions, *, json_output: bool, detach: bool = False, estimate: bool = False) -> int:
    """Run the worker or pipeline until the run has ended or waits for a person, and return the exit code. Prints the outputs (with
    `json_output` the whole response) on stdout, and a summary on stderr. With `estimate`, prints what the run may cost, and runs nothing.
    Raises InvalidParameter if `detach` is True, or if the inputs or the constraints are not a JSON object."""
    from holdfast.contract.protocol import response_document

    if detach:
        raise InvalidParameter("--detach is for durable functions. A run of a worker continues with the same command and the same --key.")
    if not isinstance(options.inputs, dict):
        raise InvalidParameter("--input of a worker must be a JSON object: its inputs by name.")
    if not isinstance(options.constraints, dict | None):
        raise InvalidParameter('--constraints must be a JSON object, such as {"max_tokens": 500}.')
    if estimate:
        return _estimated(options, json_output=json_output)
    from holdfast.author_files.worker_search import served_files
    from holdfast.cli.consent import run_terms

    warn_of_root()
    terms = run_terms(served_files([options.file]), options.place, options.isolation, options.config, trust=options.trust)
    response, limits = asyncio.run(_ran(options, terms))
    if json_output:
        print_document(response_document(response))
    elif response.outputs is not None:
        print_document(response.outputs)
    say(summary(response, limits))
    return exit_code(response)


def _estimated(options: WorkerRunOptions, *, json_output: bool) -> int:
    from holdfast.cli.estimates import Estimated

    asked = Estimated(options.file, options.worker, options.inputs, options.place, options.config, options.isolation, trust=options.trust)
    asked.show(json_output=json_output)
    return 0


async def _ran(options: WorkerRunOptions, terms: RunTerms) -> tuple[Response, RunLimits | None]:
    from holdfast.service.engines import open as open_engine

    opening = open_engine(options.place.where, workers=[options.file], worker_settings=terms.settings, codec=options.place.codec())
    opening.declares = False
    runtime = opening.runtime
    assert runtime is not None
    terms.check(runtime.packages)
    runtime.admits = lambda worker, tool: terms.refusal
    for line in dict.fromkeys(line for package in runtime.packages for line in package.left_behind):
        say(f"warning: {printable(line)}")
    async with opening as engine:
        served = engine.worker_service.served
        worker = options.worker or meant_worker(served, options.file)
        asking = {"idempotency_key": options.key, "constraints": options.constraints, "user": options.user}
        kind, limits = _version(served, worker)
        if kind is Kind.PIPELINE:
            return await _ran_pipeline(engine, worker, options.inputs, asking), limits
        engine.worker_service.observe(_ProgressPrinter())
        return await engine.run(worker, options.inputs, **asking), limits


def _version(served: Mapping[str, Mapping[str, ServedVersion]], worker: str) -> tuple[Kind, RunLimits | None]:
    """The kind and the limits of the version that a request without a version runs. If the worker is not served, the result is WORKER and
    None, and the engine refuses the request later."""
    versions = served.get(worker)
    if not versions:
        return Kind.WORKER, None
    latest = list(versions.values())[-1]
    return latest.kind, latest.worker.contract.limits


async def _ran_pipeline(engine: OpenEngine, pipeline: str, inputs: Any, asking: Mapping[str, Any]) -> Response:
    """Run a pipeline and show its nodes while it runs, including nodes that ended when this command ran before and was killed."""
    from holdfast.cli.live_pipeline import shown_nodes
    from holdfast.contract.protocol import Response

    service = engine.worker_service
    asked = {name: value for name, value in asking.items() if value is not None}
    begun = await service.begin_asked({"worker_id": pipeline, "inputs": inputs, **asked}, "default")
    if isinstance(begun, Response):
        return begun
    async with shown_nodes(lambda: engine.view(begun[0].id)):
        return await service.wait_for(*begun)


class _ProgressPrinter(RunObserver):
    """Prints on stderr: each call of a tool when it begins and if it fails, each retry, progress and log lines. A body that runs again
    after a crash prints its progress again."""

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


_DECIDE = {"approve": "approve {}", "question": "answer {} JSON", "unknown_outcome": "settle {} happened|not_happened|stop"}


def _phrase(message: str) -> str:
    return message if message.endswith("..") else message.removesuffix(".")


def summary(response: Response, limits: RunLimits | None = None) -> str:
    """The response in one line. If the run waits for approvals, the text has one line for each approval instead, and then a line with the
    command that decides the first approval. If `limits` has a cap on tokens, the cap is shown after the number of tokens."""
    from holdfast.pipelines.draw.captions import money

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
    if seen.partial:
        parts.append("partial")
    if error is not None and error.retry_after_seconds is not None:
        parts.append(f"try again in {error.retry_after_seconds:.0f} s")
    if seen.attempt:
        parts.append(f"attempt {seen.attempt}")
    tokens = seen.usage.tokens.input + seen.usage.tokens.output
    if tokens:
        cap = "" if limits is None or limits.max_tokens is None else f"/{limits.max_tokens:,}"
        parts.append(f"{tokens:,}{cap} tokens")
    if seen.usage.cost_usd:
        parts.append(money(seen.usage.cost_usd))
    if seen.usage.tool_calls:
        parts.append(f"{seen.usage.tool_calls} tool call{'s' * (seen.usage.tool_calls != 1)}")
    if seen.isolation is not None:
        parts.append(f"isolation: {seen.isolation}")
    return ", ".join(parts)


def call_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as text, such as `refund(cents=1900)`. An argument of more than 60 characters is cut, and ends with `...`."""
    return f"{tool}({', '.join(f'{name}={shortened(repr(value), 60)}' for name, value in arguments.items())})"


def exit_code(response: Response) -> int:
    """The exit code for a response. It is the exit code that the table of codes has for the response's error code, if the table has that
    code with the same status as the response; else the exit code of the response's status."""
    from holdfast.contract.codes import CODES, ending_of

    known = None if response.error is None else CODES.get(response.error.error_code)
    return known.exit if known is not None and known.status is response.status else ending_of(response.status).exit
