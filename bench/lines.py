"""The lines of the table: the text, unit, limit and targets of each figure.

Our programs and those of peers give figures by key in plain units: seconds, per second, bytes, a share of one. This module adds their
text and scale. `must` and `goal` come from the design and are ratios: the time of a commit differed by 1.6 between two machines, while
its ratios were equal. Only memory, and the cost of a sandbox per run, have absolute targets. A floor is the value at which a run fails:
so far below the usual value that only a bug reaches it, not a busy machine.

To add a group of rows: write a function here that returns its specs, call it in `specs`, and add a function to measuring.MEASURES.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.figures import LIMIT, Line, Taken, Target
from bench.terms import Sizes

HOLDFAST: Final = "Holdfast"
Cells = Mapping[str, Mapping[str, Taken]]
"""The figures by key, then by system."""

MS: Final = 1e3
KB: Final = 1 / 1024
MB: Final = 1 / 1024**2
PERCENT: Final = 100.0
PROMISED_WAITING: Final = 10_000
"""The number of executions for which the targets of W5 hold."""


class Spec(NamedTuple):
    """A line before it is measured."""

    workload: str
    what: str
    unit: str
    scale: float = 1.0
    more: bool = False
    best: bool = False
    limit: str = ""
    raw: bool = True
    targets: tuple[Target, ...] = ()
    floor: float | None = None
    beside: str = ""
    """The line whose peers this one is compared with, if peers measure only that line."""


def specs(sizes: Sizes) -> dict[str, Spec]:
    """Every line there is, in the order of the table."""
    durable = {**_running(sizes), **_branching(sizes), **_restarting(sizes), **_waiting(sizes), **_alone()}
    return {
        **durable,
        **_chained(sizes),
        **_queued(sizes),
        **_over_http(sizes),
        **_looked_at(sizes),
        **_at_work(),
        **_resting(),
        **_beside_hostile_ones(),
    }


def _running(sizes: Sizes) -> dict[str, Spec]:
    in_sequence = f"step of {sizes.w1_steps:,} in sequence"
    together = f"{sizes.w2_executions:,} executions of {sizes.w2_steps} steps"
    rate = Spec("W2", together, "steps/s", more=True, best=True, limit="sketch")
    fast = (*_over(0.35, 0.6), Target(of="DBOS", must=50, goal=80), Target(of="Restate", must=5, goal=8))
    blocking = (*_over(0.15, 0.3), Target(of="Restate", must=3, goal=5))
    there = (Target(of="DBOS", must=20, goal=60),)
    return {
        "W1": Spec("W1", in_sequence, "ms", MS, limit="bare commit", targets=_over(2.0, 1.3), floor=4),
        "W1 def": Spec("W1", "… `def`", "ms", MS, limit="bare commit", targets=_over(2.5, 1.5), floor=5),
        "W1 Postgres": Spec("W1", "… on Postgres", "ms", MS, limit="commit of Postgres", targets=_over(1.8, 1.3), floor=6),
        "W2": rate._replace(targets=fast, floor=0.12),
        "W2 two": rate._replace(what="… in two processes", limit="one process", raw=False, targets=_over(1.4, 1.7), floor=0.5),
        "W2 def": rate._replace(what="… `def`", targets=blocking, floor=0.04, beside="W2"),
        "W2 computing": rate._replace(
            what="… beside a CPU-bound `def` step", limit="without it", raw=False, targets=_over(0.3, 0.6), floor=0.15
        ),
        # Its limit is bare commits, so its ratio says how many steps share one.
        "W2 Postgres": rate._replace(what="… on Postgres", limit="commits of Postgres", targets=there, floor=0.5),
    }


def _branching(sizes: Sizes) -> dict[str, Spec]:
    parallel, mapped = f"parallel of {sizes.w3_branches:,}", f"map of {sizes.w3_items:,}"
    return {
        "W3 parallel": Spec("W3", parallel, "s", best=True, limit="sketch", targets=_over(6, 3), floor=15),
        "W3 parallel def": Spec("W3", "… `def`", "s", best=True, limit="sketch", floor=40),
        "W3 map": Spec("W3", mapped, "s", best=True, limit="sketch", targets=_over(6, 3), floor=15),
        "W3 map def": Spec("W3", "… `def`", "s", best=True, limit="sketch", floor=40),
    }


def _restarting(sizes: Sizes) -> dict[str, Spec]:
    once, many = f"killed after {sizes.w4_steps:,} steps", f"killed after {sizes.w4_many_steps:,} steps"
    return {
        "W4": Spec("W4", once, "ms", MS, best=True, limit="bare recall", targets=_over(12, 5), floor=30),
        "W4 def": Spec("W4", "… `def`", "ms", MS, best=True, limit="bare recall", floor=30),
        "W4 many": Spec("W4", many, "ms", MS, best=True, limit="bare recall", targets=_over(12, 5), floor=30),
    }


def _waiting(sizes: Sizes) -> dict[str, Spec]:
    many = f"{sizes.w5_executions:,}"
    # The design has no target for more timers; a rate and a size are the same for any number.
    due = _over(4, 2) if sizes.w5_executions <= PROMISED_WAITING else ()
    rate = Spec("W5", f"{many} started, until they wait", "/s", more=True, best=True, limit="sketch", targets=_over(0.3, 0.6), floor=0.1)
    small = Spec("W5", "memory of one that waits", "KB", KB, targets=_itself(6, 4), floor=14)
    return {
        "W5 wait": rate,
        "W5 callback": rate._replace(what=f"{many} started, until they ask"),
        "W5 wait def": rate._replace(what=f"{sizes.w5_blocking:,} `def`, until they wait", targets=(), floor=0.02),
        "W5 resting": small,
        "W5 resting callback": small._replace(what="memory of one that asks"),
        # The target is nothing at all; memory is measured in whole arenas, which makes half a KB of noise on 10,000.
        "W5 evicted": small._replace(what="memory of one that was evicted", targets=_itself(0.5, 0.5), floor=2),
        "W5 idle": Spec("W5", f"CPU while {many} wait", "%", PERCENT, floor=3),
        "W5 due": Spec("W5", f"{many} timers due at once", "s", best=True, limit="sketch", targets=due, floor=8),
    }


def _alone() -> dict[str, Spec]:
    return {
        "W6": Spec("W6", "start to result, median", "ms", MS, limit="bare commit", targets=_over(6, 3), floor=15),
        "W6 p99": Spec("W6", "start to result, 99th percentile", "ms", MS, limit="bare commit", targets=_over(20, 10), floor=60),
        "W6 def": Spec("W6", "start to result, median, `def`", "ms", MS, limit="bare commit", floor=25),
    }


def _chained(sizes: Sizes) -> dict[str, Spec]:
    """Each is measured beside the same runs that a caller starts by hand, on the same store; 50 items of a map are under way at once."""
    chain = Spec("chains", f"chain of {sizes.chain_nodes} invokes", "ms", MS, limit="by hand", raw=False, targets=_over(2, 1.4), floor=5)
    mapped = f"map of {sizes.chain_items:,} invokes"
    rate = Spec("chains", mapped, "items/s", more=True, best=True, limit="by hand", raw=False, targets=_over(0.5, 0.7), floor=0.2)
    return {
        "chain": chain,
        "chain Postgres": chain._replace(what="… on Postgres"),
        "chain map": rate,
        "chain map Postgres": rate._replace(what="… on Postgres"),
        # A run by hand has two: its start and its end. Those of the parent itself are left out: they are the same for any chain.
        "chain commits": Spec(
            "chains", "commits per node of a chain", "commits", limit="by hand", raw=False, targets=_over(1, 0.9), floor=2
        ),
        **_piped(sizes, chain, rate),
    }


def _piped(sizes: Sizes, chain: Spec, rate: Spec) -> dict[str, Spec]:
    """The same with workers without a sandbox, as a pipeline."""
    nodes, items = f"pipeline of {sizes.chain_nodes} workers", f"pipeline, map of {sizes.chain_items:,}"
    commits = Spec("chains", "commits per node, pipeline", "commits", limit="by hand", raw=False, targets=_over(1, 0.9), floor=2)
    return {
        "pipeline": chain._replace(what=nodes),
        "pipeline Postgres": chain._replace(what="… on Postgres"),
        "pipeline map": rate._replace(what=items),
        "pipeline map Postgres": rate._replace(what="… on Postgres"),
        "pipeline commits": commits,
    }


def _queued(sizes: Sizes) -> dict[str, Spec]:
    """Each is measured beside the same work without a queue; what a backlog costs, beside a store without one."""
    jobs, bulk, backlog = f"{sizes.queue_jobs:,} runs drained", f"{sizes.queue_bulk:,} enqueued at once", f"{sizes.queue_backlog:,}"
    rate = Spec("queues", jobs, "runs/s", more=True, best=True, limit="by hand", raw=False)
    fast = (*_over(0.8, 1.0), Target(of="DBOS", must=10, goal=20))
    lone = Spec("queues", "lone job, until it begins", "ms", MS, limit="plain start", raw=False, targets=_over(2, 1.2), floor=5)
    behind = Spec("queues", f"start behind {backlog}", "ms", MS, limit="none queued", raw=False, targets=_over(1.2, 1.05), floor=3)
    found = {
        "queue drain": rate._replace(targets=fast, floor=0.3),
        "queue bulk": rate._replace(what=bulk, unit="/s", limit="raw starts", targets=_over(0.6, 0.9), floor=0.2),
        "queue lone": lone,
        "queue behind start": behind,
        "queue behind queue": behind._replace(what=f"a queue behind {backlog}", targets=_over(1.2, 1.05)),
        "queue fair": Spec(
            "queues", f"ten jobs beside {sizes.queue_other_tenant:,}", "ms", MS, limit="alone", raw=False, targets=_over(2, 1.9), floor=5
        ),
        # Differences of two shares of a core, and of the memory of a process.
        "queue behind idle": Spec("queues", f"more CPU at rest behind {backlog}", "points", PERCENT, targets=_itself(0.5, 0.1), floor=3),
        "queue behind memory": Spec("queues", f"more memory behind {backlog}", "MB", MB, targets=_itself(32, 8), floor=200),
    }
    return {
        key: spec for name, row in found.items() for key, spec in ((name, row), (f"{name} Postgres", row._replace(what="… on Postgres")))
    }


def _looked_at(sizes: Sizes) -> dict[str, Spec]:
    among = f"among {sizes.console_executions:,}"
    look = Spec("console", f"the newest runs {among}", "ms", MS, floor=5_000)
    found = {
        "console list": look,
        "console failed": look._replace(what=f"what failed {among}"),
        "console nothing": look._replace(what=f"what is not there, {among}"),
        "console facets": look._replace(what=f"the counts beside them {among}"),
    }
    rows = {f"{name}{on}": row._replace(what="… on Postgres") if on else row for name, row in found.items() for on in ("", " Postgres")}
    beside = Spec("console", "W2 beside ten open pages", "steps/s", more=True, best=True, limit="no page", raw=False, floor=0.4)
    return {**rows, "console watched": beside._replace(targets=_over(0.95, 1))}


def _over_http(sizes: Sizes) -> dict[str, Spec]:
    handlers = f"official SDK, {sizes.http_executions} executions of {sizes.http_steps} steps"
    written = f"checkpoints on {sizes.http_connections} connections"
    invoked = Spec("HTTP", "Invoke of a warm plain function, median", "ms", MS, floor=15)
    routed = Spec("HTTP", "app alone, all routes, CPU", "µs", 1e6, best=True, limit="Starlette's routing", raw=False, floor=2)
    emulated = (Target(of="AWS SDK", must=5, goal=10),)
    return {
        "HTTP steps": Spec("HTTP", handlers, "steps/s", more=True, best=True, targets=emulated, floor=60),
        "HTTP checkpoints": Spec("HTTP", written, "/s", more=True, best=True, limit="sketch", targets=_over(0.25, 0.5), floor=0.02),
        "HTTP client": Spec("HTTP", "… CPU of their client", "%", PERCENT, floor=90),
        "HTTP invoke": invoked,
        "HTTP invoke boto3": invoked._replace(what="… with boto3"),
        "HTTP invoke durable": invoked._replace(what="… of one step of the official SDK, with boto3", floor=1_000),
        "HTTP routing": routed,
        "HTTP routing Lambda": routed._replace(what="… the Lambda API's routes"),
        "HTTP routing new": routed._replace(what="… all routes, always a new path"),
    }


def _at_work() -> dict[str, Spec]:
    run = "warm run in the sandbox, over one without, median"
    many = Spec("workers", "inline, many at once", "runs/s", more=True, best=True, limit="W2's executions", raw=False)
    return {
        "workers attempt": Spec("workers", run, "ms", MS, best=True, targets=_itself(8, 2), floor=40),
        "workers runs": many._replace(targets=_over(1.5, 2), floor=0.3),
        "workers check": Spec("workers", "10 KB against its schema", "µs", 1e6, best=True, floor=200),
    }


def _beside_hostile_ones() -> dict[str, Spec]:
    return {
        "hostile health": Spec("hostile", "/health p99 beside ten", "ms", MS, limit="at rest", raw=False, targets=_over(25, 10), floor=100),
        "hostile run": Spec("hostile", "another tenant's run", "ms", MS, limit="at rest", raw=False, targets=_over(2, 1.5), floor=20),
    }


def _resting() -> dict[str, Spec]:
    return {
        "wake": Spec("rest", "answer in another process to end", "ms", MS, floor=200),
        "idle": Spec("rest", "CPU while one waits", "%", PERCENT, floor=3),
    }


def _itself(must: float, goal: float) -> tuple[Target]:
    return (Target(must=must, goal=goal),)


def _over(must: float, goal: float) -> tuple[Target]:
    return (Target(of=LIMIT, must=must, goal=goal),)


def lines(sizes: Sizes, cells: Cells) -> tuple[Line, ...]:
    """The measured lines with their texts. A peer's figure without a line is an error."""
    known = specs(sizes)
    unknown = {key for key, cell in cells.items() if key not in known or HOLDFAST not in cell}
    if unknown:
        raise KeyError(f"no line for {sorted(unknown)}")
    return tuple(_line(spec, {**cells.get(spec.beside, {}), **cells[key]}) for key, spec in known.items() if key in cells)


def _line(spec: Spec, cells: Mapping[str, Taken]) -> Line:
    scaled = {who: taken.scaled(spec.scale) for who, taken in cells.items()}
    words = {name: value for name, value in spec._asdict().items() if name not in ("scale", "beside")}
    return Line(ours=scaled.pop(HOLDFAST), peers=scaled, **words)
