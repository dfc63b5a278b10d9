"""The terms of the measurements: the sizes of the workloads, the payload of a step, and how a process measures its memory.

It imports only the standard library, because the peers' programs import it too, in environments without Holdfast. So the terms are the
same for every system.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

PAYLOAD: Final[dict[str, Any]] = {
    "order_id": "42",
    "items": ["anvil", "rope", "bell"],
    "total": 129.5,
    "currency": "EUR",
    "paid": True,
    "note": "leave it at the door",
}
DAY_SECONDS: Final = 86_400
ANSWER: Final = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything. Tests measure little; `make bench` measures this."""

    w1_steps: int = 200
    w2_executions: int = 1_000
    w2_steps: int = 5
    w3_branches: int = 1_000
    w3_items: int = 10_000
    w4_steps: int = 1_000
    w4_many_steps: int = 10_000
    w5_executions: int = 10_000
    w5_blocking: int = 2_000
    w5_due: bool = True
    """Whether the time that all timers take is measured."""
    w6_rounds: int = 200
    http_executions: int = 48
    http_steps: int = 50
    http_connections: int = 16
    http_checkpoints: int = 16_000
    http_invocations: int = 200
    http_routed: int = 1_500
    chain_nodes: int = 10
    chain_rounds: int = 20
    chain_items: int = 1_000
    map_rounds: int = 5
    queue_jobs: int = 2_000
    queue_bulk: int = 10_000
    queue_backlog: int = 1_000_000
    queue_other_tenant: int = 100_000
    console_executions: int = 1_000_000
    worker_attempts: int = 60
    worker_runs: int = 6_000
    worker_checks: int = 2_000
    hostile_kinds: int = 10
    hostile_seconds: float = 8.0
    wakes: int = 20
    idle_seconds: float = 5.0
    many: int = 15
    pairs: int = 5
    few: int = 3
    """How often each measurement is taken: `many` where it is quick and noisy, `pairs` where it is quick, `few` where it is not."""

    def less(self) -> Self:
        """For peers, who take minutes where we take seconds. Rates come from fewer executions: no peer here was
        faster with more. A time for a given amount of work is not taken at all when it would be too long (0)."""
        return replace(
            self,
            w2_executions=min(200, self.w2_executions),
            w3_items=0,
            w4_many_steps=0,
            w5_executions=min(1_000, self.w5_executions),
            w5_due=False,
            w6_rounds=min(100, self.w6_rounds),
            queue_jobs=min(500, self.queue_jobs),
            pairs=min(3, self.pairs),
            few=min(2, self.few),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def memory() -> int:
    """The bytes of this process in memory, after unused memory was returned to the system."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc keeps what was freed; what is left after this is in use, or between what is in use
        trim(0)
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # macOS tells only the largest it ever was, in bytes
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
