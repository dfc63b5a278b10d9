"""Prints executions: tables and pages for people, and the same facts as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.cli.arguments import StorePlace
from holdfast.cli.terminal import distance, moment, print_table, printable, say, seconds, shortened, span_of
from holdfast.descriptions.executions import Description, Pending, Trouble, arn_of
from holdfast.descriptions.failure_path import described, failed_branches
from holdfast.descriptions.history import HistoryEvent
from holdfast.model.error_text import class_of, ordinal
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.life import RUNNER_DIED, next_try, reason_of
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.schedules import How, Occurrence
from holdfast.model.serialization_advice import with_advice
from holdfast.model.shown_status import ShownStatus, shown_status
from holdfast.model.typed import as_json
from holdfast.queues.places import QueuePlace

_SHOWN_BRANCHES = 10
_PATCH = "Patch"  # the sub-type of a `context.patched` record, written here because these commands do not load the SDK


def execution_json(header: Execution, trouble: Trouble | None = None) -> dict[str, Any]:
    """An execution as JSON, as `executions list` prints it."""
    return {
        "id": header.id,
        "arn": arn_of(header),
        "function": header.function,
        "version": header.version,
        "name": header.name,
        "status": header.status.value,
        "state": header.state.value,
        "started_at": moment(header.started_at),
        "ended_at": moment(header.ended_at),
        "trouble": _trouble_json(trouble),
        "superseded_by": header.superseded_by,
        "quarantine": reason_of(header),
        "queue": None if header.place is None else header.place.queue,
        "parked": header.parked,
    }


def queue_facts(place: QueuePlace | None) -> list[tuple[str, str]]:
    """The place of an execution or run in its queue, as pairs of a label and a text, which may be empty. No pairs if it was not
    enqueued."""
    if place is None:
        return []
    facts = [("queue", place.queue), ("lane", place.lane), ("position", place.told()), ("limit", place.limit or "")]
    return [*facts, ("parked", "yes" if place.parked else "")]


def _trouble_json(trouble: Trouble | None) -> dict[str, Any] | None:
    return None if trouble is None else {**msgspec.to_builtins(trouble), "next_try_at": moment(trouble.next_try_at)}


def executions_table(found: Sequence[tuple[Execution, Trouble | None]], now: int) -> None:
    """Print a table of executions. It has the column TROUBLE only if at least one of them has trouble: its latest invocations failed."""
    if not found:
        say("no executions")
        return
    troubled = any(trouble is not None for _, trouble in found)
    rows = [
        (
            x.name,
            x.function if x.version == "$LATEST" else f"{x.function}:{x.version}",
            status_line(x),
            _state(x),
            seconds(x.started_at),
            span_of((x.ended_at or now) - x.started_at),
            *([_trouble(trouble, now)] if troubled else ()),
        )
        for x, trouble in found
    ]
    columns = ("NAME", "FUNCTION", "STATUS", "STATE", "STARTED", "TOOK", *(["TROUBLE"] if troubled else ()))
    print_table(columns, rows, folds="TROUBLE" if troubled else "NAME")


def status_line(header: Execution) -> str:
    """The status of an execution. If it succeeded, but the response of its run is not ok, also how the run ended, in the word of the
    console's list: `SUCCEEDED (run failed)`."""
    ended = shown_status(header, undecided=False)
    well = header.status is not ExecutionStatus.SUCCEEDED or ended is ShownStatus.OK
    return header.status.value if well else f"{header.status.value} (run {ended.value})"


def _trouble(trouble: Trouble | None, now: int) -> str:
    if trouble is None:
        return ""
    times = "1 invocation failed" if trouble.failures == 1 else f"{trouble.failures} invocations failed in a row"
    return f"{times}: {shortened(trouble.error)}; {_next_try(trouble, now)}"


def _next_try(trouble: Trouble, now: int) -> str:
    if trouble.next_try_at is None:
        return "the next try is under way"
    if trouble.next_try_at <= now:
        return "the next try comes with the next free runner"
    return f"next try {distance(trouble.next_try_at, now)} ({moment(trouble.next_try_at)})"


def _state(header: Execution) -> str:
    """The state of an execution, with why it is quarantined, how often its runner died, or whether it is parked or superseded."""
    reason = reason_of(header)
    if reason is not None:
        return f"{header.state.value}: {reason}"
    if next_try(header) is not None:
        return f"{header.state.value}, its runner died {header.deaths} times"
    if header.parked and header.superseded_by is None:
        return f"{header.state.value}, parked"
    return f"{header.state.value}, superseded" if header.superseded_by is not None else header.state.value


