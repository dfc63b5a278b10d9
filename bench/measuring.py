"""Every workload, taken in several rounds, each time with the limit right after it: a ratio is the median of pairs measured side by side.

Times move by a factor of two from day to day and from second to second, so no figure stands alone, and a busy neighbour hits both sides
of a pair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import hostile, http, limit, postgres, restart, together, waiting, workers, workloads
from bench.figures import Line, Taken
from bench.lines import HOLDFAST, lines
from bench.peers.running import Contestant, Failed, Figures, Missing
from bench.terms import Sizes

Ours = dict[str, Taken]
Rounds = dict[str, list[tuple[float, float]]]
"""By key, what we took and what the limit took beside it."""


def run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


def rounds(count: int, measures: Mapping[str, Callable[[], float]], at_best: Callable[[], float]) -> Ours:
    """All of these in turn, each with the limit after it, so many times."""
    taken: Rounds = {key: [] for key in measures}
    for _ in range(count):
        for key, measure in measures.items():
            taken[key].append((measure(), at_best()))
    return {key: Taken(tuple(ours for ours, _ in pairs), tuple(best for _, best in pairs)) for key, pairs in taken.items()}


def w1(folder: Path, sizes: Sizes) -> Ours:
    bare = partial(limit.bare_commit, folder, commits=sizes.w1_steps, runs=1)
    return rounds(
        sizes.many,
        {
            "W1": lambda: run(workloads.w1(folder, "in_sequence", sizes)),
            "W1 def": lambda: run(workloads.w1(folder, "in_sequence_blocking", sizes)),
        },
        bare,
    )


def w2(folder: Path, sizes: Sizes) -> Ours:
    """Two processes, and a thread that computes, are compared with what the same round came to in one process without it."""
    found = rounds(
        sizes.pairs,
        {
            "W2": lambda: run(workloads.w2(folder, "in_sequence", sizes)),
            "W2 two": lambda: together.w2(folder, sizes),
            "W2 def": lambda: run(workloads.w2(folder, "in_sequence_blocking", sizes)),
            "W2 computing": lambda: run(workloads.w2(folder, "in_sequence", sizes, computing=True)),
        },
        partial(limit.sketch, folder, tasks=sizes.w2_executions, steps=sizes.w2_steps, runs=1),
    )
    one = found["W2"].samples
    return found | {key: Taken(found[key].samples, one) for key in ("W2 two", "W2 computing")}


def w3(folder: Path, sizes: Sizes) -> Ours:
    """The sketch does the same number of steps, all at once."""

    def ours(function: str, *, mapped: bool) -> Callable[[], float]:
        return lambda: run(workloads.w3(folder, function, sizes, mapped=mapped))

    def sketched(steps: int) -> float:
        return steps / limit.sketch(folder, tasks=steps, steps=1, runs=1)

    parallel = {
        "W3 parallel": ours("side_by_side", mapped=False),
        "W3 parallel def": ours("side_by_side_blocking", mapped=False),
    }
    mapped = {"W3 map": ours("side_by_side", mapped=True)}
    mapped_def = {"W3 map def": ours("side_by_side_blocking", mapped=True)}
    return {
        **rounds(sizes.pairs, parallel, partial(sketched, sizes.w3_branches)),
        **rounds(sizes.few, mapped, partial(sketched, sizes.w3_items)),
        **rounds(1, mapped_def, partial(sketched, sizes.w3_items)),
    }


def w4(folder: Path, sizes: Sizes) -> Ours:
    """One restart for all: to make the histories takes longest. So the limit is taken after it, not in between."""
    of = {
        "W4": ("asks_late", sizes.w4_steps),
        "W4 def": ("asks_late_blocking", sizes.w4_steps),
        "W4 many": ("asks_late", sizes.w4_many_steps),
    }
    taken = restart.w4(folder, list(of.values()), sizes.few)
    return {
        key: Taken(taken[function, steps], tuple(limit.recall(folder, steps=steps, runs=1) for _ in range(sizes.few)))
        for key, (function, steps) in of.items()
    }


def w5(folder: Path, sizes: Sizes) -> Ours:
    """At best an execution that waits costs two writes before it waits, start and suspension, and two after it, wake-up and end."""

    def starting(count: int) -> float:
        return limit.sketch(folder, tasks=count, steps=2, runs=1) / 2

    scenes: dict[str, list[waiting.Measured]] = {name: [] for name in waiting.SCENES}
    rates: dict[str, list[float]] = {name: [] for name in waiting.SCENES}
    for name, times in (("wait", 2), ("callback", 2), ("evicted", 1), ("blocking", 1)):
        for _ in range(min(times, sizes.few)):
            scenes[name].append(waiting.w5(folder, name, sizes))
            rates[name].append(starting(sizes.w5_blocking if name == "blocking" else sizes.w5_executions))

    def taken(name: str, what: Callable[[waiting.Measured], float | None], at_best: Sequence[float] = ()) -> Taken:
        return Taken(tuple(value for played in scenes[name] if (value := what(played)) is not None), tuple(at_best))

    return {
        "W5 wait": taken("wait", lambda m: m.started_per_second, rates["wait"]),
        "W5 callback": taken("callback", lambda m: m.started_per_second, rates["callback"]),
        "W5 wait def": taken("blocking", lambda m: m.started_per_second, rates["blocking"]),
        "W5 parked": taken("wait", lambda m: m.bytes_each),
        "W5 parked callback": taken("callback", lambda m: m.bytes_each),
        "W5 evicted": taken("evicted", lambda m: m.bytes_each),
        "W5 idle": taken("wait", lambda m: m.idle),
        "W5 due": taken("wait", lambda m: m.due_seconds, [sizes.w5_executions / rate for rate in rates["wait"]]),
    }


def w6(folder: Path, sizes: Sizes) -> Ours:
    found: Rounds = {"W6": [], "W6 p99": [], "W6 def": []}
    for _ in range(sizes.pairs):
        for key, function in (("W6", "in_sequence"), ("W6 def", "in_sequence_blocking")):
            median, slow = asyncio.run(workloads.w6(folder, function, sizes))
            bare = limit.bare_commit(folder, commits=sizes.w6_rounds, runs=1)
            found[key].append((median, bare))
            if key == "W6":
                found["W6 p99"].append((slow, bare))
    return {key: Taken(tuple(ours for ours, _ in pairs), tuple(bare for _, bare in pairs)) for key, pairs in found.items()}


def over_http(folder: Path, sizes: Sizes) -> Ours:
    """The limit of checkpoints is the sketch with as many writers as there are connections. A handler of the official SDK has none here:
    it is the SDK that takes the time."""

    def sketched() -> float:
        return limit.sketch(folder, tasks=sizes.http_connections, steps=sizes.http_checkpoints // sizes.http_connections, runs=1)

    written = [(one, sketched()) for one in http.checkpoints(folder, sizes)]
    invoked = http.invocations(folder, sizes)
    return {
        "HTTP checkpoints": Taken(tuple(one.per_second for one, _ in written), tuple(best for _, best in written)),
        "HTTP client": Taken(tuple(one.client for one, _ in written)),
        **{key: Taken((seconds,)) for key, seconds in invoked.items()},
        "HTTP steps": Taken(tuple(http.steps(folder, sizes))),  # last, for those it is compared with are next
    }


def at_work(folder: Path, sizes: Sizes) -> Ours:
    """Workers, from request to response. A run without a sandbox is an execution and more, so W2's executions are beside it."""

    def executions() -> float:
        return run(workloads.w2(folder, "in_sequence", sizes)) / sizes.w2_steps

    return {
        "workers attempt": Taken(tuple(workers.run(workers.attempt(folder, sizes)) for _ in range(sizes.few))),
        **rounds(sizes.few, {"workers runs": lambda: workers.run(workers.runs(folder, sizes))}, executions),
        "workers check": Taken(tuple(workers.check(sizes) for _ in range(sizes.few))),
    }


