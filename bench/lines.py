"""The lines of the table: what each workload says, in which unit, beside which limit, and what is asked of it.

Whoever measures, we or a peer, gives figures by key in plain units: seconds, per second, bytes, a share of one. Here they get their
words and their scale. `must` and `goal` are the design's; a floor is where a run fails, so far below what is usual that only a mistake
reaches it, not a busy machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.figures import LIMIT, Line, Taken, Target
from bench.terms import Sizes

HOLDFAST: Final = "Holdfast"
Cells = Mapping[str, Mapping[str, Taken]]
"""By key, then by who was measured."""

MS: Final = 1e3
KB: Final = 1 / 1024
PERCENT: Final = 100.0
PROMISED_WAITING: Final = 10_000
"""So many executions the targets of W5 speak of."""


class Spec(NamedTuple):
    """A line before it is measured."""

    workload: str
    what: str
    unit: str
    scale: float = 1.0
    more: bool = False
    best: bool = False
    limit: str = ""
    targets: tuple[Target, ...] = ()
    floor: float | None = None


def specs(sizes: Sizes) -> dict[str, Spec]:
    """Every line there is, in the order of the table."""
    durable = {**_running(sizes), **_branching(sizes), **_restarting(sizes), **_waiting(sizes), **_alone()}
    return {**durable, **_over_http(sizes), **_at_work(), **_resting()}


def _running(sizes: Sizes) -> dict[str, Spec]:
    in_sequence = f"step of {sizes.w1_steps:,} in sequence"
    together = f"{sizes.w2_executions:,} executions of {sizes.w2_steps} steps"
    fast = (
        Target(must=12_000, goal=20_000),
        Target(of=LIMIT, must=0.35, goal=0.6),
        Target(of="DBOS", must=50),
        Target(of="Restate", goal=8),
    )
    there = (Target(of="DBOS", must=20), Target(goal=10_000))
    return {
        "W1": Spec("W1", in_sequence, "ms", MS, limit="bare commit", targets=_of_limit(2.0, 1.3), floor=4),
        "W1 def": Spec("W1", "… `def`", "ms", MS, limit="bare commit", targets=_of_limit(2.5, 1.8), floor=5),
        "W1 Postgres": Spec("W1", "… on Postgres", "ms", MS, limit="commit of Postgres", targets=_of_limit(1.8, 1.3), floor=6),
        "W2": Spec("W2", together, "steps/s", more=True, best=True, limit="sketch", targets=fast, floor=0.12),
        "W2 two": Spec("W2", "… in two processes", "steps/s", more=True, best=True, limit="sketch", floor=0.1),
        "W2 def": Spec("W2", "… `def`", "steps/s", more=True, best=True, limit="sketch", targets=_itself(4_000, 8_000), floor=0.04),
        "W2 computing": Spec("W2", "… beside a CPU-bound `def` step", "% of W2", PERCENT, more=True, targets=_itself(30, 60), floor=15),
        # Its limit is bare commits, so its ratio says how many steps share one.
        "W2 Postgres": Spec("W2", "… on Postgres", "steps/s", more=True, best=True, limit="commits of Postgres", targets=there, floor=0.5),
    }


def _branching(sizes: Sizes) -> dict[str, Spec]:
    parallel, mapped = f"parallel of {sizes.w3_branches:,}", f"map of {sizes.w3_items:,}"
    return {
        "W3 parallel": Spec("W3", parallel, "s", best=True, limit="sketch", targets=_itself(0.25, 0.1), floor=15),
        "W3 parallel def": Spec("W3", "… `def`", "s", best=True, limit="sketch", floor=40),
        "W3 map": Spec("W3", mapped, "s", best=True, limit="sketch", targets=_itself(2.5, 1.0), floor=15),
        "W3 map def": Spec("W3", "… `def`", "s", best=True, limit="sketch", floor=40),
    }


def _restarting(sizes: Sizes) -> dict[str, Spec]:
    once, many = f"killed after {sizes.w4_steps:,} steps", f"killed after {sizes.w4_many_steps:,} steps"
    return {
        "W4": Spec("W4", once, "ms", MS, best=True, limit="bare recall", targets=_itself(30, 10), floor=30),
        "W4 def": Spec("W4", "… `def`", "ms", MS, best=True, limit="bare recall", floor=30),
        "W4 many": Spec("W4", many, "ms", MS, best=True, limit="bare recall", targets=_itself(300, 100), floor=30),
    }


def _waiting(sizes: Sizes) -> dict[str, Spec]:
    many = f"{sizes.w5_executions:,}"
    # Twice as many timers take twice as long, and no target was set for them; a rate and a size are the same for any number.
    due = _itself(3, 1) if sizes.w5_executions <= PROMISED_WAITING else ()
    rate = Spec("W5", f"{many} started, until they wait", "/s", more=True, best=True, limit="sketch", floor=0.1)
    small = Spec("W5", "memory of one that waits", "KB", KB, targets=_itself(6, 4), floor=14)
    return {
        "W5 wait": rate._replace(targets=_itself(5_000, 10_000)),
        "W5 callback": rate._replace(what=f"{many} started, until they ask", targets=_itself(5_000, 10_000)),
        "W5 wait def": rate._replace(what=f"{sizes.w5_blocking:,} `def`, until they wait", floor=0.02),
        "W5 parked": small,
        "W5 parked callback": small._replace(what="memory of one that asks"),
        # The target is nothing at all; memory is measured in whole arenas, which makes half a KB of noise on 10,000.
        "W5 evicted": small._replace(what="memory of one that was evicted", targets=_itself(0.5, 0.5), floor=2),
        "W5 idle": Spec("W5", f"CPU while {many} wait", "%", PERCENT, targets=_itself(1, None), floor=3),
        "W5 due": Spec("W5", f"{many} timers due at once", "s", best=True, limit="sketch", targets=due, floor=8),
    }


def _alone() -> dict[str, Spec]:
    return {
        "W6": Spec("W6", "start to result, median", "ms", MS, limit="bare commit", targets=_of_limit(6, 4), floor=15),
        "W6 p99": Spec("W6", "start to result, 99th percentile", "ms", MS, limit="bare commit", targets=_of_limit(20, 10), floor=60),
        "W6 def": Spec("W6", "start to result, median, `def`", "ms", MS, limit="bare commit", floor=25),
    }


def _over_http(sizes: Sizes) -> dict[str, Spec]:
    handlers = f"official SDK, {sizes.http_executions} executions of {sizes.http_steps} steps"
    written = f"checkpoints on {sizes.http_connections} connections"
    invoked = Spec("HTTP", "Invoke of a warm plain function, median", "ms", MS, targets=_itself(5, None), floor=15)
    return {
        "HTTP steps": Spec("HTTP", handlers, "steps/s", more=True, best=True, targets=(Target(of="AWS SDK", must=5),), floor=60),
        "HTTP checkpoints": Spec("HTTP", written, "/s", more=True, best=True, limit="sketch", targets=(Target(must=3_000),), floor=0.02),
        "HTTP client": Spec("HTTP", "… CPU of their client", "%", PERCENT, floor=90),
        "HTTP invoke": invoked,
        "HTTP invoke boto3": invoked._replace(what="… with boto3"),
        "HTTP invoke durable": invoked._replace(what="… of one step of the official SDK, with boto3", targets=(), floor=1_000),
    }


def _at_work() -> dict[str, Spec]:
    run = "warm run in the sandbox, over one without, median"
    return {
        "workers attempt": Spec("workers", run, "ms", MS, best=True, targets=_itself(8, 4), floor=40),
        "workers runs": Spec("workers", "inline, many at once", "runs/s", more=True, best=True, targets=(Target(must=3_000),), floor=300),
        "workers check": Spec("workers", "10 KB against its schema", "µs", 1e6, best=True, targets=_itself(50, None), floor=200),
    }


def _resting() -> dict[str, Spec]:
    return {
        "wake": Spec("rest", "answer in another process to end", "ms", MS, targets=_itself(100, None), floor=200),
        "idle": Spec("rest", "CPU while one waits", "%", PERCENT, targets=_itself(1, None), floor=3),
    }


def _itself(must: float, goal: float | None) -> tuple[Target]:
    return (Target(must=must, goal=goal),)


def _of_limit(must: float, goal: float) -> tuple[Target]:
    return (Target(of=LIMIT, must=must, goal=goal),)


def lines(sizes: Sizes, cells: Cells) -> tuple[Line, ...]:
    """What was measured, with its words. A peer that measures something we have no line for is wrong, and is told so."""
    known = specs(sizes)
    unknown = {key for key, cell in cells.items() if key not in known or HOLDFAST not in cell}
    if unknown:
        raise KeyError(f"no line for {sorted(unknown)}")
    return tuple(_line(spec, cells[key]) for key, spec in known.items() if key in cells)


def _line(spec: Spec, cells: Mapping[str, Taken]) -> Line:
    scaled = {who: taken.scaled(spec.scale) for who, taken in cells.items()}
    words = {name: value for name, value in spec._asdict().items() if name != "scale"}
    return Line(ours=scaled.pop(HOLDFAST), peers=scaled, **words)