def description_json(told: Description, operations: Sequence[Operation]) -> dict[str, Any]:
    """Everything about one execution, as JSON, as `executions show` prints it."""
    document: dict[str, Any] = msgspec.to_builtins(told)
    document["started_at"], document["ended_at"] = moment(told.started_at), moment(told.ended_at)
    document["trouble"] = _trouble_json(told.trouble)
    document["next_try"] = moment(told.next_try)
    if told.place is not None:
        document["place"]["admitted_at"] = moment(told.place.admitted_at)
    document["occurrence"] = occurrence_json(told.occurrence)
    document["waits_for"] = [{**msgspec.to_builtins(p), "due_at": moment(p.due_at)} for p in told.waits_for]
    document["under_way"] = [
        {"operation": op.id, "name": op.name, "kind": _kind(op), "attempt": op.attempt + 1, "started_at": moment(op.started_at)}
        for op in _running(told, operations)
    ]
    return document


def description_page(told: Description, status: str, operations: Sequence[Operation], place: StorePlace, now: int) -> None:
    """Print everything about one execution, and the commands that continue it. `status`: its status in words (`status_line`)."""
    print(f"{told.function}/{told.name}")
    state = "" if told.state == State.CLOSED else f" ({told.state})"
    facts = [
        ("status", status + state),
        ("why", told.why),
        *_trouble_facts(told.trouble, now),
        ("superseded by", told.superseded_by or ""),
        ("restarts", told.restarts or ""),
        ("restarted at", told.restarted_from or ""),
        *queue_facts(told.place),
        ("version", told.version),
        ("started", f"{moment(told.started_at)} ({distance(told.started_at, now)})"),
        ("ended", "" if told.ended_at is None else f"{moment(told.ended_at)} ({distance(told.ended_at, now)})"),
        ("input", _json(told.input)),
        ("result", _json(told.result) if told.status == "SUCCEEDED" else ""),
        ("error", _error(told.error) if told.error is not None else ""),
        ("failed in", told.failed_in or ""),
        ("invoked by", told.parent or ""),
        ("schedule", "" if told.occurrence is None else occurrence_line(told.occurrence)),
        ("arn", told.arn),
    ]
    _print_facts(facts)
    if told.place is not None and told.place.parked:
        print(f"\nStart it again with\n  {place.command('queues', 'redrive', told.arn.rpartition('/')[2])}")
    if told.state == State.QUARANTINED or told.next_try is not None:
        print(f"\nLet it run again with\n  {place.command('executions', 'release', f'{told.function}/{told.name}')}")
    for op in _running(told, operations):
        print(f"\nUnder way: {_titled(_kind(op), op.name)}")
        _print_facts([("attempt", str(op.attempt + 1)), ("began", f"{moment(op.started_at)} ({distance(op.started_at, now)})")])
    _print_failed_branches(operations)
    errors = {op.id: op.error for op in operations if op.error is not None}
    for pending in told.waits_for:
        _print_pending(pending, errors.get(pending.operation), place, now)


def occurrence_line(occurrence: Occurrence) -> str:
    """The schedule that started an execution, whether the run was due, asked for or backfilled, and the time."""
    why = {How.DUE: "due", How.NOW: "asked for", How.BACKFILL: "backfill, due"}[occurrence.how]
    return f"{occurrence.schedule}, {why} {seconds(occurrence.at)}"


def occurrence_json(occurrence: Occurrence | None) -> dict[str, Any] | None:
    """The occurrence of a schedule that started an execution, as JSON; None if no schedule started it."""
    return None if occurrence is None else {**msgspec.to_builtins(occurrence), "at": moment(occurrence.at)}


def _print_failed_branches(operations: Sequence[Operation]) -> None:
    """Print which branches of each map and parallel failed, at most 10 of each, with their errors."""
    for batch, failed in failed_branches(operations):
        print(f"\nFailed in {printable(described(batch))}")
        _print_facts([(op.name or _kind(op), _error(op.error or Failure())) for op in failed[:_SHOWN_BRANCHES]])
        if len(failed) > _SHOWN_BRANCHES:
            print(f"  and {len(failed) - _SHOWN_BRANCHES} more")


def _trouble_facts(trouble: Trouble | None, now: int) -> list[tuple[str, str]]:
    if trouble is None:
        return []
    facts = [("failures", str(trouble.failures)), ("last error", trouble.error), ("raised at", trouble.place or "")]
    return [*facts, ("next try", _next_try(trouble, now).removeprefix("next try "))]


def _print_pending(pending: Pending, error: Failure | None, place: StorePlace, now: int) -> None:
    print(f"\nWaits for {_titled(pending.kind, pending.name)}")
    _print_facts(
        [
            ("woken by", pending.woken_by),
            ("due", _due(pending, now)),
            ("attempts", str(pending.attempt) if pending.attempt else ""),
            ("last error", "" if error is None else _error(error)),
            ("callback id", pending.callback_id or ""),
            ("operation", pending.operation),
        ]
    )
    if pending.quarantined is not None:
        print(f"  see why with\n    {place.command('executions', 'show', pending.quarantined)}")
    if pending.callback_id is not None:
        print("  answer it with")
        print(f"    {place.command('callbacks', 'succeed', pending.callback_id, '--result', 'TEXT')}")
        print(f"    {place.command('callbacks', 'fail', pending.callback_id, '--error-message', 'TEXT')}")


