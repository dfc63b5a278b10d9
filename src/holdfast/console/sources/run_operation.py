"""One operation of a run, for the panel beside the timeline: its times, attempts, payloads, error, call, items and artifacts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.console.sources.run_logs import attempt_result, logs_of
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.timeline import Trees
from holdfast.console.sources.timeline_tree import TimelineEntry, TimelineTree
from holdfast.console.sources.timeline_words import bare
from holdfast.console.sources.viewer import CallerSource
from holdfast.contract.protocol import ArtifactRef
from holdfast.model import codec, json_structs
from holdfast.model.error_text import place_of
from holdfast.model.errors import ExecutionNotFound, HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.history import FRAMES, Event, EventType, carries_error
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import APPROVAL, KEPT, RUN, Failure, Operation, Status, SubType, Type
from holdfast.store.seam import Filter
from holdfast.store.values import HistoryEntry
from holdfast.workers.approvals import Requested, approval_id, request_of
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.calls import Intent, Receipt
from holdfast.workers.run_lookup import accepted_in, response_of
from holdfast.workers.run_operations import ATTEMPT, NODE, RECEIPT
from holdfast.workers.storage.folder import Folder

ITEMS: Final = 50
"""A page of the table of a map's items, or of a parallel's branches, has at most this many rows."""
_MOST_ITEMS: Final = 2_000
_MOST_ATTEMPTS: Final = 50
_MOST_ARTIFACTS: Final = 100
_PREVIEW: Final = 64 * 1024
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MOST_IMAGE: Final = 4 * 1024 * 1024
_TEXTS: Final = ("text/", "application/json", "application/x-ndjson", "application/xml", "application/yaml")
_STARTS: Final = frozenset(kind for kind in EventType if kind.value.endswith("Started"))
_receipts = json_structs.decoder(Receipt)
_intents = json_structs.decoder(Intent)


class Attempted(msgspec.Struct, kw_only=True):
    """One attempt of an operation."""

    number: int
    started_at: int | None = None
    ended_at: int | None = None
    ended: str = ""
    error: Failure | None = None
    line: str | None = None
    """Where the error arose. For an error of Python code: `file:line in function`; for any other error: the first line of its stack. None
    if the error has no stack."""
    detail: str = ""


class CallDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool: what was asked, what came back, and what it cost."""

    tool: str
    number: int
    writes: bool
    arguments: str
    result: str | None
    error: str | None
    model: str
    held_tokens: int
    held: int
    input_tokens: int | None
    output_tokens: int | None
    cost: int | None
    estimated: bool
    approval: str | None


class BranchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a map, or one branch of a parallel."""

    number: int
    name: str
    status: str
    started_at: int
    ended_at: int | None
    told: str = ""
    run: str | None = None
    operation: str | None = None


class BranchPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the items of a map, or of the branches of a parallel."""

    rows: tuple[BranchRow, ...]
    total: int
    at: int
    bounded: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact with its preview."""

    ref: ArtifactRef
    run: str
    """The id of the run that made the artifact."""
    text: str | None = None
    image: bool = False
    there: bool = True
    cut: bool = False


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the panel shows of an operation."""

    op: Operation
    verb: str
    name: str
    status: str
    input: str | None = None
    output: str | None = None
    error: Failure | None = None
    line: str | None = None
    attempts: tuple[Attempted, ...] = ()
    call: CallDetails | None = None
    child: Execution | None = None
    items: BranchPage | None = None
    logs: tuple[Mapping[str, Any], ...] = ()
    artifacts: tuple[Shown, ...] = ()
    approval: str | None = None
    asked: Requested | None = None
    """The question to a person, if the operation is an approval; else None. Also None if the question cannot be read."""

    @property
    def may_answer(self) -> bool:
        """Whether the operation is a callback that waits for an answer from outside. False for an approval, and for the callback by
        which a run learns that it is cancelled."""
        op = self.op
        return op.type is Type.CALLBACK and op.status is Status.STARTED and op.sub_type not in KEPT and op.callback_id is not None


