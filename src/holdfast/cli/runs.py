"""`holdfast runs`: look at the runs of workers, and cancel them, from any process and without running any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments import CodecOption, JsonOption, LinesOption, StoreOption, StorePlace
from holdfast.cli.terminal import moment, print_document, print_line, print_table, printable, say, seconds, shortened, span_of
from holdfast.model import codec as texts
from holdfast.model.clock import SystemClock

if TYPE_CHECKING:
    from holdfast.workers.calls import Try
    from holdfast.workers.standing import RunStanding

app = typer.Typer(help="Look at runs of workers; cancel them.", no_args_is_help=True, rich_markup_mode=None)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `holdfast run` and `holdfast runs list` print it.")]


@app.command("list")
def list_(
    worker: Annotated[str | None, typer.Option("--worker", metavar="WORKER_ID", help="Only runs of this worker.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 50,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """List runs, newest first."""
    with StorePlace.of(store, codec).client() as client:
        found = list(client.runs(worker, limit))
    if json_lines:
        for standing in found:
            print_line(_line(standing))
    elif not found:
        say("no worker has run here")
    else:
        print_table(
            ("RUN", "WORKER", "STATUS", "CODE", "KEY", "STARTED", "TOOK"),
            [_row(standing) for standing in found],
            folds="KEY",
        )


@app.command("show")
def show(run: RunArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Show a run: what it was asked, what it came to or waits for, and every call it made."""
    with StorePlace.of(store, codec).client() as client:
        standing = client.run(run)
    if json_output:
        print_document(_document(standing))
        return
    for name, value in _told(standing):
        print(f"  {name:<9} {printable(value)}" if name else printable(value))
    if standing.calls:
        print()
        print_table(("CALL", "ATTEMPT", "ARGUMENTS", "CAME TO"), [_call_row(call) for call in standing.calls], folds="ARGUMENTS")


@app.command("cancel")
def cancel(run: RunArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """End a run. Its body is killed; a call that is in flight may still record what it did. One that is over stays as it is."""
    with StorePlace.of(store, codec).client() as client:
        standing, ends = client.cancel(run)
    if json_output:
        print_document(_line(standing))
    elif ends:
        say(f"cancelled: {standing.header.function} run {standing.header.id} ends as soon as a runner has it")
    else:
        say(f"nothing to cancel: {standing.header.function} run {standing.header.id} is over ({standing.response.status.value})")


def _line(standing: RunStanding) -> dict[str, Any]:
    header, response = standing.header, standing.response
    over = standing.state == "done"
    return {
        "run_id": header.id,
        "worker_id": header.function,
        "version": standing.accepted.version,
        "state": standing.state,
        "status": response.status.value if over or response.approvals else None,
        "error_code": response.error.error_code if response.error is not None and (over or response.approvals) else None,
        "tenant": standing.accepted.tenant,
        "idempotency_key": standing.accepted.request.idempotency_key,
        "started_at": moment(header.started_at),
        "ended_at": moment(header.ended_at),
    }


def _document(standing: RunStanding) -> dict[str, Any]:
    from holdfast.contract.protocol import response_document

    return {
        **_line(standing),
        "inputs": standing.accepted.request.inputs,
        "requested_by": standing.accepted.requested_by,
        "package": standing.accepted.package,
        "response": response_document(standing.response),
        "calls": [_call(call) for call in standing.calls],
    }


def _call(call: Try) -> dict[str, Any]:
    intent, receipt = call.intent, call.receipt
    told: dict[str, Any] = {"tool": intent.tool, "attempt": intent.attempt, "try": intent.number, "arguments": intent.arguments}
    told |= {"write": intent.write, "outcome": _outcome(call), "at": moment(call.at or None)}
    if receipt is not None and not receipt.void:
        told |= (
            {"result": receipt.result}
            if receipt.error is None
            else {"error_code": receipt.error.error_code, "message": receipt.error.message}
        )
        usage = receipt.usage
        told["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": float(usage.cost_usd)}
    return told


def _outcome(call: Try) -> str:
    if call.receipt is None:
        return "open"
    if call.receipt.void:
        return "lost"
    return "done" if call.receipt.error is None else "failed"


def _row(standing: RunStanding) -> tuple[str, ...]:
    line = _line(standing)
    started = standing.header.started_at
    ended = standing.header.ended_at or SystemClock().now()
    status = line["status"] or standing.state
    key = shortened(line["idempotency_key"] or "-", 40)
    return line["run_id"], line["worker_id"], status, line["error_code"] or "-", key, seconds(started), span_of(ended - started)


def _told(standing: RunStanding) -> list[tuple[str, str]]:
    accepted, response = standing.accepted, standing.response
    line = _line(standing)
    told = [("", f"{line['worker_id']} {accepted.version}, run {line['run_id']}"), ("state", standing.state)]
    if line["status"] is not None:
        error = response.error
        told.append(("status", line["status"] if error is None else f"{line['status']}: {error.error_code}: {error.message}"))
    told += [("key", accepted.request.idempotency_key or "-"), ("tenant", f"{accepted.tenant}, asked by {accepted.requested_by}")]
    told += [("started", str(line["started_at"])), ("ended", line["ended_at"] or "-")]
    told.append(("inputs", shortened(texts.dumps(accepted.request.inputs), 400)))
    if response.outputs is not None:
        told.append(("outputs", shortened(texts.dumps(response.outputs), 400)))
    usage = response.observability.usage
    if standing.state == "done" and usage.tool_calls:
        told.append(("spent", f"{usage.tokens.input + usage.tokens.output:,} tokens, {usage.cost_usd} USD, {usage.tool_calls} calls"))
    told += [("waits for", f"{approval['approval_id']} {approval['question'] or approval['tool']}") for approval in response.approvals]
    return told


def _call_row(call: Try) -> tuple[str, ...]:
    receipt = call.receipt
    if receipt is not None and receipt.error is not None:
        came_to = f"{receipt.error.error_code}: {receipt.error.message}"
    elif receipt is not None and not receipt.void:
        came_to = texts.dumps(receipt.result)
    else:
        came_to = "nobody knows yet" if receipt is None else "lost in a crash, and made again"
    return call.intent.tool, str(call.intent.attempt), shortened(texts.dumps(call.intent.arguments), 80), shortened(came_to, 80)
