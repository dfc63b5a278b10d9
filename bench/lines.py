"""The lines of the table: what each workload says, in which unit, beside which limit, and what is promised of it.

Whoever measures, we or a peer, gives figures by key in plain units: seconds, per second, bytes, a share of one. Here they get their
words and their scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.figures import LIMIT, Floor, Line, Taken, limits
from bench.terms import Sizes

Cells = Mapping[str, Mapping[str, Taken]]
"""By key, then by column."""

MS: Final = 1e3
KB: Final = 1 / 1024
PERCENT: Final = 100.0
PROMISED_WAITING: Final = 10_000
"""So many executions the promises of W5 speak of."""


class Spec(NamedTuple):
    """A line before it is measured."""

    workload: str
    what: str
    unit: str
    scale: float = 1.0
    more: bool = False
    limit: str = ""
    floors: tuple[Floor, ...] = ()


def specs(sizes: Sizes) -> dict[str, Spec]:
    """Every line there is, in the order of the table."""
    return {**_running(sizes), **_waiting(sizes), **_alone(sizes)}


def _running(sizes: Sizes) -> dict[str, Spec]:
    together = f"{sizes.w2_executions:,} executions of {sizes.w2_steps} steps"
    return {
        "W1": Spec(
            "W1", f"step of {sizes.w1_steps:,} in sequence", "ms", MS, limit="bare commit", floors=(Floor(bound=2.5, of_limit=True),)
        ),
        "W2": Spec("W2", together, "steps/s", more=True, limit="sketch", floors=(Floor(bound=8_000), Floor(bound=0.25, of_limit=True))),
        "W2 computing": Spec("W2", "… beside a CPU-bound step", "% of W2", PERCENT, more=True),
        "W3 parallel": Spec("W3", f"parallel of {sizes.w3_branches:,}", "s", limit="sketch", floors=(Floor(bound=0.25),)),
        "W3 map": Spec("W3", f"map of {sizes.w3_items:,}", "s", limit="sketch", floors=(Floor(bound=2.5),)),
        "W4": Spec("W4", f"killed after {sizes.w4_steps:,} steps", "ms", MS, limit="bare recall", floors=(Floor(bound=30),)),
        "W4 many": Spec("W4", f"killed after {sizes.w4_many_steps:,} steps", "ms", MS, limit="bare recall", floors=(Floor(bound=300),)),
    }


def _waiting(sizes: Sizes) -> dict[str, Spec]:
    many = f"{sizes.w5_executions:,}"
    # Twice as many timers take twice as long, and no promise was made for them; a rate and a size are the same for any number.
    due = (Floor(bound=3),) if sizes.w5_executions <= PROMISED_WAITING else ()
    fast = (Floor(bound=5_000),)
    return {
        "W5 wait": Spec("W5", f"{many} started, until they wait", "/s", more=True, limit="sketch", floors=fast),
        "W5 callback": Spec("W5", f"{many} started, until they ask", "/s", more=True, limit="sketch", floors=fast),
        "W5 parked": Spec("W5", "memory of one that waits", "KB", KB, floors=(Floor(bound=6),)),
        "W5 parked callback": Spec("W5", "memory of one that asks", "KB", KB, floors=(Floor(bound=6),)),
        # The promise is nothing at all; memory is measured in whole arenas, which makes half a KB of noise on 10,000.
        "W5 evicted": Spec("W5", "memory of one that was evicted", "KB", KB, floors=(Floor(bound=0.5),)),
        "W5 idle": Spec("W5", "CPU while all wait", "%", PERCENT),
        "W5 idle callback": Spec("W5", "CPU while all ask", "%", PERCENT),
        "W5 due": Spec("W5", f"{many} timers due at once", "s", limit="sketch", floors=due),
    }


def _alone(sizes: Sizes) -> dict[str, Spec]:
    return {
        "W6": Spec("W6", "start to result, median", "ms", MS, limit="bare commit"),
        "W6 p99": Spec("W6", "start to result, 99th percentile", "ms", MS, limit="bare commit"),
        "wake": Spec("rest", "answer elsewhere to wake, median", "ms", MS, floors=(Floor(bound=100),)),
        "idle": Spec("rest", "idle CPU", "%", PERCENT, floors=(Floor(bound=1),)),
    }


def lines(sizes: Sizes, cells: Cells) -> tuple[Line, ...]:
    """What was measured, with its words. A peer that measures something we have no line for is wrong, and is told so."""
    known = specs(sizes)
    unknown = set(cells) - set(known)
    if unknown:
        raise KeyError(f"no line for {sorted(unknown)}")
    return tuple(_line(spec, cells[key]) for key, spec in known.items() if cells.get(key))


def _line(spec: Spec, cells: Mapping[str, Taken]) -> Line:
    beside = tuple(limits(cells))
    columns = {LIMIT: Taken(beside), **cells} if beside else dict(cells)
    scaled = {column: taken.scaled(spec.scale) for column, taken in columns.items()}
    return Line(workload=spec.workload, what=spec.what, unit=spec.unit, more=spec.more, limit=spec.limit, cells=scaled, floors=spec.floors)
