"""Shards: a map runs its items in child executions of at most 500 items each, one after another, so that no history gets too long.

In each shard at most `at_once` items run at the same time. Each shard gets the number of items that failed in the shards before it, so
that the limit counts the failed items of all shards together. A shard answers with one page of results; large members of a page are stored
as artifacts. The run of the pipeline, which is the parent, has one operation for each shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Observability, Response, WorkerRequest
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal, started
from holdfast.model import json_structs
from holdfast.model.operations import OPEN, Kind, Operation, Order, Update
from holdfast.pipelines.graph.graph import MapNode, Template
from holdfast.pipelines.graph.resolved_templates import MapItem, Unresolved, resolved
from holdfast.pipelines.record.operations import NodePosition, run_at
from holdfast.pipelines.record.records import Records
from holdfast.pipelines.record.responses import child_response, made_response, was_refused
from holdfast.pipelines.record.results import NodeError, error_of
from holdfast.pipelines.restart.forerunners import Earlier
from holdfast.pipelines.restart.items import SHARD_ITEMS as SHARD_ITEMS
from holdfast.pipelines.restart.items import EarlierItems, ItemForerunners
from holdfast.pipelines.scene.children import ChildRuns
from holdfast.pipelines.scene.earlier_items import WORK, earlier_items, item_forerunners
from holdfast.pipelines.scene.environment import RunService
from holdfast.pipelines.scene.failure import MOST_TRIES, ended, ran
from holdfast.pipelines.scene.mismatch import no_object_error, unresolved_error
from holdfast.pipelines.scene.run_values import Values
from holdfast.pipelines.scene.scene import Scene
from holdfast.workers.accepted_request import SHARD, AcceptedRequest, Labels, Lineage
from holdfast.workers.run_operations import CANCEL_AT
from holdfast.workers.run_reporters import SILENT


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a map does for its items: the worker and its fallbacks, the items, and the limits."""

    workers: tuple[str, ...]
    template: Template
    """The template of an item's inputs. It refers only to `item`, to `index`, and to the list `values` of this task."""
    values: list[Any]
    items: list[Any]
    at_once: int
    tolerated: int
    revision: Mapping[str, Any] | None = None
    previous: list[Any] | None = None
    is_undo: bool = False
    """Whether this is an undo for which the author gave no inputs. Then `items` are rows of the map's result, and the worker gets the
    inputs and the outputs of each row."""
    earlier: EarlierItems | None = None
    """What earlier runs did for these items; None if no earlier run has a shard of this map."""


class ShardResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one shard."""

    items: list[dict[str, Any]]
    failed: int = 0
    """How many items of this shard and of all shards before it failed."""
    is_partial: bool = False
    """Whether the run of an item of this shard was partial. A failed item alone does not make the shard partial."""
    reused: list[int] = []
    """The indexes of the items whose results were reused from an earlier run."""


class ShardFailed(msgspec.Struct, frozen=True):
    """A shard that gave no ShardResults: it was cancelled, or failed inside the runtime."""

    error: NodeError


class _ShardInputs(msgspec.Struct, frozen=True, kw_only=True):
    pipeline: str
    position: NodePosition = msgspec.field(name="visit")  # the name that open executions have stored
    part: str
    first: int
    """The index of its first item in the whole list."""
    failed: int
    task: Task


# --- the parent's side


async def pages(scene: Scene, task: Task, part: str) -> list[ShardResults] | ShardFailed | None:
    """Begin the next shard if no shard runs. Returns None while a shard runs, the results of all shards when the last one has ended, and
    ShardFailed if a shard gave none. If more items than `task.tolerated` have failed, no further shard begins, and the results of the
    shards that ran are returned. `part` names the part of the node's work: the work itself or its undo. Raises TimeOver if a shard would
    begin and the time limit of the node is over."""
    found: list[ShardResults] = []
    failed = 0
    for number, first in enumerate(range(0, len(task.items), SHARD_ITEMS), 1):
        at = run_at(scene.position, part, number)
        known = scene.records.find(at)
        if known is None:
            scene.check_time()
            scene.begin(await _start(scene, at, task, part, first, failed))
        if known is None or known.status in OPEN:
            scene.awaits(at)
            return None
        page = await _page(scene, known)
        if isinstance(page, ShardFailed):
            return page
        found.append(page)
        failed = page.failed
        if failed > task.tolerated:
            break
    return found


async def kept_items(scene: Scene) -> set[int]:
    """The indexes of the items whose good results were taken from earlier runs and are kept (`Forerunners.keeps`): they are not undone if
    this run fails. Empty if nothing is kept."""
    forerunners, kept = scene.run_state.forerunners, set[int]()
    if forerunners is None or not forerunners.keeps:
        return kept
    for try_number in range(1, MOST_TRIES + 1):
        position, number = NodePosition(scene.position.node, scene.position.round, try_number), 1
        while (known := scene.records.find(run_at(position, WORK, number))) is not None and known.status not in OPEN:
            page = await _page(scene, known)
            if not isinstance(page, ShardFailed):
                kept |= {row["index"] for row in page.items if row["status"] == "ok"}.intersection(page.reused)
            number += 1
    return kept


def items_over(
    node: MapNode, round: int, operations: Mapping[str, Operation], running: Callable[[Operation], Mapping[str, Operation]]
) -> tuple[int, int]:
    """How many items of a map have succeeded, and how many have failed, in the newest try of the node in this round. `operations` are those
    of the pipeline's run; `running` reads the operations of a shard that still runs. An item may have several runs (fallbacks, or another
    run after a rate refused the first): it is counted once, with its last run. An item that failed without a run is counted when its shard
    has ended. A shard whose page is in an artifact counts as SHARD_ITEMS items, also if it ran fewer: the caller must bound the sum."""
    positions = [NodePosition(node.name, round, try_number) for try_number in range(MOST_TRIES, 0, -1)]
    position = next((each for each in positions if run_at(each, WORK, 1).operation_id in operations), positions[-1])
    workers, number, ok, failed = (node.worker, *node.fallback), 0, 0, 0
    while (shard := operations.get(run_at(position, WORK, number + 1).operation_id)) is not None:
        if shard.status in OPEN:
            inner, places = running(shard), range(number * SHARD_ITEMS, (number + 1) * SHARD_ITEMS)
            ends = [ended(inner, position, f"{WORK}-{place}", workers) for place in places]
            good = [response.status is ResponseStatus.OK for response in ends if response is not None]
            ok, failed = ok + sum(good), failed + len(good) - sum(good)
        elif (response := child_response(shard)).status is ResponseStatus.OK:
            page = response.outputs or {}
            before, failed = failed, int(page.get("failed", 0))
            rows = page.get("items")
            ok += sum(row["status"] == "ok" for row in rows) if isinstance(rows, list) else SHARD_ITEMS - (failed - before)
        number += 1
    return ok, failed


async def _page(scene: Scene, known: Operation) -> ShardResults | ShardFailed:
    response = scene.records.response(known)
    if response.status is not ResponseStatus.OK:
        return ShardFailed(error_of(response))
    run = scene.run_state
    return json_structs.converted(await run.service.artifacts.resolved(run.accepted.tenant, response.outputs or {}), ShardResults)


async def _start(scene: Scene, at: Identity, task: Task, part: str, first: int, failed: int) -> Update:
    """The update that starts a shard. The accepted request of the shard is a copy of the parent's. Its inputs, its labels, its family and
    its place below the parent are its own, and the budgets of the node are added. `first` is the index of its first item, and `failed` the
    number of items that failed in earlier shards."""
    run, node = scene.run_state, scene.node
    cut = slice(first, first + SHARD_ITEMS)
    previous = None if task.previous is None else task.previous[cut]
    earlier = await earlier_items(scene, task.items, part)
    if earlier is not None:
        earlier = earlier.cut(first, len(task.items[cut]))
    task = msgspec.structs.replace(task, items=task.items[cut], previous=previous, earlier=earlier)
    inputs = _ShardInputs(pipeline=run.contract.worker_id, position=scene.position, part=part, first=first, failed=failed, task=task)
    given = await run.values.kept(_flat(msgspec.to_builtins(inputs)))
    family = sha256(f"{run.accepted.family}\0{node.name}\0{scene.position.round}\0{scene.position.try_number}\0{part}".encode()).hexdigest()
    accepted = msgspec.structs.replace(
        run.accepted,
        request=WorkerRequest(
            worker_id=run.accepted.request.worker_id, inputs=given, trace=run.accepted.request.trace, user=run.accepted.request.user
        ),
        package=f"{SHARD}{run.accepted.package}",
        family=family,
        before=(),
        span_id=run.records.reporter.node_span(node.name, scene.position.round) or run.accepted.span_id,
        budgets=(*run.budgets(node), *run.accepted.budgets),
        lineage=Lineage(above=(*run.accepted.lineage.above, run.header.id), owner=run.header.id),
        labels=Labels(pipeline=run.contract.worker_id, node=node.name, round=scene.position.round),
    )
    order = Order(Kind.PIPELINE, msgspec.json.encode(accepted).decode())
    return started(at, function_name=run.header.function, order=order, tenant_id=run.accepted.tenant)


def _flat(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs of a shard with the members of its task at the top level, so that each large member can become an artifact."""
    task = inputs.pop("task")
    return {**inputs, **{f"task.{name}": value for name, value in task.items()}}


