"""Every workload, taken several times, each time with the limit right after it: a ratio is the median of pairs measured side by side.

Times move by a factor of two from day to day and from second to second, so no figure stands alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import limit, restart, waiting, workloads
from bench.figures import ASYNC, DEF, Line, Taken
from bench.lines import lines
from bench.peers.running import Contestant, Failed, Figures, Missing
from bench.terms import Sizes

Ours = dict[str, dict[str, Taken]]
IN_SEQUENCE: Final = {ASYNC: "in_sequence", DEF: "in_sequence_blocking"}
SIDE_BY_SIDE: Final = {ASYNC: "side_by_side", DEF: "side_by_side_blocking"}
ASKS_LATE: Final = {ASYNC: "asks_late", DEF: "asks_late_blocking"}


def paired(measure: Callable[[], float], against: Callable[[], float], times: int) -> Taken:
    """A measurement, and the limit beside it."""
    taken = [(measure(), against()) for _ in range(times)]
    return Taken(tuple(ours for ours, _ in taken), tuple(limit for _, limit in taken))


def run(work: Callable[[], Coroutine[Any, Any, float]]) -> float:
    return asyncio.run(work())


def w1(folder: Path, sizes: Sizes) -> Ours:
    bare = partial(limit.bare_commit, folder, commits=sizes.w1_steps, runs=1)
    return {
        "W1": {
            colour: paired(partial(run, partial(workloads.w1, folder, function, sizes)), bare, sizes.pairs)
            for colour, function in IN_SEQUENCE.items()
        }
    }


def w2(folder: Path, sizes: Sizes) -> Ours:
    def ours(colour: str, *, computing: bool = False) -> float:
        return run(partial(workloads.w2, folder, IN_SEQUENCE[colour], sizes, computing=computing))

    sketch = partial(limit.sketch, folder, tasks=sizes.w2_executions, steps=sizes.w2_steps, runs=1)
    beside = paired(partial(ours, ASYNC, computing=True), partial(ours, ASYNC), sizes.few)
    return {
        "W2": {
            ASYNC: paired(partial(ours, ASYNC), sketch, sizes.pairs),
            DEF: paired(partial(ours, DEF), sketch, sizes.few),
        },
        "W2 computing": {ASYNC: Taken(tuple(busy / free for busy, free in zip(beside.samples, beside.against, strict=True)))},
    }


def w3(folder: Path, sizes: Sizes) -> Ours:
    """The sketch does the same number of steps, all at once."""

    def sketched(steps: int) -> float:
        return steps / limit.sketch(folder, tasks=steps, steps=1, runs=1)

    found: Ours = {}
    for key, mapped, steps in (("W3 parallel", False, sizes.w3_branches), ("W3 map", True, sizes.w3_items)):
        found[key] = {
            colour: paired(partial(run, partial(workloads.w3, folder, function, sizes, mapped=mapped)), partial(sketched, steps), sizes.few)
            for colour, function in SIDE_BY_SIDE.items()
        }
    return found


def w4(folder: Path, sizes: Sizes) -> Ours:
    """One restart for all: to make the histories takes longest. So the limit is taken after it, not in between."""
    steps_of = {"W4": sizes.w4_steps, "W4 many": sizes.w4_many_steps}
    taken = restart.w4(folder, [(function, steps) for steps in steps_of.values() for function in ASKS_LATE.values()], sizes.few)
    found: Ours = {}
    for key, steps in steps_of.items():
        at_best = tuple(limit.recall(folder, steps=steps, runs=1) for _ in range(sizes.few))
        found[key] = {colour: Taken(taken[function, steps], at_best) for colour, function in ASKS_LATE.items()}
    return found


def w5(folder: Path, sizes: Sizes) -> Ours:
    """At best an execution that waits costs two writes before it waits, start and suspension, and two after it, wake-up and end."""
    count = sizes.w5_executions
    scenes: dict[str, list[waiting.Measured]] = {name: [] for name in waiting.SCENES}
    rates: list[float] = []
    for _ in range(sizes.few):
        for name, played in scenes.items():
            played.append(waiting.w5(folder, name, sizes))
        rates.append(limit.sketch(folder, tasks=count, steps=2, runs=1) / 2)

    def taken(name: str, what: Callable[[waiting.Measured], float | None], at_best: Sequence[float] = ()) -> Taken:
        return Taken(tuple(value for played in scenes[name] if (value := what(played)) is not None), tuple(at_best))

    slowest = [count / rate for rate in rates]
    waits, blocking = partial(taken, "wait"), partial(taken, "blocking")
    return {
        "W5 wait": {
            ASYNC: waits(lambda m: m.started_per_second, rates),
            DEF: blocking(lambda m: m.started_per_second, rates),
        },
        "W5 callback": {ASYNC: taken("callback", lambda m: m.started_per_second, rates)},
        "W5 parked": {ASYNC: waits(lambda m: m.bytes_each)},
        "W5 parked callback": {ASYNC: taken("callback", lambda m: m.bytes_each)},
        "W5 evicted": {ASYNC: taken("evicted", lambda m: m.bytes_each)},
        "W5 idle": {ASYNC: waits(lambda m: m.idle)},
        "W5 idle callback": {ASYNC: taken("callback", lambda m: m.idle)},
        "W5 due": {ASYNC: waits(lambda m: m.due_seconds, slowest), DEF: blocking(lambda m: m.due_seconds, slowest)},
    }


def w6(folder: Path, sizes: Sizes) -> Ours:
    found: Ours = {"W6": {}, "W6 p99": {}}
    for colour, function in IN_SEQUENCE.items():
        rounds = [
            (asyncio.run(workloads.w6(folder, function, sizes)), limit.bare_commit(folder, commits=sizes.w6_rounds, runs=1))
            for _ in range(sizes.few)
        ]
        commits = tuple(commit for _, commit in rounds)
        found["W6"][colour] = Taken(tuple(p50 for (p50, _), _ in rounds), commits)
        found["W6 p99"][colour] = Taken(tuple(p99 for (_, p99), _ in rounds), commits)
    return found


def rest(folder: Path, sizes: Sizes) -> Ours:
    """What happens while nothing happens."""
    return {
        "wake": {ASYNC: Taken((run(partial(workloads.wakes, folder, sizes)),))},
        "idle": {ASYNC: Taken((run(partial(workloads.idle, folder, sizes)),))},
    }


MEASURES: Final[dict[str, Callable[[Path, Sizes], Ours]]] = {
    "W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "rest": rest,
}  # fmt: skip


def measured(
    folder: Path, sizes: Sizes, *, only: Sequence[str] = (), peers: Sequence[Contestant] = (), say: Callable[[str], None] = print
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """The lines, and what there is to say about the peers. A peer measures a workload right after we did, on the same disk."""
    found: Ours = {}
    here, notes = list(peers), list[str]()
    for workload in only or MEASURES:
        say(f"{workload}: Holdfast")
        found |= MEASURES[workload](folder, sizes)
        for peer in [peer for peer in here if workload in peer.workloads]:
            say(f"{workload}: {peer.name}")
            try:
                _add(found, peer.name, peer.figures(workload, folder, sizes))
            except (Missing, Failed) as trouble:
                notes.append(str(trouble))
                if isinstance(trouble, Missing):
                    here.remove(peer)
    return lines(sizes, found), (*(peer.note for peer in here), *notes)


def _add(found: Ours, column: str, figures: Figures) -> None:
    for key, samples in figures.items():
        if samples:
            found.setdefault(key, {})[column] = Taken(tuple(samples))