class OperationSource(CallerSource):
    """Reads operations and artifacts for one caller."""

    def detail(self, header: Execution, trees: Trees, operation: str, items_at: int = 0) -> Detail:
        """What the panel shows of the operation with this id, without secrets. `items_at` is the number of the first item of a map, or
        branch of a parallel, that is shown; the first of all is 0. Raises ExecutionNotFound if the run has no such operation."""
        store = self._viewer.store
        tree, children = trees.of(self._viewer, header)
        veil = Veil(self._viewer, header)
        at, entry = _found(tree, operation)
        op = veil.operation(self._whole(header, entry.op.place))
        child = children.get(op.id)
        if child is not None and not self._viewer.may_see(child):
            child = None
        lines, ended = store.attempts(header.id, op.place), attempt_result(op)
        error = None if op.error is None else _with_frames(op.error, lines[-1].event if lines else None)
        if ended is not None and ended.error is not None:
            error = Failure(ended.error.message, ended.error.error_code, stack_trace=ended.error.frames or None)
        return Detail(
            op=op,
            verb=entry.verb,
            name=entry.name,
            status=entry.status,
            input=self._input(lines, veil, child),
            output=_output(op, ended),
            error=error,
            line=None if error is None else place_of(error),
            attempts=tuple(attempts_of(lines, veil)),
            call=self._call(header, op, entry, veil),
            child=child,
            items=self._items(tree, at, entry, children, items_at),
            logs=tuple(logs_of(self._viewer, header, tree.operations, veil).get(op.id, ())),
            artifacts=tuple(self._artifacts(header, tree, at, op, child)),
            approval=approval_id(header.id, op.id) if op.sub_type == APPROVAL else None,
            asked=self._asked(header, op, entry, veil),
        )

    def raw(self, header: Execution, trees: Trees, operation: str) -> bytes:
        """The operation and its first events (at most 200), as JSON, without secrets. Raises ExecutionNotFound if the run has no such
        operation."""
        tree, _ = trees.of(self._viewer, header)
        place = _found(tree, operation)[1].op.place
        events = [msgspec.to_builtins(line.event) for line in self._viewer.store.attempts(header.id, place)]
        document = {"operation": msgspec.to_builtins(self._whole(header, place)), "events": events}
        return msgspec.json.encode(Veil(self._viewer, header).value(document))

    def operation(self, header: Execution, operation: str) -> Operation:
        """The operation as it is in the store now, without its result and its error. Raises ExecutionNotFound if the run has no such
        operation."""
        found = next((op for op in self._viewer.store.outline(header.id) if op.id == operation), None)
        if found is None:
            raise ExecutionNotFound(f"There is no operation {operation!r:.100} in this run.")
        return found

    def _input(self, lines: Sequence[HistoryEntry], veil: Veil, child: Execution | None) -> str | None:
        given = next((line.event.payload for line in lines if line.event.type is EventType.CHAINED_INVOKE_STARTED), None)
        cleaned = veil.given(given)
        return cleaned if cleaned is None or child is None else Veil(self._viewer, child).text(cleaned)

    def _whole(self, header: Execution, place: int) -> Operation:
        return self._viewer.store.operations(header.id, after=place - 1, limit=1)[0]

    def _call(self, header: Execution, op: Operation, entry: TimelineEntry, veil: Veil) -> CallDetails | None:
        if op.sub_type != RECEIPT or entry.intent is None:
            return None
        try:
            intent = _intents.decode(veil.operation(self._whole(header, entry.intent)).result or "{}")
            receipt = None if op.result is None else _receipts.decode(op.result)
        except (msgspec.MsgspecError, ValueError):
            return None
        held, usage = intent.reservation, None if receipt is None else receipt.usage
        failed = None if receipt is None else receipt.error
        return CallDetails(
            tool=intent.tool,
            number=intent.number,
            writes=intent.write,
            arguments=codec.dumps(intent.arguments),
            result=None if receipt is None or failed is not None else codec.dumps(receipt.result),
            error=None if failed is None else f"{failed.error_code}: {failed.message}",
            model=held.model,
            held_tokens=held.tokens,
            held=nanos_of(held.cost_usd),
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cost=None if usage is None else nanos_of(usage.cost_usd),
            estimated=usage is not None and usage.is_estimated,
            approval=intent.approval,
        )

    def _asked(self, header: Execution, op: Operation, entry: TimelineEntry, veil: Veil) -> Requested | None:
        if op.sub_type != APPROVAL or entry.intent is None:
            return None
        try:
            return request_of(veil.operation(self._whole(header, entry.intent)))
        except (msgspec.MsgspecError, ValueError):
            return None

    # --- items

    def _items(self, tree: TimelineTree, at: int, entry: TimelineEntry, children: Mapping[str, Execution], start: int) -> BranchPage | None:
        start = max(0, start)
        if entry.op.sub_type == NODE and entry.verb == "map":
            return self._runs_of_map(tree, at, children, start)
        if entry.op.sub_type not in (SubType.MAP.value, SubType.PARALLEL.value):
            return None
        below = [one for one in tree.entries[at + 1 : entry.end] if one.above == at and not one.is_line]
        rows = [
            BranchRow(
                number=start + number,
                name=one.name,
                status=one.status,
                started_at=one.op.started_at,
                ended_at=one.op.ended_at,
                told="" if one.said is None else one.said.tail.removeprefix("→ "),
                operation=one.op.id,
            )
            for number, one in enumerate(below[start : start + ITEMS])
        ]
        return BranchPage(rows=tuple(rows), total=len(below), at=start)

    def _runs_of_map(self, tree: TimelineTree, at: int, children: Mapping[str, Execution], start: int) -> BranchPage:
        """One page of the runs that a map of a pipeline asked for, by itself or through its shards, up to a bound. The page begins with the
        run number `start`; the first run of all is 0. Runs that the caller may not see are left out. `at` is the number of the map's
        row."""
        entry, found = tree.entries[at], list[Execution]()
        for one in tree.entries[at + 1 : entry.end]:
            child = children.get(one.op.id)
            if child is None or one.op.sub_type != RUN or one.is_line:
                continue
            if child.function != tree.header.function:
                found.append(child)
            elif len(found) < _MOST_ITEMS:
                found += self._viewer.store.list(Filter(parent=child.id, oldest_first=True, limit=_MOST_ITEMS - len(found)))
        seen = [one for one in found if self._viewer.may_see(one)]
        rows = [
            BranchRow(
                number=start + number,
                name=one.function,
                status=self._viewer.status(one).value,
                started_at=one.started_at,
                ended_at=one.ended_at,
                told="" if one.summary is None else one.summary.error_code or "",
                run=one.id,
            )
            for number, one in enumerate(seen[start : start + ITEMS])
        ]
        return BranchPage(rows=tuple(rows), total=len(seen), at=start, bounded=len(found) >= _MOST_ITEMS)

    # --- logs and artifacts

    def artifacts(self, header: Execution) -> list[Shown]:
        """The artifacts of a run's response, up to a bound. Small images and texts have a preview. Empty if the execution has not ended
        with a response."""
        accepted = accepted_in(self._viewer.store, header)
        if accepted is None or header.status is not ExecutionStatus.SUCCEEDED:
            return []
        refs, veil = response_of(self._viewer.store, header, accepted).artifacts, Veil(self._viewer, header)
        return [self._shown(accepted.tenant, header.id, ref, veil) for ref in refs[:_MOST_ARTIFACTS]]

    def _artifacts(self, header: Execution, tree: TimelineTree, at: int, op: Operation, child: Execution | None) -> list[Shown]:
        """The artifacts that belong to an operation. If the operation asked for a run (`child`): those of that run. If it is the last
        attempt of this run: those of this run. For any other operation: none."""
        if op.sub_type == RUN and child is not None:
            return self.artifacts(child)
        is_last = op.sub_type == ATTEMPT and not any(one.op.sub_type == ATTEMPT for one in tree.entries[tree.entries[at].end :])
        return self.artifacts(header) if is_last else []

    def artifact(self, header: Execution, artifact: str) -> tuple[ArtifactRef, int]:
        """An artifact of the run's tenant, and an open file descriptor from which its bytes can be read. Raises ArtifactMissing if the
        tenant has no such artifact. Raises ExecutionNotFound if the execution is no run of a worker or a pipeline, or if this console has
        no artifacts."""
        accepted, kept = accepted_in(self._viewer.store, header), self._kept()
        if accepted is None or kept is None:
            raise ExecutionNotFound(f"This console has no artifact {artifact!r:.100} of this run.")
        return kept.find(accepted.tenant, artifact), kept.open(accepted.tenant, artifact)

    def _kept(self) -> Artifacts | None:
        """The artifacts that this console can read. With a server that has workers: those of the server. Without one: those in the folder
        beside the store's file, or None if there is no such folder."""
        served = self._viewer.served
        if served is not None and served.workers is not None:
            return served.workers.artifacts
        folder = Path(f"{self._viewer.where}.workers") / "artifacts"
        return Artifacts(Folder(folder), 1 << 62) if folder.is_dir() else None

    def _shown(self, tenant: str, run: str, ref: ArtifactRef, veil: Veil) -> Shown:
        kept = self._kept()
        if kept is None:
            return Shown(ref=ref, run=run, there=False)
        if ref.media_type in IMAGES and ref.size_bytes <= MOST_IMAGE:
            return Shown(ref=ref, run=run, image=True)
        if not ref.media_type.startswith(_TEXTS) or ref.size_bytes > 64 * _PREVIEW:
            return Shown(ref=ref, run=run)
        with contextlib.suppress(HoldfastError, OSError):
            descriptor = kept.open(tenant, ref.artifact_id)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read(_PREVIEW).decode("utf-8", "replace")
            return Shown(ref=ref, run=run, text=veil.text(text), cut=ref.size_bytes > _PREVIEW)
        return Shown(ref=ref, run=run, there=False)


