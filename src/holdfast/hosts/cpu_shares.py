"""Which tenant used the CPU of this machine lately: while other tenants are at work, a tenant that used more than its share waits.

The kernel shares the CPU among processes. A tenant with ten bodies would get ten times the CPU of a tenant with one. So the runner counts
what each tenant uses: its bodies, the evaluators that check its values, and the time in which the runner's loop reads its bodies' frames.
Two things follow while other tenants are at work:

greedy  a tenant that used far more than the average: its new bodies get a higher nice value
rest    each tenant has an account of CPU seconds. In each second it grows by the tenant's share of the cores. What the tenant uses is
        subtracted. While the account is below zero, new bodies of the tenant wait.

What a body will use is not known at its start. So the runner first subtracts what a body of this worker usually uses, and later the
difference to what this body really used. To charge a tenant means to subtract CPU seconds from its account. While only one tenant is at
work, that tenant has the whole machine.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Final
from weakref import WeakKeyDictionary

_HALF_SECONDS: Final = 1.0
"""After this many seconds, half of the CPU seconds that a tenant used are forgotten."""
_SUM_OF_ONE_CORE: Final = _HALF_SECONDS / math.log(2)
"""The CPU seconds that are remembered of a tenant that uses one core all the time."""
_SCARCE: Final = 0.4
"""The CPU is scarce when the CPU seconds that all tenants used lately (`_Account.used`) are more than this number for each core."""
_GREEDY: Final = 1.5
"""A tenant is greedy if it used more than this many times what the tenants at work used on average."""
_AT_WORK_SECONDS: Final = 0.002
"""A tenant whose CPU seconds of late (`_Account.used`) are fewer than this is not at work. Its account is removed, even if it is below
zero. So a tenant that uses no CPU any more waits only for some seconds."""
_FILLED: Final = 0.7
"""A tenant may always use its even share of the cores. It may use more while all tenants together use less than this part of all cores. The
remaining cores stay free, so that a short run of another tenant finds a core at once."""
_SAVED_SECONDS: Final = 1.0
"""An account contains at most the CPU seconds that the tenant's share of the cores gives in this many seconds."""
_STEP_SECONDS: Final = 0.01
"""Accounts grow, and used seconds are forgotten, at most once in this many seconds, because each such step looks at all tenants."""
_EXPECTED_SECONDS: Final = 0.05
"""How many CPU seconds a body of a worker is expected to use while no body of this worker has ended yet."""
_LEARNED: Final = 0.25
"""When a body ends, the expected value of its worker moves this far towards what the body used: 0 not at all, 1 the whole way."""


class _Account:
    """The account of one tenant that is at work."""

    def __init__(self, share: float) -> None:
        self.used = 0.0
        """The CPU seconds that the tenant used lately. Each second, half of them are forgotten."""
        self.saved = share * _SAVED_SECONDS
        """The CPU seconds that the tenant may use now. Below zero, its new bodies wait."""


class CpuShares:
    """For each tenant that is at work: how many CPU seconds it used lately, and how many it may use now. Any thread may call it."""

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or os.cpu_count() or 1
        self._accounts: dict[str, _Account] = {}
        self._at = 0.0
        self._expected: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def add(self, tenant: str, cpu_seconds: float, now: float) -> None:
        """Charge this tenant with CPU seconds that it used. A negative amount gives back what was charged before."""
        with self._lock:
            self._pay(now)
            account = self._accounts.get(tenant)
            if account is None:
                account = self._accounts[tenant] = _Account(self._cores)
            account.used = max(0.0, account.used + cpu_seconds)
            account.saved -= cpu_seconds

    def begin(self, tenant: str, worker: object, now: float) -> float:
        """Charge a tenant for a body of this worker that starts now, with what a body of this worker is expected to use. Returns the CPU
        seconds that were charged."""
        charged = self._expected.get(worker, _EXPECTED_SECONDS)
        self.add(tenant, charged, now)
        return charged

    def end(self, tenant: str, worker: object, charged: float, cpu_seconds: float, now: float) -> None:
        """Correct the charge of a body that ended. `cpu_seconds`: what the body used. `charged`: what its tenant was charged for this body
        until now. The tenant is charged the difference."""
        expected = self._expected.get(worker, _EXPECTED_SECONDS)
        self._expected[worker] = expected + _LEARNED * (cpu_seconds - expected)
        self.add(tenant, cpu_seconds - charged, now)

    def used(self, tenant: str, now: float) -> float:
        """The CPU seconds that a tenant used lately, of which half are forgotten in each second; 0 for a tenant that is not at work."""
        with self._lock:
            self._pay(now)
            account = self._accounts.get(tenant)
            return 0.0 if account is None else account.used

    def greedy(self, tenant: str, now: float) -> bool:
        """Whether the CPU is scarce, and this tenant used far more of it than the average tenant at work."""
        used = self.used(tenant, now)
        with self._lock:
            in_all, tenants = self._in_all(), max(1, len(self._accounts))
        return in_all > _SCARCE * self._cores * _HALF_SECONDS and used > _GREEDY * in_all / tenants

    def rest(self, tenant: str, now: float) -> float:
        """An estimate of the seconds until a new body of this tenant may start; the caller asks again then. 0 if it may start now; this is
        always so while no other tenant is at work."""
        with self._lock:
            self._pay(now)
            account = self._accounts.get(tenant)
            if account is None or len(self._accounts) == 1:
                return 0.0
            return max(0.0, -account.saved / self._share(account, self._in_all()))

    def _in_all(self) -> float:
        return sum(account.used for account in self._accounts.values())

    def _share(self, account: _Account, in_all: float) -> float:
        """How many cores the tenant of this account may use now. `in_all`: the CPU seconds that all tenants together used lately."""
        others = (in_all - account.used) / _SUM_OF_ONE_CORE
        return max(self._cores / len(self._accounts), _FILLED * self._cores - others)

    def _pay(self, now: float) -> None:
        passed = now - self._at
        if passed < _STEP_SECONDS:
            return
        self._at = now
        in_all, alone = self._in_all(), len(self._accounts) == 1
        shares = [self._share(account, in_all) for account in self._accounts.values()]
        kept = 0.5 ** (passed / _HALF_SECONDS)
        for account, share in zip(self._accounts.values(), shares, strict=True):
            most = share * _SAVED_SECONDS
            account.saved = most if alone else min(most, account.saved + passed * share)
            account.used *= kept
        self._accounts = {tenant: account for tenant, account in self._accounts.items() if account.used >= _AT_WORK_SECONDS}


_shared: Final = CpuShares()


def shared() -> CpuShares:
    """The accounts of this process. Bodies and evaluators are charged to the same accounts."""
    return _shared
