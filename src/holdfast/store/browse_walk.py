"""One search for executions: it reads the newest candidates of the best plan, in growing steps, until it has enough matches or reaches its
bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from holdfast.model.shown_status import ShownStatus
from holdfast.store import rows
from holdfast.store.browse import Browse
from holdfast.store.browse_query import BY_TEXT, BrowseQuery, IdRange, IndexPlan, IndexRange, bounds_of, only_published, plans, text_plan

T = TypeVar("T")
Ask = Callable[[str, Mapping[str, object]], list[rows.Row]]
"""Runs a statement with its parameters, and returns its rows."""
_PROBED: Final = 50
"""To compare plans, the search counts the candidates of each plan, but stops at `Browse.scan` divided by this number."""
_NAMED: Final = 10
"""If the search has a text, it counts the executions with such a name, but stops at `Browse.scan` divided by this number. The index
of names is used only if there are fewer: it is not in the order of ids, so its candidates must be sorted."""
_GROWTH: Final = 8
"""Each step reads at most this many times as many candidates as the step before."""
_FEWEST: Final = 200


class BrowseWalk:
    """One search. It considers at most `wanted.scan` candidates."""

    def __init__(self, ask: Ask, query: BrowseQuery, wanted: Browse) -> None:
        self._ask, self._query, self._wanted = ask, query, wanted
        self._asked = query.asked(wanted)
        self._left = max(wanted.scan, 0)

    def matches(self, name: str, made: Callable[[rows.Row], T | None], need: int, *, first: int) -> tuple[list[T], str | None]:
        """At most `need` matches, newest first. The second value: if the walk stopped at its bound, the id down to which it has searched,
        else None. `name` is the name of the statement to use. `made` makes a value from a row, or returns None for a damaged row. The first
        step reads about `first` candidates, but not fewer than 200 (if there are so many)."""
        bounds = bounds_of(self._wanted)
        plan = self._plan(bounds)
        found: list[T] = []
        step = max(first, _FEWEST)
        while plan and len(found) < need and bounds.lower < bounds.upper:
            each = min(step, self._left) // len(plan)
            if each < 1:
                return found, bounds.upper
            counted = [self._count(part, bounds, each) for part in plan]
            # The id down to which every part was read; None if every part was read to its end.
            floor = max((last for count, last in counted if count >= each), default=None)
            candidates = [(part, count) for part, (count, _) in zip(plan, counted, strict=True) if count]
            more = self._step(name, made, candidates, IdRange(floor or bounds.lower, bounds.upper), need - len(found))
            found += more
            if floor is None:
                break
            bounds, step = IdRange(bounds.lower, floor), _next_step(step, len(more), need - len(found))
        return found, None

    # --- the plan

    def _plan(self, bounds: IdRange) -> IndexPlan:
        """The plan with the fewest candidates. Each plan is counted in its index, up to a small bound. If all plans reach the bound, the
        plan that comes first is taken."""
        known = list(plans(self._wanted, self._functions(), self._bad_outcomes()))
        if len(known) == 1 and "text" not in self._asked:
            return known[0]
        most = max(self._wanted.scan // _PROBED, 1)
        few = [(count, plan) for plan in known if (count := self._probed(plan, bounds, most)) < most]
        named = self._named()
        if named is not None:
            plan = text_plan(self._asked["text"])
            few.append((named + self._probed(plan[-1:], bounds, most), plan))
        return min(few, key=lambda one: one[0])[1] if few else known[0]

    def _probed(self, plan: IndexPlan, bounds: IdRange, most: int) -> int:
        return sum(self._count(part, bounds, -(-most // len(plan)))[0] for part in plan)

    def _named(self) -> int | None:
        """How many executions have, or had, a name that begins with the search's text. None if there are too many to use the index of
        names, or if the search has no text."""
        if "text" not in self._asked:
            return None
        most = max(self._wanted.scan // _NAMED, 1)
        asked = {"text": self._asked["text"], "text_end": self._asked["text_end"], "most": most}
        ((named, former),) = self._ask(self._query.named, asked)
        self._left -= named + former
        return named + former if named < most and former < most else None

    def _functions(self) -> Sequence[str] | None:
        """The published functions of the wanted kinds. None if no kinds are wanted, or if a function that no runner has published may be of
        such a kind."""
        if not only_published(self._wanted.kinds):
            return None
        return [row[0] for row in self._ask(self._query.functions_of_kinds, {"kinds": self._asked["kinds"]})]

    def _bad_outcomes(self) -> Sequence[str]:
        """If the search asks for failed executions: all outcomes other than `ok` that executions of the store have now. Else empty."""
        return [row[0] for row in self._ask(self._query.bad_outcomes, {})] if ShownStatus.FAILED in self._wanted.statuses else ()

    # --- one step

    def _count(self, part: IndexRange, bounds: IdRange, most: int) -> tuple[int, str]:
        """Count the next candidates of a part, up to `most`. Returns the count and the smallest id among them."""
        ((count, last),) = self._ask(self._query.last_of(part), self._range(part, bounds, most))
        self._left -= count
        return count, last

    def _range(self, part: IndexRange, bounds: IdRange, most: int) -> dict[str, object]:
        asked: dict[str, object] = {"lower": max(part.lower, bounds.lower), "upper": min(part.upper, bounds.upper), "most": most}
        if part.value is not None:
            asked["value"] = part.value
        if part.name in BY_TEXT:
            asked |= {"text": self._asked["text"], "text_end": self._asked["text_end"]}
        return asked

    def _step(
        self, name: str, made: Callable[[rows.Row], T | None], candidates: Sequence[tuple[IndexRange, int]], bounds: IdRange, need: int
    ) -> list[T]:
        """At most `need` matches of one step, newest first. `candidates` has each part with the number of its candidates in this step. If
        damaged rows leave fewer matches than needed, the step is read again with a higher limit."""
        limit = need
        while True:
            read: dict[object, T | None] = {}
            cut = False
            for part, count in candidates:
                asked = {**self._asked, **self._range(part, bounds, count), "limit": limit}
                page = self._ask(self._query.matches(name, part, self._asked), asked)
                cut = cut or len(page) >= limit
                read |= {row[0]: made(row) for row in page}
            newest_first = sorted(read.items(), key=lambda one: str(one[0]), reverse=True)
            whole = [value for _, value in newest_first if value is not None]
            if not cut or len(whole) >= need:
                return whole[:need]
            limit = need + len(read) - len(whole)


def _next_step(step: int, hits: int, need: int) -> int:
    """How many candidates the next step reads. `hits` is the number of matches in this step, `need` is how many are still needed. If the
    next candidates match as often as those of this step, the next step finds about twice as many as needed; but it reads at most 8 times as
    many candidates as this step."""
    return step * _GROWTH if not hits else min(step * _GROWTH, max(_FEWEST, 2 * step * need // hits))