def _due(pending: Pending, now: int) -> str:
    if pending.due_at is None:
        return "" if pending.callback_id is None else "never: it has no timeout"
    late = "; it goes on when a runner that has its function opens this store" if pending.due_at < now else ""
    return f"{distance(pending.due_at, now)} ({moment(pending.due_at)}){late}"


def history_table(events: Sequence[HistoryEvent], trouble: Trouble | None = None) -> None:
    """Print a history as a table. Long data is cut; `--json` prints all of it. `trouble`: the present trouble of the execution, which gives
    the time of the next try; None if it has none."""
    failures = _failures_in_a_row(events)
    rows = [
        (
            str(event.number),
            moment(event.at) or "",
            event.type,
            event.name or "",
            "; ".join(part for part in (shortened(_details(event)), _attempts(event, failures, trouble)) if part),
        )
        for event in events
    ]
    print_table(("EVENT", "TIME", "TYPE", "NAME", "DETAILS"), rows, folds="DETAILS")


def _failures_in_a_row(events: Sequence[HistoryEvent]) -> dict[int, int]:
    """For each event that ends a failed invocation, by the event's number: which failure in a row it is, from 1. Every event that
    is not the end of a failed invocation shows progress, and the counting begins again at 1 after it. An invocation that ended because its
    runner died is not counted, and the counting goes on after it."""
    found: dict[int, int] = {}
    row = 0
    for event in events:
        if event.type != "InvocationCompleted" or "Error" not in event.details:
            row = 0
        elif event.details["Error"].get("Payload", {}).get("ErrorMessage") != RUNNER_DIED.message:
            row += 1
            found[event.number] = row
    return found


def _attempts(event: HistoryEvent, failures: dict[int, int], trouble: Trouble | None) -> str:
    number = failures.get(event.number)
    if number is None:
        return ""
    told = f"{ordinal(number)} failure in a row"
    if trouble is not None and trouble.next_try_at is not None and event.number == max(failures):
        return f"{ordinal(trouble.failures)} failure in a row, next try at {moment(trouble.next_try_at)}"
    return told


def _details(event: HistoryEvent) -> str:
    details = dict(event.details)
    parts = ["context.patched is true from here on"] if event.sub_type == _PATCH else []
    for member in ("Input", "Result", "Error"):
        payload = details.pop(member, {}).get("Payload")
        if payload is not None:
            parts.append(
                _error(Failure(payload.get("ErrorMessage"), payload.get("ErrorType")))
                if isinstance(payload, dict)
                else _plain(payload, event.type)
            )
    retry = details.pop("RetryDetails", {})
    if "NextAttemptDelaySeconds" in retry:
        parts.append(f"attempt {retry['CurrentAttempt']}, next in {retry['NextAttemptDelaySeconds']} s")
    if event.type == "InvocationCompleted":
        parts.append(span_of(round((details["EndTimestamp"] - details["StartTimestamp"]) * 1000)))
    parts += [f"{key}={details[key]}" for key in ("Duration", "Timeout", "HeartbeatTimeout", "CallbackId") if key in details]
    return "; ".join(parts)


def _plain(payload: str, event: str) -> str:
    """A payload as the author's plain value, without the type tags that the default serdes of steps and contexts writes. If another serdes
    wrote the payload, it is returned unchanged."""
    if not event.startswith(("Step", "Context")) or not payload.startswith('{"t":'):
        return payload
    from holdfast.durable.serdes import ExtendedTypeSerDes  # loads holdfast.durable, which most commands do not need

    try:
        return json.dumps(as_json(ExtendedTypeSerDes[Any]().deserialize(payload)), ensure_ascii=False)
    except (HoldfastError, ValueError, TypeError, ArithmeticError, RecursionError):  # another serdes wrote this payload
        return payload


def _running(told: Description, operations: Sequence[Operation]) -> list[Operation]:
    """The steps whose bodies run now; empty if no invocation is live."""
    if told.state != State.RUNNING:
        return []
    return [op for op in operations if op.type is Type.STEP and op.status is Status.STARTED]


def _kind(op: Operation) -> str:
    return op.sub_type or op.type.value


def _titled(kind: str, name: str | None) -> str:
    return f"{kind} {printable(name)!r}" if name else kind


def _error(error: Failure) -> str:
    parts = [class_of(error.type or ""), with_advice(error.message)]
    return ": ".join(part for part in parts if part) or "(no message)"


def error_line(error: Failure | None, failed_in: str | None = None) -> str:
    """An execution's error on one line: its type, its message, and the operation that caused it."""
    return printable(_error(error or Failure()) + ("" if failed_in is None else f" (in {failed_in})"))


def _json(value: object) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), 400)


def _print_facts(facts: Iterable[tuple[str, str]]) -> None:
    known = [(label, value) for label, value in facts if value]
    width = max(len(printable(label)) for label, _ in known)
    for label, value in known:
        print(f"  {printable(label).ljust(width)}  {printable(value)}")
