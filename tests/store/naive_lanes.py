"""A naive model of admission: lists in Python, everything looked at each time. It knows headers and settings, and no row of a lane."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.model.admission import holds, waits
from holdfast.model.execution import Execution
from holdfast.model.places import level_of, parent_of, path
from holdfast.model.queues import QueueSettings
from holdfast.model.rates import TOKENS, Rate, parsed_rate

NS = 1_000_000


@dataclass
class Lane:
    """What the model remembers of a lane: turns, rates, and until when it is closed."""

    key: str
    turn: int = 0
    clock: int = 0
    closed_until: int = 0
    cool_until: int = 0
    served_at: int = 0
    used: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each kind of rate: its step and its time."""


class Naive:
    """The queues of a store as plain lists."""

    def __init__(self) -> None:
        self.settings: dict[str, QueueSettings] = {}
        self.paused: set[str] = set()
        self.headers: dict[str, Execution] = {}
        self.lanes: dict[str, Lane] = {"": Lane("")}

    # --- counts

    def held(self, lane: str) -> int:
        return sum(holds(header) for header in self._inside(lane))

    def waiting(self, lane: str) -> list[Execution]:
        found = [header for header in self._inside(lane) if waits(header)]
        return sorted(found, key=_order)

    def counts(self, queue: str) -> dict[str, tuple[int, int]]:
        keys = [key for key in self.lanes if key.partition("/")[0] == queue]
        found = {key: (self.held(key), len(self.waiting(key))) for key in keys if key}
        return {key: count for key, count in found.items() if count != (0, 0)}

    def at_once(self, lane: str) -> int:
        limit = self.settings[lane.partition("/")[0]].at(level_of(lane)).at_once
        return 10**9 if limit is None else limit

    def _inside(self, lane: str) -> list[Execution]:
        return [h for h in self.headers.values() if h.place is not None and lane in path(h.place.lane)]

    # --- what writes do

    def put(self, changed: list[Execution]) -> None:
        """Take over the headers that a commit left. A lane in which nothing waited begins at the clock of the lane above."""
        was = {key: len(self.waiting(key)) for key in self.lanes}
        for header in changed:
            self.headers[header.id] = header
            if header.place is not None:
                for key in path(header.place.lane):
                    self.lanes.setdefault(key, Lane(key))
        for key, lane in self.lanes.items():
            if key and not was.get(key) and self.waiting(key):
                lane.turn = max(lane.turn, self.lanes[parent_of(key)].clock)

    def settled(self, header: Execution, units: int, now: int) -> None:
        """An execution used so many tokens beyond its estimate."""
        assert header.place is not None
        for key in path(header.place.lane):
            lane = self.lanes[key]
            if TOKENS in lane.used:
                step, tat = lane.used[TOKENS]
                lane.used[TOKENS] = (step, max(now * NS, tat + units * step))
            if units < 0:
                lane.closed_until = 0

    def cooled(self, header: Execution, until: int) -> None:
        """An execution was told to come back later."""
        assert header.place is not None
        lane = self.lanes[header.place.lane]
        lane.cool_until = max(lane.cool_until, until)
        lane.closed_until = max(lane.closed_until, until)

    def operated(self, queue: str, settings: QueueSettings, *, paused: bool) -> None:
        """An operator changed a queue."""
        self.settings[queue] = settings
        self.paused.discard(queue)
        if paused:
            self.paused.add(queue)
        for key, lane in self.lanes.items():
            if key.partition("/")[0] != queue or level_of(key) == "function":
                continue
            lane.closed_until = 0
            before, lane.used = lane.used, {}
            for rate in settings.at(level_of(key)).parsed_rates():
                if rate.kind in before:
                    step, tat = before[rate.kind]
                    since = min(tat, lane.served_at * NS)
                    lane.used[rate.kind] = (rate.step_ns, since + (tat - since) * rate.step_ns // step)

    def forget(self, kept: set[str]) -> None:
        """Retention removed lanes."""
        for key in [key for key in self.lanes if key and key not in kept]:
            assert not self._inside_open(key), f"{key} was removed, and something is in it"
            del self.lanes[key]

    def _inside_open(self, lane: str) -> list[Execution]:
        return [header for header in self._inside(lane) if header.ended_at is None]

    # --- admission

    def at_start(self, leaf: str, units: int, now: int) -> bool:
        """Whether an enqueue by a runner is admitted in its own write."""
        keys = path(leaf)
        for key in keys:
            lane = self.lanes.get(key) or Lane(key)
            if self.waiting(key) or self.held(key) >= self.at_once(key) or lane.closed_until > now or key in self.paused:
                return False
            if self._refused(lane, units, now) is not None:
                return False
        for key in keys:
            self._charge(self.lanes.setdefault(key, Lane(key)), units, now)
        return True

    def admission(self, count: int, targets: set[str], now: int) -> tuple[list[str], list[str]]:
        """The executions that are admitted for so many claimants, and those that are found to be over."""
        walk = _OneWalk(self, targets, now)
        taken: list[str] = []
        while len(taken) < count and (found := walk.pick("")) is not None:
            head = walk.left[found[-1]][0]
            assert head.place is not None
            refused = [(key, until) for key in found if (until := self._refused(self.lanes[key], head.place.units, now)) is not None]
            if refused:
                self.lanes[refused[0][0]].closed_until = refused[0][1]
                continue
            walk.left[found[-1]].pop(0)
            if head.deadline <= now:
                walk.over.append(head.id)
                if walk.is_ordered(found[-1]):
                    walk.blocked.add(found[-1])
                continue
            above = self.lanes[""]
            for key in found:
                lane = self.lanes[key]
                above.clock = max(above.clock, lane.turn)
                lane.turn = max(lane.turn, above.clock) + 1
                self._charge(lane, head.place.units, now)
                walk.taken[key] = walk.taken.get(key, 0) + 1
                above = lane
            taken.append(head.id)
        return taken, walk.over

    def _refused(self, lane: Lane, units: int, now: int) -> int | None:
        times = [lane.cool_until] if lane.cool_until > now else []
        for rate in self._rates(lane.key):
            tat = lane.used.get(rate.kind, (0, 0))[1]
            asked = units if rate.kind == TOKENS else 1
            late = max(tat, now * NS) + asked * rate.step_ns - (now * NS + rate.burst * rate.step_ns)
            if late > 0:
                times.append(now + -(-late // NS))
        return max(times) if times else None

    def _charge(self, lane: Lane, units: int, now: int) -> None:
        lane.served_at = now
        for rate in self._rates(lane.key):
            tat = lane.used.get(rate.kind, (0, 0))[1]
            asked = units if rate.kind == TOKENS else 1
            lane.used[rate.kind] = (rate.step_ns, max(tat, now * NS) + asked * rate.step_ns)

    def _rates(self, key: str) -> list[Rate]:
        return [parsed_rate(text) for text in self.settings[key.partition("/")[0]].at(level_of(key)).rates]


class _OneWalk:
    """One admission: what is left of each leaf, and what it has taken."""

    def __init__(self, naive: Naive, targets: set[str], now: int) -> None:
        self._naive, self._targets, self._now = naive, targets, now
        self.left = {key: naive.waiting(key) for key in naive.lanes if level_of(key) == "function"}
        self.taken: dict[str, int] = {}
        self.over: list[str] = []
        self.blocked: set[str] = set()

    def is_ordered(self, leaf: str) -> bool:
        return self._naive.settings[leaf.partition("/")[0]].ordered

    def pick(self, parent: str) -> list[str] | None:
        """The lanes down to the leaf whose turn it is."""
        below = [lane for key, lane in self._naive.lanes.items() if key and parent_of(key) == parent]
        for lane in sorted(below, key=lambda lane: (lane.turn, lane.key)):
            held = self._naive.held(lane.key) + self.taken.get(lane.key, 0)
            if held >= self._naive.at_once(lane.key) or lane.closed_until > self._now or lane.key in self._naive.paused:
                continue
            if lane.key in self.left:
                if lane.key not in self.blocked and self._is_hosted(lane.key) and self.left[lane.key] and self._is_first(lane.key):
                    return [lane.key]
            elif (deeper := self.pick(lane.key)) is not None:
                return [lane.key, *deeper]
        return None

    def _is_hosted(self, leaf: str) -> bool:
        return leaf.rpartition("=")[2] in self._targets

    def _is_first(self, leaf: str) -> bool:
        """Nothing of the key stands before the head of this leaf."""
        if not self.is_ordered(leaf):
            return True
        beside = [key for key in self.left if parent_of(key) == parent_of(leaf)]
        return min((_order(self.left[key][0]), key) for key in beside if self.left[key])[1] == leaf


def _order(header: Execution) -> tuple[int, str]:
    assert header.place is not None
    return header.place.order_at, header.id
