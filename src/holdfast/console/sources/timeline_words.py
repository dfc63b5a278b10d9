"""The words of a timeline's row: a verb, a name, a status and a result, in the words of the author's code.

step charge → receipt-42        wait cool-down 30 s        map pages 40 items: 38 ok, 2 failed
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.console.run_names import short_id
from holdfast.contract.protocol import response_from
from holdfast.model import json_structs
from holdfast.model.error_text import brief_class
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import APPROVAL, ENQUEUE, RUN, Failure, Operation, Status, SubType, Type
from holdfast.pipelines.record.operations import REUSED
from holdfast.pipelines.record.results import settled_of
from holdfast.pipelines.record.reused import reused_in
from holdfast.workers.approvals import decision_of
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.calls import Intent, Receipt
from holdfast.workers.run_operations import ATTEMPT, CHOICE, INHERITED, NODE, RECEIPT, STEP

MOST_TAIL: Final = 160
"""A row shows at most this many characters of a result or an error."""
_MOST_PARSED: Final = 2_000
_MOST_BARED: Final = 200_000
_MARKED: Final = '{"t":"'
_VERBS: Final[Mapping[str, str]] = {
    SubType.RUN_IN_CHILD_CONTEXT.value: "child",
    SubType.MAP.value: "map",
    SubType.MAP_ITERATION.value: "item",
    SubType.PARALLEL.value: "parallel",
    SubType.PARALLEL_BRANCH.value: "branch",
    SubType.WAIT_FOR_CALLBACK.value: "wait for callback",
    SubType.WAIT_FOR_CONDITION.value: "until",
    ATTEMPT: "attempt",
    RECEIPT: "call",
    INHERITED: "kept call",
    STEP: "step",
    APPROVAL: "ask",
    RUN: "run",
    NODE: "node",
    REUSED: "reused",
    CHOICE: "choice",
    ENQUEUE: "enqueue",
}
_BY_TYPE: Final[Mapping[Type, str]] = {
    Type.EXECUTION: "execution",
    Type.CONTEXT: "child",
    Type.STEP: "step",
    Type.WAIT: "wait",
    Type.CALLBACK: "callback",
    Type.CHAINED_INVOKE: "invoke",
}
LOG: Final = "log"
"""The verb of a row that shows one log line of an operation."""
_MOST_LEVEL: Final = 10
_MOST_LINE: Final = 300
_ENDS: Final[Mapping[Status, str]] = {
    Status.SUCCEEDED: "ok",
    Status.FAILED: "failed",
    Status.TIMED_OUT: "failed",
    Status.CANCELLED: "stopped",
    Status.STOPPED: "stopped",
}
_attempts = json_structs.decoder(AttemptResult)
_receipts = json_structs.decoder(Receipt)
_intents = json_structs.decoder(Intent)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the payloads of an operation say, for its row."""

    tail: str = ""
    status: str | None = None
    """How the work ended, if the payloads say it; it may differ from the operation's own status. None if they do not say it."""
    run: str | None = None
    """The id of the run to which the row leads: the run that the operation asked for, if its response is known, or the run whose result is
    reused. Else None."""
    tokens: int | None = None
    cost: int | None = None
    """What the work cost, in billionths of a dollar; None if it cost nothing, or if that is not known."""
    held_tokens: int = 0
    held: int = 0
    """The money that the call has reserved and that is not settled yet, in billionths of a dollar."""


def verb_of(op: Operation) -> str:
    """The verb of an operation, which is the first word of its row, such as `step`, `wait` or `call`."""
    return _VERBS.get(op.sub_type or "", _BY_TYPE[op.type])


def name_of(op: Operation) -> str:
    """The name of a row. For an attempt: its number. For any other operation: the name that the author gave, or, without a name, the first
    8 characters of the operation's id."""
    if op.sub_type == ATTEMPT:
        return (op.name or "").removeprefix("attempt-")
    return clear(op.name or op.id[:8], 200)


