"""A map node runs a worker for each item of a list. The items run in shards (scene/shards.py), one shard after another."""

from __future__ import annotations

from typing import Any

from holdfast.contract.codes import ResponseStatus
from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled
from holdfast.pipelines.record.undo_tries import note_undo_try
from holdfast.pipelines.scene.earlier_items import WORK
from holdfast.pipelines.scene.scene import CannotRun, Scene
from holdfast.pipelines.scene.shards import ShardFailed, ShardResults, Task, kept_items, pages


async def advance(node: MapNode, scene: Scene) -> NodeProgress:
    """Run the worker for each item. The node fails if more items failed than it tolerates, or if a shard fails as a whole. It is partial if
    an item failed or the run of an item was partial, else ok. Raises CannotRun if the value of `over` is not a list, or has more than
    `at_most` items."""
    items = await scene.opened(node.over)
    if not isinstance(items, list):
        raise CannotRun(NodeError(code="edge_mismatch", message=f"The value over which {node.name} maps is not a list."))
    if len(items) > node.at_most:
        message = f"The list over which {node.name} maps has {len(items)} items; at most {node.at_most} are allowed (`at_most`)."
        raise CannotRun(NodeError(code="edge_mismatch", message=message))
    template, values = await scene.closed_template(node.inputs)
    task = Task(
        workers=(node.worker, *node.fallback),
        template=template,
        values=values,
        items=items,
        at_once=node.at_once,
        tolerated=tolerated(node, len(items)),
        revision=scene.revision,
        previous=await _previous(scene),
    )
    found = await pages(scene, task, WORK)
    if found is None:
        return None
    if isinstance(found, ShardFailed):
        return NodeFailure(found.error)
    done = [item for page in found for item in page.items]
    good, bad = [item for item in done if item["status"] == "ok"], [item for item in done if item["status"] != "ok"]
    document = {"items": done, "ok": good, "failed": bad, "counts": {"total": len(items), "ok": len(good), "failed": len(bad)}}
    if len(bad) > task.tolerated:
        return NodeFailure(_too_many(node, len(items), task.tolerated, bad), document=await scene.kept(document))
    lost = bool(bad) or any(page.is_partial for page in found)
    return Settled(state="partial" if lost else "ok", document=await scene.kept(document), lost=lost)


def tolerated(node: MapNode, total: int) -> int:
    """How many of `total` items may fail without failing the node. A percentage is rounded down to whole items."""
    return total * node.tolerate // 100 if node.tolerate_percent else node.tolerate


async def _previous(scene: Scene) -> list[Any] | None:
    """If a gate wants this map to run again: the outputs of each item in the round before, in the order of the list, with None for an item
    without outputs. If no gate wants that: None."""
    if scene.revision is None:
        return None
    before = scene.run_state.document(scene.node.name, scene.position.round - 1) or {}
    found: dict[int, Any] = {item["index"]: item["outputs"] for item in await scene.run_state.values.opened(before.get("items", []))}
    return [found.get(index) for index in range(max(found, default=-1) + 1)]


def _too_many(node: MapNode, total: int, allowed: int, bad: list[dict[str, Any]]) -> NodeError:
    first = min(bad, key=lambda item: int(item["index"]))
    error = first["error"] or {}
    message = (
        f"{len(bad)} of {total} items of {node.name} failed; at most {allowed} may fail. "
        f"Item {first['index']} failed with {error.get('error_code')}: {error.get('message')}"
    )
    return NodeError(
        code=str(error.get("error_code")),
        message=message,
        details={"failed": [item["index"] for item in bad[:100]]},
        run_id=first["run_id"] or None,
        retryable=error.get("retryable"),
        needs_human=first["status"] == ResponseStatus.NEEDS_HUMAN.value,
    )


async def effects(node: MapNode, scene: Scene) -> list[dict[str, Any]]:
    """The rows of the items to undo: those that succeeded. An item whose result a restart took from an earlier, successful run is left
    out."""
    document = scene.run_state.document(node.name, scene.position.round) or {}
    rows = await scene.run_state.values.opened(document.get("items", []))
    kept = await kept_items(scene)
    kept_runs = scene.run_state.kept_runs
    return [row for row in rows if row["status"] == "ok" and row["index"] not in kept and row["run_id"] not in kept_runs]


async def undo(node: MapNode, scene: Scene) -> NodeError | bool | None:
    """Undo the items of `effects`, beginning with the last one, at most `at_once` at the same time. A later try undoes only the items
    that the try before could not undo. Returns True if all items are undone, an error if not, and None while an undo runs.

    If the author gave inputs for the undo, `item` in them is the item's row in the map's result, and `item.item` is the element of the
    list.
    """
    assert node.undo is not None
    over = await scene.opened(node.over)
    left = [{**row, "item": over[row["index"]]} for row in reversed(await effects(node, scene))]
    own = node.undo.inputs
    template, values = await scene.closed_template(node.inputs if own is None else own)
    found: list[ShardResults] | ShardFailed | None = None
    for try_number in range(1, scene.position.try_number + 1):
        task = Task(
            workers=(node.undo.worker,),
            template=template,
            values=values,
            items=left,
            at_once=node.at_once,
            tolerated=len(left),
            is_undo=own is None,
        )
        tried = scene.in_try(try_number)
        found = await pages(tried, task, "undo")
        if found is None or isinstance(found, ShardFailed):
            break
        bad = {item["index"] for page in found for item in page.items if item["status"] != "ok"}
        if bad:
            note_undo_try(scene.records, tried.position, items=(item["index"] for place, item in enumerate(left) if place not in bad))
        left = [item for place, item in enumerate(left) if place in bad]
    if found is None:
        return None
    if isinstance(found, ShardFailed):
        return found.error
    if not left:
        return True
    return NodeError(
        code="undo_failed", message=f"{len(left)} items of {node.name} could not be undone.", details=[i["index"] for i in left]
    )
