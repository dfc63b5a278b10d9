"""`holdfast runs`: show, follow and cancel runs of workers and pipelines, and do them again. These commands never run a worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli import completion, run_restarts
from holdfast.cli.arguments import CodecOption, JsonOption, LinesOption, StoreOption, StorePlace
from holdfast.cli.event_lines import EventLines
from holdfast.cli.run_restarts import RunArgument
from holdfast.cli.show import occurrence_json, occurrence_line, queue_facts
from holdfast.cli.terminal import moment, print_document, print_line, print_table, printable, say, seconds, shortened, span_of
from holdfast.model import codec as texts
from holdfast.model.clock import SystemClock

if TYPE_CHECKING:
    from holdfast.cli.remote_events import RemoteEvent
    from holdfast.descriptions.pipeline_view import PipelineView
    from holdfast.workers.calls import Try
    from holdfast.workers.events import RunEvent
    from holdfast.workers.run_lookup import RunView

app = typer.Typer(
    help="Look at runs of workers and pipelines; follow, cancel, retry, restart and compare them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("retry")(run_restarts.retry)
app.command("restart")(run_restarts.restart)
app.command("compare")(run_restarts.compare)


@app.command("list")
def list_(
    worker: Annotated[str | None, typer.Option("--worker", metavar="WORKER_ID", help="Only runs of this worker.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many runs.")] = 50,
    parent: Annotated[
        str | None, typer.Option("--of", metavar="RUN", help="Only the runs that the nodes of this pipeline's run have asked for.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Only runs of this queue.", autocompletion=completion.queues)
    ] = None,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """List runs, newest first. Runs that a pipeline asked for are listed only with --of or --worker."""
    with StorePlace.of(store, codec).client() as client:
        found = list(client.runs.list(worker, limit=limit, parent=parent, queue=queue))
    if json_lines:
        for run_view in found:
            print_line(_line(run_view))
    elif not found:
        say("no runs found")
    else:
        print_table(
            ("RUN", "WORKER", "STATUS", "CODE", "KEY", "STARTED", "TOOK"),
            [_row(run_view) for run_view in found],
            folds="KEY",
        )


@app.command("show")
def show(run: RunArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Show a run: its request, its response or what it waits for, and every call that it made; for a pipeline also its graph."""
    with StorePlace.of(store, codec).client() as client:
        run_view, view, place = client.runs.get(run), client.view(run), client.place(run)
    if json_output:
        stands = {"place": None if place is None else msgspec.to_builtins(place)}
        print_document(_document(run_view) | stands | ({} if view is None else {"nodes": view.document()["nodes"]}))
        return
    for name, value in [*_told(run_view), *((name, value) for name, value in queue_facts(place) if value)]:
        print(f"  {name:<9} {printable(value)}" if name else printable(value))
    if view is not None:
        print_nodes(view)
    if run_view.calls:
        print()
        print_table(("CALL", "ATTEMPT", "ARGUMENTS", "CAME TO"), [_call_row(call) for call in run_view.calls], folds="ARGUMENTS")


def print_nodes(view: PipelineView) -> None:
    """Print the graph with the state of each node, then a table of the nodes: the state, the round, the runs, and what the node waits for
    or why it ended."""
    from holdfast.pipelines.draw.captions import state_line
    from holdfast.pipelines.draw.text import draw_text

    views = view.views()
    print()
    print(draw_text(view.graph, views, width=shutil.get_terminal_size((120, 24)).columns), end="")
    print()
    rows = [
        (one.node, state_line(views[one.node]), str(one.round), " ".join(view.runs_of(one.node)) or "-", views[one.node].detail or "-")
        for one in view.nodes
    ]
    print_table(("NODE", "STATE", "ROUND", "RUNS", "WHY"), rows, folds="WHY")