def stands(op: Operation, *, is_over: bool) -> str:
    """The status of an operation, as its row shows it. `is_over`: the execution has ended; an operation that has not ended is then shown as
    stopped."""
    ended = _ENDS.get(op.status)
    if ended is not None:
        return ended
    if is_over:
        return "stopped"
    if op.status in (Status.PENDING, Status.READY):
        return "retrying" if op.attempt else "waiting"
    if op.sub_type == APPROVAL:
        return "person"
    return "waiting" if op.type in (Type.WAIT, Type.CALLBACK) else "running"


def said_of(op: Operation, intent: Operation | None = None) -> Said:
    """What the payloads of an operation say. If the operation is the receipt of a call, `intent` is the operation that was written before
    the same call, with its arguments; None if it is not known. If a payload cannot be decoded, the beginning of its text is shown, on one
    line."""
    try:
        if op.sub_type == RECEIPT:
            return _call(op, intent)
        if op.sub_type == ATTEMPT and (ended := attempt_in(op)) is not None:
            return _attempt(ended)
        if op.sub_type == REUSED and op.type is Type.STEP and op.result is not None:
            taken = reused_in(op)
            return Said(tail=f"→ of run {short_id(taken.of)}", run=taken.run_id or taken.of)
        if op.sub_type == RUN and op.type is Type.CHAINED_INVOKE:
            return _run(op)
        if op.sub_type == NODE and op.type is Type.CONTEXT and op.ended_at is not None:
            return _node(op)
        if op.sub_type == APPROVAL and (decision := decision_of(op)) is not None:
            return Said(tail=f"→ {clear(decision.verdict, 40)} by {clear(decision.decided_by, 80)}")
    except (msgspec.MsgspecError, ValueError):
        pass
    return Said(tail=_plain_tail(op))


def attempt_in(op: Operation) -> AttemptResult | None:
    """The result of an attempt of a worker; None if it is not recorded, for example because the attempt has not ended. Raises MsgspecError
    or ValueError if it cannot be decoded."""
    text = op.result if op.error is None else op.error.data
    return None if text is None else _attempts.decode(text)


def _attempt(ended: AttemptResult) -> Said:
    if ended.error is not None:
        told = clear(f"{ended.error.error_code}: {ended.error.message}", MOST_TAIL)
        return Said(tail=f"→ {told}", status="failed")
    return Said(tail="" if ended.outputs is None else f"→ {brief(json.dumps(ended.outputs, ensure_ascii=False))}")


def _plain_tail(op: Operation) -> str:
    if op.error is not None:
        return f"→ {failure_line(op.error)}"
    if op.result is None or op.result in ("", "null"):
        return ""
    return f"→ {brief(op.result)}"


def _call(op: Operation, intent: Operation | None) -> Said:
    meant = None if intent is None or intent.result is None else _intents.decode(intent.result)
    if op.result is None:
        if meant is None:
            return Said()
        held = meant.reservation
        return Said(held_tokens=held.tokens, held=nanos_of(held.cost_usd))
    receipt = _receipts.decode(op.result)
    usage = receipt.usage
    said = Said(tokens=usage.tokens or None, cost=nanos_of(usage.cost_usd) or None)
    if receipt.error is not None:
        told = clear(f"{receipt.error.error_code}: {receipt.error.message}", MOST_TAIL)
        return msgspec.structs.replace(said, tail=f"→ {told}", status="failed")
    return msgspec.structs.replace(said, tail=f"→ {brief(json.dumps(receipt.result, ensure_ascii=False))}")


