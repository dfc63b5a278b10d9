"""The items of a map in a restart: an item of the new list may reuse the result of the same item of an earlier list.

Two items are the same if their values are equal. Each earlier item is matched with at most one new item. A new item for which no equal
earlier item is left is matched with the earlier item at the same index, if that item is not matched by its value. The lists of all earlier
runs are searched, the newest first, because a run may have ended before it began an item. An item that no earlier run began has a new
family: its place in the list may have been the place of another item.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.model import codec
from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.record.operations import REUSED
from holdfast.pipelines.record.reused import Reused, reused_in
from holdfast.pipelines.restart.forerunners import UNDO, Earlier, Forerunners, Reuse, counted, linked, results_in
from holdfast.workers.accepted_request import AcceptedRequest, FamilyLink
from holdfast.workers.earlier_runs import EarlierRun

SHARD_ITEMS: Final = 500
Undone: TypeAlias = Literal["none", "new", "all"]
"""Which of the items that succeeded in an earlier run were undone there: none, those that the run had not itself reused, or all."""


class EarlierShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard of an earlier run, and the index of its first item in the whole list."""

    run_id: str
    first: int


class EarlierItems(msgspec.Struct, frozen=True, kw_only=True):
    """What a map, or one shard of it, knows about the map's items in an earlier run."""

    shards: tuple[EarlierShard, ...]
    reuse: Reuse
    is_fresh: bool = False
    """Whether all items make their writes again, without results and receipts of earlier runs."""
    undone: Undone = "none"
    """Which items make their writes again because they were undone."""
    undone_items: tuple[int, ...] = ()
    """The indexes of earlier items that were undone, too: their undo failed for other items."""
    is_whole: bool = False
    """Whether an item that runs a pipeline runs all nodes of that pipeline again."""
    places: list[int | None] | None = None
    """For each item of the new list: the index of the earlier item with which it is matched, or None if it is matched with none. None in
    place of the whole list: the new list and the earlier list are equal."""
    older: tuple[EarlierItems, ...] = ()
    """The same of the runs before that earlier run, the newest first. They are used for items that the newer runs did not begin."""

    def cut(self, first: int, count: int) -> EarlierItems:
        """These EarlierItems, reduced to one shard of the new map: the shard that has `count` items of the new list, from index `first`
        on."""
        places = None if self.places is None else self.places[first : first + count]
        wanted = set(range(first, first + count)) if places is None else {place for place in places if place is not None}
        there = tuple(one for one in self.shards if any(one.first <= place < one.first + SHARD_ITEMS for place in wanted))
        older = tuple(one.cut(first, count) for one in self.older)
        undone_items = tuple(wanted.intersection(self.undone_items))
        return msgspec.structs.replace(self, shards=there, places=places, older=older, undone_items=undone_items)


class EarlierMap(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a map's work, or its undo, in one earlier run."""

    items: EarlierItems
    """Without `places`, and without `older`."""
    shards: list[tuple[EarlierShard, AcceptedRequest]]
    is_complete: bool
    """Whether all its items have ended there."""


def earlier_maps(forerunners: Forerunners, node: MapNode, round: int, part: str) -> Iterator[EarlierMap]:
    """The earlier runs that have shards of a map for one part of its work, the newest first. Results of undos are not reused."""
    is_undo, may_reuse = part.startswith(UNDO), forerunners.reuse(node, round) is not None
    for past in forerunners.runs:
        shards = [
            (EarlierShard(run_id=child.run_id, first=first), child.accepted)
            for child in past.run.children.values()
            if child.accepted.is_shard
            and (child.accepted.labels.node, child.accepted.labels.round) == (node.name, round)
            and (inputs := child.accepted.request.inputs).get("part") == part
            and isinstance(first := inputs.get("first"), int)
        ]
        counts, settled, is_undone = may_reuse and not is_undo, past.settled(node.name, round), past.is_undone(node.name, round)
        in_part = past.undone_in_part(node.name, round).items
        if is_undo:  # what a successful undo took back was done again
            undone: Undone = "all" if in_part else "none"
        else:
            undone = "none" if not is_undone else "new" if past.keeps else "all"
        if shards:
            items = EarlierItems(
                shards=tuple(shard for shard, _ in shards),
                reuse=past.reuse(node, round, is_retry=forerunners.is_retry) if counts else "none",
                is_fresh=forerunners.resends(node.name) or (is_undo and is_undone),
                undone=undone,
                undone_items=() if is_undo else in_part,
                is_whole=not counts,
            )
            has_ended = is_undone if is_undo else settled is not None and settled.state in ("ok", "partial")
            yield EarlierMap(items=items, shards=shards, is_complete=has_ended)
        may_reuse = may_reuse and not past.forced(node.name)


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
    """What earlier runs did for the items of one shard. `runs` are the shards of each earlier run: of `items` first, then of
    `items.older`."""

    def __init__(self, accepted: AcceptedRequest, items: EarlierItems, first: int, runs: Iterable[Iterable[EarlierRun]]) -> None:
        self._accepted = accepted
        self._pasts = [_PastItems(one, first, shards) for one, shards in zip((items, *items.older), runs, strict=True)]

    def child(self, index: int, worker_id: str, at: Identity) -> Earlier:
        """What earlier runs of this worker did for the item at this index of the new list. If there are none, an Earlier without candidate,
        and with the link to a new family: that of a child run at the place `at` may be the family of another item."""
        for past in self._pasts:
            place = past.place(index)
            done = [] if place is None else [one for one in past.by_item[place] if one.worker == worker_id]
            if place is None or not done:
                continue
            items, is_undone = past.items, past.is_undone(place)
            good = [one for one in done if counted(one, "ok") is not None]
            candidate = counted(good[-1] if good else done[-1], "none" if is_undone else items.reuse)
            if candidate is not None:
                candidate = msgspec.structs.replace(candidate, item=index)
            link = linked(done[-1], self._accepted, is_whole=items.is_whole, is_fresh=items.is_fresh or is_undone)
            return Earlier(link=link, candidate=candidate)
        family = sha256(f"{self._accepted.family}\0{at.operation_id}\0{self._accepted.lineage.owner}".encode()).hexdigest()
        return Earlier(link=FamilyLink(family=family, number=1))


class _PastItems:
    """The results of the items of one earlier run."""

    def __init__(self, items: EarlierItems, first: int, shards: Iterable[EarlierRun]) -> None:
        self.items = items
        self._first = first
        self.by_item: defaultdict[int, list[Reused]] = defaultdict(list)
        """By the index of the earlier item, in the order in which they were recorded."""
        self._reused = set[int]()
        """The indexes of the earlier items whose good results the earlier run had itself reused."""
        self._undone_items = frozenset(items.undone_items)
        for shard in shards:
            reused = {reused_in(operation).run_id for operation in shard.operations.values() if operation.sub_type == REUSED}
            for one in results_in(shard):
                if one.item is not None:
                    self.by_item[one.item].append(one)
                    if one.run_id in reused and counted(one, "ok") is not None:
                        self._reused.add(one.item)

    def place(self, index: int) -> int | None:
        """The index of the earlier item with which the item at this index of the new list is matched; None if it is matched with none."""
        return index if self.items.places is None else self.items.places[index - self._first]

    def is_undone(self, place: int) -> bool:
        """Whether the earlier item at this index was undone. An item that failed was not."""
        if place in self._undone_items:
            return True
        if self.items.undone == "none" or (self.items.undone == "new" and place in self._reused):
            return False
        return counted(self.by_item[place][-1], "ok") is not None