def rest(folder: Path, sizes: Sizes) -> Ours:
    """What happens while nothing happens."""
    return {
        "wake": Taken((run(workloads.wakes(folder, sizes)),)),
        "idle": Taken((run(workloads.idle(folder, sizes)),)),
    }


def on_postgres(where: str, sizes: Sizes) -> Ours:
    """W1 and W2 over there. Each round has a schema of its own."""
    schemas = (postgres.fresh(where, number) for number in range(1_000))
    bare = partial(postgres.bare_commit, where, commits=sizes.w1_steps)
    steps = rounds(sizes.pairs, {"W1 Postgres": lambda: run(workloads.w1(next(schemas), "in_sequence", sizes))}, bare)
    together = rounds(sizes.few, {"W2 Postgres": lambda: run(workloads.w2(next(schemas), "in_sequence", sizes))}, lambda: 1 / bare())
    return steps | together


MEASURES: Final[dict[str, Callable[[Path, Sizes], Ours]]] = {
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "HTTP": over_http,
    "workers": at_work,
    "rest": rest,
    "hostile": hostile.taken,
}
ON_POSTGRES: Final = "Postgres"
WORKLOADS: Final = (*MEASURES, ON_POSTGRES)


class Run:
    """The figures of everybody as they come in. A peer measures a workload right after we did, on the same disk."""

    def __init__(self, sizes: Sizes, peers: Sequence[Contestant], theirs: Sizes, say: Callable[[str], None]) -> None:
        self._sizes = sizes
        self._here = list(peers)
        self._theirs = theirs
        self._say = say
        self.found: dict[str, dict[str, Taken]] = {}
        self.troubles: list[str] = []

    def measure(self, workload: str, folder: Path) -> None:
        self._say(f"{workload}: {HOLDFAST}")
        if workload != ON_POSTGRES:
            self._ours(MEASURES[workload](folder, self._sizes))
            self._ask(workload, str(folder.resolve()))
            return
        try:
            with postgres.server(folder) as where:
                self._ours(on_postgres(where, self._sizes))
                self._ask(workload, where)
        except postgres.Unavailable as trouble:
            self._trouble(trouble)

    def _ours(self, figures: Ours) -> None:
        self.found |= {key: {HOLDFAST: taken} for key, taken in figures.items()}

    def _ask(self, workload: str, where: str) -> None:
        for peer in [peer for peer in self._here if workload in peer.workloads]:
            self._say(f"{workload}: {peer.name}")
            try:
                self._add(peer.name, self._asked(peer, workload, where))
            except (Missing, Failed) as trouble:
                self._trouble(trouble)
                if isinstance(trouble, Missing):
                    self._here.remove(peer)

    def _asked(self, peer: Contestant, workload: str, where: str) -> Figures:
        """Its figures. Some have timeouts of their own that a busy machine exceeds, so everybody may try twice."""
        try:
            return peer.figures(workload, where, self._theirs)
        except Failed as trouble:
            self._say(f"{trouble} Once more.")
            return peer.figures(workload, where, self._theirs)

    def _trouble(self, trouble: Exception) -> None:
        self._say(str(trouble))
        self.troubles.append(str(trouble))

    def _add(self, peer: str, figures: Figures) -> None:
        for key, samples in figures.items():
            if samples:
                self.found.setdefault(key, {})[peer] = Taken(tuple(samples))

    @property
    def notes(self) -> tuple[str, ...]:
        """How the peers were set up and how much they did, and who had trouble."""
        less = [less_of(self._sizes, self._theirs)] if self._here and self._theirs != self._sizes else []
        return (*(peer.note for peer in self._here), *less, *self.troubles)


def less_of(ours: Sizes, theirs: Sizes) -> str:
    """What peers did less of, for the reader of the table."""
    return (
        f"Peers did less of what takes them minutes: W2 with {theirs.w2_executions:,} executions, W5 with {theirs.w5_executions:,}"
        f" (its timers, W3's map and W4's {ours.w4_many_steps:,} steps not at all), fewer rounds."
        " PEERS=all gives them the whole."
    )


def measured(
    folder: Path,
    sizes: Sizes,
    *,
    only: Sequence[str] = (),
    peers: Sequence[Contestant] = (),
    theirs: Sizes | None = None,
    say: Callable[[str], None] = print,
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """The lines, and what there is to say about the peers; `theirs` is how much peers do, if not the same."""
    bench = Run(sizes, peers, theirs or sizes, say)
    for workload in only or WORKLOADS:
        bench.measure(workload, folder)
    return lines(sizes, bench.found), bench.notes