def _run(op: Operation) -> Said:
    text = op.result if op.error is None else op.error.data
    if text is None:
        return Said(tail=_plain_tail(op))
    response = response_from(text)
    usage, status = response.observability.usage, response.status.value
    ended = "partial" if status == "ok" and response.observability.partial else {"ok": "ok", "partial": "partial"}.get(status, "failed")
    told = status if response.error is None else f"{response.error.error_code}: {response.error.message}"
    return Said(
        tail=f"→ {clear(told, MOST_TAIL)}",
        status=ended,
        run=response.run_id or None,
        tokens=(usage.tokens.input + usage.tokens.output) or None,
        cost=nanos_of(usage.cost_usd) or None,
    )


def _node(op: Operation) -> Said:
    settled = settled_of(op)
    told = settled.state if settled.error is None else f"{settled.error.code}: {settled.error.message}"
    if settled.why and settled.error is None:
        told = f"{settled.state}: {settled.why}"
    counts = (settled.document or {}).get("counts")
    if isinstance(counts, dict) and isinstance(counts.get("total"), int):
        return Said(tail=counted(counts["total"], int(counts.get("ok") or 0), int(counts.get("failed") or 0)), status=settled.state)
    return Said(tail=f"→ {clear(told, MOST_TAIL)}", status=settled.state)


def counted(total: int, ok: int, failed: int, what: str = "item") -> str:
    """How many items of a map or branches of a parallel there are and how they ended, in words such as `40 items: 38 ok, 2 failed`. `what`
    is the word for one of them."""
    rest = total - ok - failed
    parts = [f"{ok:,} ok"] * bool(ok) + [f"{failed:,} failed"] * bool(failed) + [f"{rest:,} to go"] * (rest > 0)
    return f"{total:,} {what if total == 1 else f'{what}es' if what.endswith('ch') else f'{what}s'}" + (
        f": {', '.join(parts)}" if parts else ""
    )


def logged(line: Mapping[str, Any]) -> tuple[str, str]:
    """The level and the message of a log line, both cut."""
    level, message = str(line.get("level") or "info").lower(), str(line.get("message") or "")
    return clear(level, _MOST_LEVEL), clear(" ".join(message.split()), _MOST_LINE)


def failure_line(error: Failure) -> str:
    """The class and the message of an error on one line, cut."""
    kind = brief_class(error.type or "")
    told = " ".join((error.message or "").split())
    return clear(f"{kind}: {told}" if kind and told else kind or told or "failed", MOST_TAIL)


def bare(text: str) -> str:
    """A payload without the type marks that the SDK puts around each value. It is returned unchanged if it has no marks, is too long, or is
    not JSON."""
    if not text.startswith(_MARKED) or len(text) > _MOST_BARED:
        return text
    try:
        return json.dumps(_unmarked(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _unmarked(value: Any) -> Any:
    if not isinstance(value, dict) or value.keys() != {"t", "v"}:
        return value
    inner = value["v"]
    if value["t"] in ("m", "br") and isinstance(inner, dict):
        return {key: _unmarked(one) for key, one in inner.items()}
    if value["t"] in ("l", "t") and isinstance(inner, list):
        return [_unmarked(one) for one in inner]
    return inner


def brief(text: str) -> str:
    """A payload on one line, cut. A JSON string that is not very long is shown without its quotes."""
    text = bare(text) if len(text) <= 10 * _MOST_PARSED else text
    if text[:1] == '"' and len(text) <= _MOST_PARSED:
        try:
            return clear(str(json.loads(text)), MOST_TAIL)
        except ValueError:
            pass
    return clear(" ".join(text[: 2 * MOST_TAIL].split()), MOST_TAIL, whole=len(text))


def clear(text: str, most: int, *, whole: int = 0) -> str:
    """A text of a stranger on one line, cut after `most` characters. Characters that are invisible, or that change the direction of text,
    are written as their codes. If `text` is only the beginning of a longer text, pass the length of the longer one as `whole`: above
    `most`, the result ends with `…`, as for a text that is cut here. The result is not escaped for HTML."""
    cut = text[:most] + "…" if max(len(text), whole) > most else text
    return cut if cut.isprintable() else "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut)
