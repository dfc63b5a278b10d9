"""Measures every workload in several rounds, each followed by its limit. A ratio is the median of such pairs.

Times change by a factor of two from day to day and from second to second, so every figure has a limit beside it. A busy neighbour affects
both sides of a pair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import (
    chains,
    console,
    hostile,
    http,
    http_routing,
    limit,
    pipelines,
    postgres,
    queues,
    restart,
    two_processes,
    waiting,
    workers,
    workloads,
)
from bench.figures import Line, Taken
from bench.lines import HOLDFAST, lines
from bench.peers.peer_runs import Contestant, Failed, Figures, Missing
from bench.terms import Sizes

Ours = dict[str, Taken]
Rounds = dict[str, list[tuple[float, float]]]
"""By key: pairs of our figure and the limit's figure."""


def run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


def rounds(count: int, measures: Mapping[str, Callable[[], float]], at_best: Callable[[], float]) -> Ours:
    """Measure all of these in turn, `count` times, each followed by the limit."""
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
    """Two processes, and a computing thread, are compared with the figure of one process without such a thread in the same round."""
    found = rounds(
        sizes.pairs,
        {
            "W2": lambda: run(workloads.w2(folder, "in_sequence", sizes)),
            "W2 two": lambda: two_processes.w2(folder, sizes),
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
    """One restart for all executions, because making their histories takes longest. So the limit is measured after it, not in between."""
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
        "W5 resting": taken("wait", lambda m: m.bytes_each),
        "W5 resting callback": taken("callback", lambda m: m.bytes_each),
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


def chained(folder: Path, sizes: Sizes) -> Ours:
    """Functions that one execution invokes. The limit is the same runs by hand, in the same engine."""
    (ours, hand), (node, run) = asyncio.run(chains.commits(folder, sizes)), asyncio.run(pipelines.commits(folder, sizes))
    return {**_pairs(sizes, lambda: folder, ""), "chain commits": Taken((ours,), (hand,)), "pipeline commits": Taken((node,), (run,))}


def _pairs(sizes: Sizes, where: Callable[[], chains.Where], on: str) -> Ours:
    measures = {"chain": chains.chain_pair, "chain map": chains.map_pair}
    measures |= {"pipeline": pipelines.chain_pair, "pipeline map": pipelines.map_pair}
    pairs = {f"{key}{on}": [asyncio.run(measure(where(), sizes)) for _ in range(sizes.pairs)] for key, measure in measures.items()}
    return {key: Taken(tuple(ours for ours, _ in found), tuple(hand for _, hand in found)) for key, found in pairs.items()}


def queued(folder: Path, sizes: Sizes) -> Ours:
    """Queues. The limit is the same work without a queue, or without a backlog behind another queue."""
    return _queued(sizes, lambda: folder, "", queues.fill_file)


def _queued(sizes: Sizes, where: Callable[[], chains.Where], on: str, fill: Callable[[str, int], None]) -> Ours:
    measures = {"queue bulk": queues.bulk_pair, "queue lone": queues.lone_pair, "queue drain": queues.drain_pair}
    pairs = asyncio.run(queues.backlog_pairs(where, sizes, fill))
    more = {key: max(behind - without, 0.0) for key in ("idle", "memory") for behind, without in pairs.pop(key)}
    found = {f"queue behind {key}{on}": taken for key, taken in pairs.items()}
    found |= {f"{key}{on}": [asyncio.run(measure(where(), sizes)) for _ in range(sizes.few)] for key, measure in measures.items()}
    found[f"queue fair{on}"] = asyncio.run(queues.fair_pairs(where(), sizes))
    return {
        **{key: Taken(tuple(ours for ours, _ in taken), tuple(best for _, best in taken)) for key, taken in found.items()},
        **{f"queue behind {key}{on}": Taken((value,)) for key, value in more.items()},
    }


def over_http(folder: Path, sizes: Sizes) -> Ours:
    """The limit of checkpoints is the sketch with one writer per connection. The limit of routing is Starlette's. Handlers of the official
    SDK have no limit here, because the SDK itself takes most of the time."""

    def sketched() -> float:
        return limit.sketch(folder, tasks=sizes.http_connections, steps=sizes.http_checkpoints // sizes.http_connections, runs=1)

    written = [(one, sketched()) for one in http.checkpoints(folder, sizes)]
    invoked = http.invocations(folder, sizes)
    return {
        "HTTP checkpoints": Taken(tuple(one.per_second for one, _ in written), tuple(best for _, best in written)),
        "HTTP client": Taken(tuple(one.client for one, _ in written)),
        **{key: Taken((seconds,)) for key, seconds in invoked.items()},
        **http_routing.routed(sizes),
        "HTTP steps": Taken(tuple(http.steps(folder, sizes))),  # last, because the peers of this line are measured next
    }


def looked_at(folder: Path, sizes: Sizes) -> Ours:
    """The console: looks among many executions; and W2 beside open pages, whose limit is W2 without any."""
    taken = _looks(sizes, lambda: folder, "", console.fill_file)
    beside = [tuple(run(console.watched(folder, sizes, streams)) for streams in (console.STREAMS, 0)) for _ in range(sizes.pairs)]
    return {**taken, "console watched": Taken(tuple(ours for ours, _ in beside), tuple(alone for _, alone in beside))}


def _looks(sizes: Sizes, where: Callable[[], chains.Where], on: str, fill: Callable[[str, int], None]) -> Ours:
    return {f"console {key}{on}": Taken(tuple(times)) for key, times in console.looks(where, sizes, fill).items()}


def at_work(folder: Path, sizes: Sizes) -> Ours:
    """Workers, from request to response. A run without a sandbox is an execution and more, so its limit is W2's executions."""

    def executions() -> float:
        return run(workloads.w2(folder, "in_sequence", sizes)) / sizes.w2_steps

    return {
        "workers attempt": Taken(tuple(workers.run(workers.attempt(folder, sizes)) for _ in range(sizes.few))),
        **rounds(sizes.few, {"workers runs": lambda: workers.run(workers.runs(folder, sizes))}, executions),
        "workers check": Taken(tuple(workers.check(sizes) for _ in range(sizes.few))),
    }


def rest(folder: Path, sizes: Sizes) -> Ours:
    """The figures of an idle engine."""
    return {
        "wake": Taken((run(workloads.wakes(folder, sizes)),)),
        "idle": Taken((run(workloads.idle(folder, sizes)),)),
    }


def on_postgres(where: str, sizes: Sizes) -> Ours:
    """W1, W2, chains and queues on Postgres. Each round has a schema of its own."""
    schemas = (postgres.fresh(where, number) for number in range(1_000))
    bare = partial(postgres.bare_commit, where, commits=sizes.w1_steps)
    steps = rounds(sizes.pairs, {"W1 Postgres": lambda: run(workloads.w1(next(schemas), "in_sequence", sizes))}, bare)
    together = rounds(sizes.few, {"W2 Postgres": lambda: run(workloads.w2(next(schemas), "in_sequence", sizes))}, lambda: 1 / bare())
    chained, queued = (
        _pairs(sizes, lambda: next(schemas), " Postgres"),
        _queued(sizes, lambda: next(schemas), " Postgres", queues.fill_schema),
    )
    return steps | together | chained | queued | _looks(sizes, lambda: next(schemas), " Postgres", queues.fill_with(console.copies))


MEASURES: Final[dict[str, Callable[[Path, Sizes], Ours]]] = {
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "chains": chained,
    "queues": queued,
    "HTTP": over_http,
    "console": looked_at,
    "workers": at_work,
    "rest": rest,
    "hostile": hostile.taken,
}
ON_POSTGRES: Final = "Postgres"
WORKLOADS: Final = (*MEASURES, ON_POSTGRES)


class Run:
    """Collects the figures of Holdfast and its peers. A peer measures a workload right after Holdfast, on the same disk."""

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
        """The figures of a peer. Some peers have timeouts that a busy machine exceeds, so each peer may try twice."""
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
        """How the peers were set up, how much they did, and which failed."""
        less = [less_of(self._sizes, self._theirs)] if self._here and self._theirs != self._sizes else []
        return (*(peer.note for peer in self._here), *less, *self.troubles)


def less_of(ours: Sizes, theirs: Sizes) -> str:
    """A note for the reader: the workloads that peers did with less work."""
    return (
        f"Peers did less of what takes them minutes: W2 with {theirs.w2_executions:,} executions, W5 with {theirs.w5_executions:,}"
        f" (its timers, W3's map and W4's {ours.w4_many_steps:,} steps not at all), queues with {theirs.queue_jobs:,}, fewer rounds."
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
    """The lines, and the notes about the peers. `theirs` are the sizes for peers, if they differ."""
    bench = Run(sizes, peers, theirs or sizes, say)
    for workload in only or WORKLOADS:
        bench.measure(workload, folder)
    return lines(sizes, bench.found), bench.notes
