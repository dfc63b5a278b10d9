"""The items of a map in a restart: an item of the new list may reuse the result of the same item of an earlier list.

Two items are the same if their values are equal. Each earlier item is matched with at most one new item. A new item for which no equal
earlier item is left is matched with the earlier item at the same index, if that item is not matched by its value.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.record.reused import Reused
from holdfast.pipelines.restart.forerunners import Earlier, Forerunners, Reuse, counted, linked, results_in
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.earlier_runs import EarlierRun

SHARD_ITEMS: Final = 500


class EarlierShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard of an earlier run, and the index of its first item in the whole list."""

    run_id: str
    first: int


class EarlierItems(msgspec.Struct, frozen=True, kw_only=True):
    """What a map, or one shard of it, knows about the map's items in an earlier run."""

    shards: tuple[EarlierShard, ...]
    reuse: Reuse
    is_fresh: bool = False
    """Whether the items make their writes again, without results and receipts of earlier runs (`Forerunners.is_fresh`)."""
    is_whole: bool = False
    """Whether an item that runs a pipeline runs all nodes of that pipeline again."""
    places: list[int | None] | None = None
    """For each item of the new list: the index of the earlier item with which it is matched, or None if it is matched with none. None in
    place of the whole list: the new list and the earlier list are equal."""

    def cut(self, first: int, count: int) -> EarlierItems:
        """These EarlierItems, reduced to one shard of the new map: the shard that has `count` items of the new list, from index `first`
        on."""
        places = None if self.places is None else self.places[first : first + count]
        wanted = set(range(first, first + count)) if places is None else {place for place in places if place is not None}
        there = tuple(one for one in self.shards if any(one.first <= place < one.first + SHARD_ITEMS for place in wanted))
        return msgspec.structs.replace(self, shards=there, places=places)


def earlier_shards(
    forerunners: Forerunners, node: MapNode, round: int, part: str
) -> tuple[list[tuple[EarlierShard, AcceptedRequest]], bool]:
    """Two values. First the shards that a map had for one part of its work, in the newest earlier run that has any; empty if no run has
    any. Then whether results of the map may be reused from that run."""
    found = forerunners.reuse(node, round)
    for past in forerunners.runs:
        shards = [
            (EarlierShard(run_id=child.run_id, first=first), child.accepted)
            for child in past.run.children.values()
            if child.accepted.is_shard
            and (child.accepted.labels.node, child.accepted.labels.round) == (node.name, round)
            and (inputs := child.accepted.request.inputs).get("part") == part
            and isinstance(first := inputs.get("first"), int)
        ]
        if shards:
            return shards, found is not None and found[0] is past
    return [], False


def matched(now: Sequence[Any], before: Sequence[Any]) -> list[int | None] | None:
    """For each item of `now`, the new list: the index of the item of `before` with which it is matched, or None if it is matched with none.
    It is matched with an equal item, else with the item at the same index if that one is free. None in place of the whole list if both
    lists are equal."""
    texts, earlier = [codec.dumps(one) for one in now], [codec.dumps(one) for one in before]
    if texts == earlier:
        return None
    waiting: defaultdict[str, deque[int]] = defaultdict(deque)
    for index, text in enumerate(earlier):
        waiting[text].append(index)
    places: list[int | None] = [waiting[text].popleft() if waiting[text] else None for text in texts]
    free = {index for left in waiting.values() for index in left}
    return [index if place is None and index in free else place for index, place in enumerate(places)]


class ItemForerunners:
    """What earlier runs did for the items of one shard."""

    def __init__(self, accepted: AcceptedRequest, items: EarlierItems, first: int, runs: Iterable[EarlierRun]) -> None:
        self._accepted = accepted
        self._items = items
        self._first = first
        self._by_item: defaultdict[int, list[Reused]] = defaultdict(list)
        for run in runs:
            for one in results_in(run):
                if one.item is not None:
                    self._by_item[one.item].append(one)

    def child(self, index: int, worker_id: str) -> Earlier:
        """What earlier runs of this worker did for the item at this index of the new list. An Earlier without a link and without a result
        to reuse (`candidate`), if they did nothing for it."""
        place = index if self._items.places is None else self._items.places[index - self._first]
        done = [] if place is None else [one for one in self._by_item[place] if one.worker == worker_id]
        if not done:
            return Earlier()
        items = self._items
        good = [one for one in done if counted(one, "ok") is not None]
        candidate = counted(good[-1] if good else done[-1], items.reuse)
        if candidate is not None:
            candidate = msgspec.structs.replace(candidate, item=index)
        return Earlier(link=linked(done[-1], self._accepted, is_whole=items.is_whole, is_fresh=items.is_fresh), candidate=candidate)