def _unflat(inputs: dict[str, Any]) -> dict[str, Any]:
    task = {name.removeprefix("task."): value for name, value in inputs.items() if name.startswith("task.")}
    return {**{name: value for name, value in inputs.items() if not name.startswith("task.")}, "task": task}


# --- the shard's side


async def run_shard(accepted: AcceptedRequest, journal: Journal, service: RunService) -> Response:
    """The handler of a shard: run its items, at most `at_once` at the same time, until all have ended, too many have failed, or the shard
    is cancelled. Returns a response with the results of all items that were begun, also if too many have failed. If the shard is cancelled,
    the response has the error `cancelled` instead."""
    records = Records(journal, SILENT)
    values = Values(service.artifacts, accepted.tenant, service.policy.inline_artifact_bytes)
    inputs = json_structs.converted(_unflat(await service.artifacts.resolved(accepted.tenant, accepted.request.inputs)), _ShardInputs)
    records.open()
    forerunners = await item_forerunners(inputs.task.earlier, inputs.first, accepted, service)
    records.restarts = forerunners is not None
    shard = _Shard(inputs, accepted, records, service, values, forerunners)
    while not await shard.advance():
        if not records.is_closed(CANCEL_AT):
            records.awaits(CANCEL_AT)
        await records.rest()
    return await shard.respond()