def _output(op: Operation, ended: AttemptResult | None) -> str | None:
    """The result of an operation, as a JSON text; None if there is no result. For an attempt of a worker (`ended`), the text has only the
    outputs, because the panel shows the logs separately."""
    if ended is not None:
        return None if ended.outputs is None else codec.dumps(ended.outputs)
    return None if op.result is None else bare(op.result)


def _found(tree: TimelineTree, operation: str) -> tuple[int, TimelineEntry]:
    found = tree.find(operation)
    if found is None:
        raise ExecutionNotFound(f"There is no operation {operation!r:.100} in this run.")
    return found


def _with_frames(error: Failure, event: Event | None) -> Failure:
    """An error with a stack, if one is known. An error that has a stack already is returned unchanged. Else it gets as its stack the lines
    of the author's code that `event` has, if there are any."""
    frames = None if event is None else (event.detail or {}).get(FRAMES)
    if error.stack_trace is not None or not isinstance(frames, list):
        return error
    return msgspec.structs.replace(error, stack_trace=tuple(map(str, frames)))


def attempts_of(lines: Sequence[HistoryEntry], veil: Veil) -> list[Attempted]:
    """The attempts of an operation, as its events show them, the first attempt first. If there are more than 50, the later ones are left
    out."""
    found: list[Attempted] = []
    for line in lines:
        event = line.event
        if event.type in _STARTS or not found:
            found.append(Attempted(number=len(found) + 1, started_at=event.at))
            if event.type in _STARTS:
                continue
        last = found[-1]
        if last.ended:
            found.append(last := Attempted(number=len(found) + 1))
        last.ended, last.ended_at = event.type.value, event.at
        if event.payload is not None and carries_error(event.type):
            failure = _with_frames(codec.failure_from(event.payload), event)
            last.error, last.line = veil.failure(failure), place_of(failure)
        retry = (event.detail or {}).get("RetryDetails")
        if isinstance(retry, dict) and retry.get("NextAttemptDelaySeconds") is not None:
            last.detail = f"next attempt after {retry['NextAttemptDelaySeconds']} s"
    return found[:_MOST_ATTEMPTS]
