"""How executions look: tables and pages for people, and the same facts as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.cli.arguments import Place
from holdfast.cli.terminal import distance, moment, print_table, printable, say, seconds, shortened, span_of
from holdfast.model.cures import with_cure
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, State
from holdfast.model.operations import Failure, Operation, Status, Type, shown_type
from holdfast.model.typed import as_json
from holdfast.service.describing import Description, Pending, arn_of


def execution_json(header: Execution) -> dict[str, Any]:
    """An execution in a list, for machines."""
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
    }


def executions_table(found: Sequence[Execution], now: int) -> None:
    """A list for people."""
    if not found:
        say("no executions")
        return
    rows = [
        (
            x.name,
            x.function if x.version == "$LATEST" else f"{x.function}:{x.version}",
            x.status.value,
            x.state.value,
            seconds(x.started_at),
            span_of((x.ended_at or now) - x.started_at),
        )
        for x in found
    ]
    print_table(("NAME", "FUNCTION", "STATUS", "STATE", "STARTED", "TOOK"), rows, folds="NAME")


def description_json(told: Description, operations: Sequence[Operation]) -> dict[str, Any]:
    """Everything about one execution, for machines."""
    document: dict[str, Any] = msgspec.to_builtins(told)
    document["started_at"], document["ended_at"] = moment(told.started_at), moment(told.ended_at)
    document["waits_for"] = [{**msgspec.to_builtins(p), "due_at": moment(p.due_at)} for p in told.waits_for]
    document["under_way"] = [
        {"operation": op.id, "name": op.name, "kind": _kind(op), "attempt": op.attempt + 1, "started_at": moment(op.started_at)}
        for op in _running(told, operations)
    ]
    return document


def description_page(told: Description, operations: Sequence[Operation], place: Place, now: int) -> None:
    """Everything about one execution, for people."""
    print(f"{told.function}/{told.name}")
    state = "" if told.state == State.CLOSED else f" ({told.state})"
    facts = [
        ("status", told.status + state),
        ("why", told.why),
        ("version", told.version),
        ("started", f"{moment(told.started_at)} ({distance(told.started_at, now)})"),
        ("ended", "" if told.ended_at is None else f"{moment(told.ended_at)} ({distance(told.ended_at, now)})"),
        ("input", _json(told.input)),
        ("result", _json(told.result) if told.status == "SUCCEEDED" else ""),
        ("error", _error(told.error) if told.error is not None else ""),
        ("invoked by", told.parent or ""),
        ("arn", told.arn),
    ]
    _print_facts(facts, "  ")
    if told.state == State.QUARANTINED:
        print(f"\nLet it run again with\n  {place.command('executions', 'release', f'{told.function}/{told.name}')}")
    for op in _running(told, operations):
        print(f"\nUnder way: {_titled(_kind(op), op.name)}")
        _print_facts([("attempt", str(op.attempt + 1)), ("began", f"{moment(op.started_at)} ({distance(op.started_at, now)})")], "  ")
    errors = {op.id: op.error for op in operations if op.error is not None}
    for pending in told.waits_for:
        _print_pending(pending, errors.get(pending.operation), place, now)


def _print_pending(pending: Pending, error: Failure | None, place: Place, now: int) -> None:
    print(f"\nWaits for {_titled(pending.kind, pending.name)}")
    _print_facts(
        [
            ("woken by", pending.woken_by),
            ("due", _due(pending, now)),
            ("attempts", str(pending.attempt) if pending.attempt else ""),
            ("last error", "" if error is None else _error(msgspec.to_builtins(error))),
            ("callback id", pending.callback_id or ""),
            ("operation", pending.operation),
        ],
        "  ",
    )
    if pending.callback_id is not None:
        print("  answer it with")
        print(f"    {place.command('callbacks', 'succeed', pending.callback_id, '--result', 'TEXT')}")
        print(f"    {place.command('callbacks', 'fail', pending.callback_id, '--error-message', 'TEXT')}")


def _due(pending: Pending, now: int) -> str:
    if pending.due_at is None:
        return "" if pending.callback_id is None else "never: it has no timeout"
    late = "; it goes on when a runner that has its function opens this store" if pending.due_at < now else ""
    return f"{distance(pending.due_at, now)} ({moment(pending.due_at)}){late}"


def history_table(events: Sequence[dict[str, Any]]) -> None:
    """A history for people; long data is cut, `--json` has it whole."""
    rows = [
        (
            str(event["EventId"]),
            moment(round(event["EventTimestamp"] * 1000)) or "",
            event["EventType"],
            event.get("Name") or "",
            shortened(_details(event)),
        )
        for event in events
    ]
    print_table(("EVENT", "TIME", "TYPE", "NAME", "DETAILS"), rows, folds="DETAILS")


def _details(event: dict[str, Any]) -> str:
    details = dict(event.get(f"{event['EventType']}Details") or {})
    parts = []
    for member in ("Input", "Result", "Error"):
        payload = details.pop(member, {}).get("Payload")
        if payload is not None:
            parts.append(_error(payload) if isinstance(payload, dict) else _plain(payload, event["EventType"]))
    retry = details.pop("RetryDetails", {})
    if "NextAttemptDelaySeconds" in retry:
        parts.append(f"attempt {retry['CurrentAttempt']}, next in {retry['NextAttemptDelaySeconds']} s")
    if event["EventType"] == "InvocationCompleted":
        parts.append(span_of(round((details["EndTimestamp"] - details["StartTimestamp"]) * 1000)))
    parts += [f"{key}={details[key]}" for key in ("Duration", "Timeout", "HeartbeatTimeout", "CallbackId") if key in details]
    return "; ".join(parts)


def _plain(payload: str, event: str) -> str:
    """A payload as its author knows the value; steps and contexts write theirs with marks of type around every value."""
    if not event.startswith(("Step", "Context")) or not payload.startswith('{"t":'):
        return payload
    from holdfast.durable.serdes import ExtendedTypeSerDes  # it loads the SDK, which most looks at a store do not need

    try:
        return json.dumps(as_json(ExtendedTypeSerDes[Any]().deserialize(payload)), ensure_ascii=False)
    except (HoldfastError, ValueError, TypeError, ArithmeticError, RecursionError):  # another serdes wrote it
        return payload


def _running(told: Description, operations: Sequence[Operation]) -> list[Operation]:
    """The steps whose bodies have begun and not ended, if an invocation is live."""
    if told.state != State.RUNNING:
        return []
    return [op for op in operations if op.type is Type.STEP and op.status is Status.STARTED]


def _kind(op: Operation) -> str:
    return op.sub_type or op.type.value


def _titled(kind: str, name: str | None) -> str:
    return f"{kind} {printable(name)!r}" if name else kind


def _error(error: dict[str, Any]) -> str:
    parts = [shown_type(error.get("ErrorType")), with_cure(error.get("ErrorMessage"))]
    return ": ".join(part for part in parts if part) or "(no message)"


def error_line(error: dict[str, Any] | None) -> str:
    """An execution's error on one line: its type and its message."""
    return printable(_error(error or {}))


def _json(value: object) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), 400)


def _print_facts(facts: Iterable[tuple[str, str]], indent: str) -> None:
    known = [(label, value) for label, value in facts if value]
    width = max(len(label) for label, _ in known)
    for label, value in known:
        print(f"{indent}{label.ljust(width)}  {printable(value)}")