class _Shard:
    def __init__(
        self,
        inputs: _ShardInputs,
        accepted: AcceptedRequest,
        records: Records,
        service: RunService,
        values: Values,
        forerunners: ItemForerunners | None,
    ) -> None:
        self._inputs = inputs
        self._forerunners = forerunners
        self._task = inputs.task
        self._accepted = accepted
        self._records = records
        self._service = service
        self._values = values
        self._live: dict[int, ChildRuns] = {}
        self._done: dict[int, dict[str, Any]] = {}
        self._next = 0
        self._failed = inputs.failed
        self._is_partial = False
        self._reused: set[int] = set()

    async def advance(self) -> bool:
        """Look at every item that has begun, and begin further items as far as `at_once` allows. If too many items have failed, or if the
        shard is cancelled, begin none and cancel those that run. Returns True if no item is still running: then the shard has ended."""
        for place in list(self._live):
            await self._look(place)
        while self._next < len(self._task.items) and len(self._live) < self._task.at_once and not self._is_stopping:
            place, self._next = self._next, self._next + 1
            await self._look(place)
            if self._records.is_full:  # after many reused items, write first, so that no write gets too large
                await self._records.write()
        if self._is_stopping and self._live:
            self._records.drop_wishes()
            await self._end_live()
        return not self._live

    @property
    def _is_stopping(self) -> bool:
        return self._failed > self._task.tolerated or self._records.is_closed(CANCEL_AT)

    async def _look(self, place: int) -> None:
        """Begin an item, or look whether it has ended. If it has ended, keep its row for the page. `place` is its position in this shard,
        from 0."""
        index = self._inputs.first + place
        runs = _ItemRuns(self, index, self._revision(place))
        made = await self._made(place, index)
        if isinstance(made, NodeError):
            self._over(place, _item(index, None, made))
            return
        last = await ran(runs, self._task.workers, runs.given(made), part=f"{self._inputs.part}-{index}", template=self._task.template)
        if last is None:
            self._live[place] = runs
            return
        self._is_partial |= last.response.observability.partial
        if self._forerunners is not None and self._records.is_reused(last.operation_id):
            self._reused.add(index)
        self._over(place, _item(index, last.response, None))

    def _over(self, place: int, item: dict[str, Any]) -> None:
        self._live.pop(place, None)
        self._done[place] = item
        self._failed += item["status"] != "ok"

    async def _made(self, place: int, index: int) -> dict[str, Any] | NodeError:
        """The inputs of an item, or the error if they have no value or are not an object. For `Task.is_undo` they are `{inputs, outputs}`
        of the item that is undone, with null for inputs that have no value. `place` is the position of the item in this shard, `index` that
        in the whole list."""
        task, node = self._task, self._inputs.position.node
        value = task.items[place]
        template, item = task.template, MapItem(value, value["index"] if self._inputs.part != WORK else index)
        if task.is_undo:
            found = resolved(template, {"values": task.values}, item=MapItem(value["item"], value["index"]))
            return {"inputs": None if isinstance(found, Unresolved) else found, "outputs": value["outputs"]}
        found = resolved(template, {"values": task.values}, item=item)
        if isinstance(found, Unresolved):
            return unresolved_error(node, found)
        return found if isinstance(found, dict) else no_object_error(node)

    def _revision(self, place: int) -> Mapping[str, Any] | None:
        asked, previous = self._task.revision, self._task.previous or []
        return None if asked is None else {**asked, "previous": previous[place] if place < len(previous) else None}

    async def _end_live(self) -> None:
        """Cancel the items that have begun and not ended. An item whose start is not written yet ends with the error `cancelled`, without a
        run. If only the start of its fallback is not written yet, it ends as its last run ended."""
        for place, runs in list(self._live.items()):
            known = [operation for at in runs.awaited if (operation := self._records.find(at)) is not None]
            if not any(operation.status in OPEN for operation in known):
                error = NodeError(code="cancelled", message="The item was not begun, because the map had ended.")
                index = self._inputs.first + place
                self._over(place, _item(index, self._last_run(index), error))
            for operation in known:
                if operation.status in OPEN:
                    await self._service.cancel_child(self._records.journal.header.id, operation.id)
                    self._records.awaits(runs.awaited[0])

    def _last_run(self, index: int) -> Response | None:
        """The response of the last run of an item that has ended; None if the item had no run. A refused request is no run."""
        part, number, last = f"{self._inputs.part}-{index}", 1, None
        while (known := self._records.find(run_at(self._inputs.position, part, number))) is not None and known.status not in OPEN:
            response = self._records.response(known)
            last, number = last if was_refused(response) else response, number + 1
        return last

    async def respond(self) -> Response:
        """The response of the shard: its ShardResults as outputs, or the error `cancelled` if it was cancelled."""
        await self._records.write()
        header = self._records.journal.header
        if self._records.is_closed(CANCEL_AT):
            return msgspec.structs.replace(
                made_response("cancelled", "The map was cancelled."), run_id=header.id, worker_id=header.function
            )
        page = ShardResults(
            items=[self._done[place] for place in sorted(self._done)],
            failed=self._failed,
            is_partial=self._is_partial,
            reused=sorted(self._reused),
        )
        return Response(
            run_id=header.id,
            worker_id=header.function,
            version=self._accepted.version,
            status=ResponseStatus.OK,
            outputs=await self._values.kept(msgspec.to_builtins(page)),
            observability=Observability(trace_id=self._accepted.trace_id, span_id=self._accepted.span_id, usage=self._records.usage()),
        )


class _ItemRuns(ChildRuns):
    def __init__(self, shard: _Shard, index: int, revision: Mapping[str, Any] | None) -> None:
        inputs = shard._inputs
        labels = Labels(pipeline=inputs.pipeline, node=inputs.position.node, item=index, round=inputs.position.round)
        super().__init__(shard._records, shard._service, shard._values, shard._accepted, inputs.position, labels=labels)
        self._revision = revision
        self._index = index
        self._forerunners = shard._forerunners

    def earlier(self, at: Identity, worker_id: str, part: str) -> Earlier:
        """What earlier runs of the pipeline did for this item. Empty if this run restarts no other run."""
        return Earlier() if self._forerunners is None else self._forerunners.child(self._index, worker_id, at)

    @property
    def revision(self) -> Mapping[str, Any] | None:
        """What a gate wants changed, with the earlier outputs of this item; None if no gate asked for a revision."""
        return self._revision

    def begin(self, *updates: Update) -> None:
        """Add these updates to the next write. No begin of a node is recorded, because an item has no context of its own."""
        self.records.wish(*updates)


def _item(index: int, response: Response | None, error: NodeError | None) -> dict[str, Any]:
    """One row of the map's result: of an item with a response, or (`response` is None) of an item that ended without a run."""
    if response is None:
        told = None if error is None else {"error_code": error.code, "message": error.message, "retryable": False, "details": error.details}
        return {"index": index, "status": "invalid_output", "outputs": None, "error": told, "run_id": None}
    failed = None if response.error is None else msgspec.to_builtins(response.error)
    outputs = response.outputs if response.status is ResponseStatus.OK else None
    return {"index": index, "status": response.status.value, "outputs": outputs, "error": failed, "run_id": response.run_id or None}
