"""`holdfast check`: reads pages, workers' files and pipelines, and prints their problems. For a worker without problems it prints what the
worker may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.arguments import JsonOption
from holdfast.cli.check_pages import counted, may_be_pipeline, read_page
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, printable
from holdfast.contract.codes import Named, ResponseStatus, meaning_of
from holdfast.contract.terms import Contract, Field, PageReading, RunLimits

if TYPE_CHECKING:
    from holdfast.cli.check_pipelines import CheckedPipeline


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="What to read: pages (worker.md, pipeline.md), files of workers and pipelines (.py), graphs (.json)."
        ),
    ],
    tool: Annotated[
        list[str] | None, typer.Option("--tool", metavar="NAME", help="A tool of your own that pages may name. May be given several times.")
    ] = None,
    worker: Annotated[
        list[Path] | None,
        typer.Option("--worker", metavar="FILE", help="A worker's file that pipelines may name. May be given several times."),
    ] = None,
    isolation: Annotated[
        str | None, typer.Option("--isolation", metavar="LEVEL", help="How a pipeline's file is isolated while it builds: all or process.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Read pages, workers' files and pipelines, and print every problem, with its line.

    For a page without errors it prints a summary: the worker's inputs and outputs, and what the worker may do. The command does not run a
    worker's file: it reads the file's @worker and @tool, and its pages. If the file has tools, the command also prints which folder must be
    trusted before they run. A pipeline's file is built in the sandbox, and a pipeline's page is read. The graph of a pipeline is checked
    with the contracts of its workers: the workers in the same folder, those of --worker, and the ready workers. The exit code is 2 if there
    is an error.
    """
    readings: list[tuple[Path, PageReading]] = []
    needs: list[dict[str, Any]] = []
    pipelines: list[CheckedPipeline] = []
    for file in files:
        if file.suffix not in (".py", ".json") and not may_be_pipeline(file):
            readings.append((file, read_page(file, tool or [])))
            continue
        from holdfast.cli.check_files import has_workers, trust_of, worker_file  # these modules are slow to load
        from holdfast.cli.check_pipelines import checked_pipelines, has_pipelines

        builds = has_pipelines(file)
        if builds:
            pipelines += checked_pipelines(file, worker or [], isolation)
        if file.suffix not in (".py", ".json"):
            readings += [] if builds else [(file, read_page(file, tool or []))]
        elif not builds or has_workers(file):
            readings += worker_file(file, tool or [])
            needs += trust_of(file)
    fine = not any(reading.errors for _, reading in readings) and all(one.ok for one in pipelines)
    if json_output:
        told = [one.document() for one in pipelines]
        print_document({"ok": fine, "files": [_document(*one) for one in readings], "trust": needs, "pipelines": told})
    else:
        for file, reading in readings:
            print("\n".join(_lines(str(file), reading)))
        for need in needs:
            print(printable(need["told"]))
        for one in pipelines:
            print("\n".join(one.lines()))
    if not fine:
        raise typer.Exit(ExitCode.MISTAKE)


def _document(file: Path, reading: PageReading) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": reading.contract is not None,
        "problems": msgspec.to_builtins(reading.problems),
        "contract": msgspec.to_builtins(reading.contract),
    }


def _lines(file: str, reading: PageReading) -> Iterator[str]:
    file = printable(file)
    for problem in reading.problems:
        where = f"{file}:{problem.line}" if problem.line else file
        section = f" {problem.section}:" if problem.section else ""
        yield f"{where}: {problem.level.value}[{problem.code}]{printable(section)} {printable(problem.message)}"
    if reading.contract is None:
        yield f"{file}: {counted(len(reading.errors), 'error')}, {counted(len(reading.warnings), 'warning')}"
        return
    contract = reading.contract
    yield f"{file}: {contract.worker_id} {contract.version} is fine, {counted(len(reading.warnings), 'warning')}"
    for name, value in _summary(contract):
        yield f"  {name:<10} {printable(value)}"


def _summary(contract: Contract) -> Iterator[tuple[str, str]]:
    """The lines of a summary, each as a name and a text: what a user should know before running the worker of another author."""
    yield "takes", _fields(contract.inputs)
    yield "gives", _fields(contract.outputs)
    yield "may use", _listed(f"{tool.name}{' (optional)' * tool.optional}" for tool in contract.tools) or "no tools"
    yield "may reach", "any public address" if contract.egress is None else _listed(contract.egress) or "nothing"
    yield "limits", _listed(_limits(contract.limits))
    if contract.rate_limit:
        yield "rate", f"{contract.rate_limit.count} runs in {contract.rate_limit.per_seconds:g} s for each {contract.rate_limit.per}"
    yield "retries", f"{counted(contract.retries.max_attempts, 'attempt')}, {contract.retries.backoff} backoff"
    if contract.approvals_required:
        yield "approvals", _listed(contract.approvals_required)
    if contract.errors:
        yield "errors", _listed(f"{code} ({_rule(code, contract.errors)})" for code in contract.errors)


def _fields(fields: tuple[Field, ...]) -> str:
    texts = (f"enum({', '.join(field.enum)})" if field.type == "enum" else field.type for field in fields)
    return _listed(f"{field.name}: {text}{' (optional)' * field.optional}" for field, text in zip(fields, texts, strict=True)) or "nothing"


def _limits(limits: RunLimits) -> Iterator[str]:
    yield f"{limits.timeout_seconds:g} s for each attempt"
    for value, text in (
        (limits.run_timeout_seconds, "{:g} s for the run"),
        (limits.idle_timeout_seconds, "{:g} s without a message of the body"),
        (limits.max_tokens, "{} tokens"),
        (limits.max_cost_usd, "{} USD"),
        (limits.max_tool_calls, "{} tool calls"),
        (limits.max_cpu_seconds, "{:g} s of CPU"),
        (limits.max_memory_mb, "{} MB of memory"),
    ):
        if value is not None:
            yield text.format(value)
    yield from (f"{count} calls of {tool}" for tool, count in limits.tool_quotas.items())
    if limits.allow_subprocess:
        yield "may start processes"


def _rule(code: str, deployed: dict[str, Named]) -> str:
    meaning = meaning_of(code, deployed=deployed)
    if meaning.status in (ResponseStatus.RETRYABLE_ERROR, ResponseStatus.PERMANENT_ERROR):
        return "retryable" if meaning.retryable else "not retryable"
    return meaning.status.value


def _listed(words: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(words)