@app.command("follow")
def follow(
    run: RunArgument,
    json_lines: LinesOption = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Ask the server at this address instead of the store. Without it: $HOLDFAST_URL, else the store."
        ),
    ] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Only events after the one with this id.")] = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Print the events of a run as they happen, until it has ended or is quarantined. The run goes on when this command is interrupted.

    The store has the states of nodes, attempts, tools and approvals, whichever process runs the worker. Progress, log lines and the text of
    models are not on disk: only a server that runs the worker can send them, with --url. The server's token is $HOLDFAST_TOKEN.
    """
    url = url or (None if store else os.environ.get("HOLDFAST_URL")) or None
    if url is not None:
        from holdfast.cli.remote_events import remote_events  # loads the HTTP client, which no other command here needs

        _print_events(remote_events(url, run, os.environ.get("HOLDFAST_TOKEN") or None, after), json_lines)
        return
    with StorePlace.of(store, codec).client() as client:
        _print_events(client.follow(run, after=after or 0), json_lines)


def _print_events(events: Iterable[RunEvent | RemoteEvent], json_lines: bool) -> None:
    lines = EventLines(sys.stdout.write)
    try:
        for event in events:
            if json_lines:
                print_line({"id": event.id, "event": event.event, "data": event.data})
            else:
                lines.tell(event.event, event.data)
            sys.stdout.flush()
    finally:
        lines.end()


@app.command("cancel")
def cancel(run: RunArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Cancel a run. If its body runs, the runner kills the body; a call in flight may still record its result. A run that is over does not
    change."""
    with StorePlace.of(store, codec).client() as client:
        done = client.runs.cancel(run)
    run_view = done.run
    if json_output:
        print_document(_line(run_view))
    elif done.cancelled:
        say(f"cancelled: {run_view.header.function} run {run_view.header.id} ends as soon as a runner takes it")
    else:
        say(f"nothing to cancel: {run_view.header.function} run {run_view.header.id} is over ({run_view.response.status.value})")


def _line(run_view: RunView) -> dict[str, Any]:
    header, response = run_view.header, run_view.response
    over = run_view.state == "done"
    return {
        "run_id": header.id,
        "worker_id": header.function,
        "version": run_view.accepted.version,
        "state": run_view.state,
        "status": response.status.value if over or response.approvals else None,
        "error_code": response.error.error_code if response.error is not None and (over or response.approvals) else None,
        "tenant": run_view.accepted.tenant,
        "idempotency_key": run_view.accepted.request.idempotency_key,
        "queue": None if header.place is None else header.place.queue,
        "parked": header.parked,
        "restarts": run_view.accepted.before[-1] if run_view.accepted.before else None,
        "restarted_as": header.superseded_by,
        "started_at": moment(header.started_at),
        "ended_at": moment(header.ended_at),
    }


def _document(run_view: RunView) -> dict[str, Any]:
    from holdfast.contract.protocol import response_document

    return {
        **_line(run_view),
        "inputs": run_view.accepted.request.inputs,
        "requested_by": run_view.accepted.requested_by,
        "package": run_view.accepted.package,
        "occurrence": occurrence_json(run_view.occurrence),
        "response": response_document(run_view.response),
        "calls": [_call(call) for call in run_view.calls],
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


def _row(run_view: RunView) -> tuple[str, ...]:
    line = _line(run_view)
    started = run_view.header.started_at
    ended = run_view.header.ended_at or SystemClock().now()
    status = line["status"] or run_view.state
    key = shortened(line["idempotency_key"] or "-", 40)
    return line["run_id"], line["worker_id"], status, line["error_code"] or "-", key, seconds(started), span_of(ended - started)


def _told(run_view: RunView) -> list[tuple[str, str]]:
    accepted, response = run_view.accepted, run_view.response
    line = _line(run_view)
    told = [("", f"{line['worker_id']} {accepted.version}, run {line['run_id']}"), ("state", run_view.state)]
    if line["status"] is not None:
        error = response.error
        told.append(("status", line["status"] if error is None else f"{line['status']}: {error.error_code}: {error.message}"))
    told += [("key", accepted.request.idempotency_key or "-"), ("tenant", f"{accepted.tenant}, asked by {accepted.requested_by}")]
    told += [("restarts", line["restarts"])] if line["restarts"] else []
    told += [("restarted", f"as {line['restarted_as']}")] if line["restarted_as"] else []
    if run_view.occurrence is not None:
        told.append(("schedule", occurrence_line(run_view.occurrence)))
    told += [("started", str(line["started_at"])), ("ended", line["ended_at"] or "-")]
    told.append(("inputs", shortened(texts.dumps(accepted.request.inputs), 400)))
    if response.outputs is not None:
        told.append(("outputs", shortened(texts.dumps(response.outputs), 400)))
    usage = response.observability.usage
    if run_view.state == "done" and usage.tool_calls:
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
        came_to = "not known yet" if receipt is None else "lost in a crash, and made again"
    return call.intent.tool, str(call.intent.attempt), shortened(texts.dumps(call.intent.arguments), 80), shortened(came_to, 80)
