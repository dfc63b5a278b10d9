"""Settings from the holdfast.toml of a folder that is not trusted: they may only make the operator's settings stricter.

A setting without a rule is ignored. A rule gets the operator's value and the file's value. It returns the value that applies, and whether
the file's value applies whole. If not, the setting is listed as ignored. docs/reference/holdfast-toml.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import DayCaps
from holdfast.workers.tools.fetch_url import covers

TighteningRule = Callable[[Any, Any], tuple[Any, bool]]
_LOCKS: Final = ("all", "process", "inline")
_ESTIMATES: Final = ("worst", "typical", "none")


def _stricter(ours: str, theirs: str) -> tuple[str, bool]:
    """The stronger of two kinds of isolation, and whether that is the untrusted file's (`theirs`). `all` is the strongest, then `process`,
    then `inline`."""
    tight = min(ours, theirs, key=_LOCKS.index)
    return tight, tight == theirs


def _sooner(ours: str, theirs: str) -> tuple[str, bool]:
    """The estimate that refuses more runs before they begin, and whether that is the untrusted file's (`theirs`). `worst` refuses the most,
    then `typical`; `none` refuses none."""
    tight = min(ours, theirs, key=_ESTIMATES.index)
    return tight, tight == theirs


def _lower(ours: Any, theirs: Any) -> tuple[Any, bool]:
    """The lower of two limits, and whether that is the untrusted file's (`theirs`). If the file's value is zero or negative, the operator's
    value applies: some systems read 0 as "no limit"."""
    return (theirs, True) if 0 < theirs <= ours else (ours, False)


def _cap(ours: Any, theirs: Any) -> tuple[Any, bool]:
    """The lower of two caps, and whether the untrusted file's value (`theirs`) is followed. None means no cap; zero is a cap. If the file's
    value is negative, the operator's value applies."""
    if theirs is None:
        return ours, True
    return (theirs, True) if theirs >= 0 and (ours is None or theirs <= ours) else (ours, False)


def _more(ours: frozenset[str], theirs: frozenset[str]) -> tuple[frozenset[str], bool]:
    """The union of both sets, because each member makes the settings stricter; and True, because the untrusted file's set (`theirs`)
    applies whole."""
    return ours | theirs, True


def _fewer(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """The members that both lists have, and whether these are all members of the untrusted file's list (`theirs`). If the lists have none
    in common, the operator's list applies: the file's list would replace it, not make it stricter. An empty list of the file applies."""
    return _kept(ours, theirs, [one for one in theirs if one in ours])


def _types(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The untrusted file's media types (`theirs`) that one of the operator's types covers (for example, `text/*` covers `text/html`), and
    whether these are all of the file's types. If there are none, the operator's list applies, unless the file's list is empty."""
    return _kept(ours, theirs, [one for one in theirs if any(covers(one, pattern) for pattern in ours)])


def _deciders(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The list of deciders that applies, and whether the untrusted file's list (`theirs`) applies whole. An empty list allows all deciders,
    so if one list is empty, the other applies. Else the members that both lists have apply; if there are none, the operator's list
    applies."""
    if not theirs:
        return ours, not ours
    return _fewer(ours, theirs) if ours else (theirs, True)


def _kept(ours: tuple[Any, ...], theirs: tuple[Any, ...], both: list[Any]) -> tuple[tuple[Any, ...], bool]:
    return (tuple(both), len(both) == len(theirs)) if both or not theirs else (ours, False)


def _obeyed(ours: bool, theirs: bool) -> tuple[bool, bool]:
    """True, the stricter value, if at least one of the two values is True; else False. Also returns whether the untrusted file's value
    (`theirs`) is the one that applies."""
    return ours or theirs, theirs or not ours


def _caps(ours: DayCaps, theirs: DayCaps) -> tuple[DayCaps, bool]:
    """The lower value of each cap, and whether every value of the untrusted file (`theirs`) is followed."""
    lower = {name: _cap(getattr(ours, name), getattr(theirs, name)) for name in DayCaps.__struct_fields__}
    return DayCaps(**{name: value for name, (value, _) in lower.items()}), all(kept for _, kept in lower.values())


def _refused_codes(
    ours: Mapping[str, Mapping[str, bool]], theirs: Mapping[str, Mapping[str, bool]]
) -> tuple[Mapping[str, Mapping[str, bool]], bool]:
    """The operator's rules, and in addition the untrusted file's rules (`theirs`) that a code is not retried. A rule of the file that a
    code is retried is ignored, unless the operator has the same rule. Also returns whether no rule of the file was ignored."""
    tight = {worker: dict(codes) for worker, codes in ours.items()}
    whole = True
    for worker, codes in theirs.items():
        for code, again in codes.items():
            if not again:
                tight.setdefault(worker, {})[code] = False
            elif not tight.get(worker, {}).get(code):
                whole = False
    return tight, whole


RULES: Final[Mapping[str, Mapping[str, TighteningRule]]] = {
    "policy": {
        "isolation": _stricter,
        "retry_codes": _refused_codes,
        "approvals": _more,
        "approval_seconds": _lower,
        "approvers": _deciders,
        "caps": _caps,
        "grace_seconds": _lower,
        "reconcile_seconds": _lower,
        "artifact_bytes": _lower,
        "scratch_mb": _lower,
        "memory_mb": _lower,
        "estimate": _sooner,
    },
    "fetch": {
        "timeout_seconds": _lower,
        "silence_seconds": _lower,
        "max_bytes": _lower,
        "max_redirects": _lower,
        "content_types": _types,
        "robots": _obeyed,
        "robots_seconds": _lower,
        "allow_private": _fewer,
        "ports": _fewer,
    },
    "model": {"models": _fewer, "max_output_tokens": _lower, "timeout_seconds": _lower},
}
"""The rules, by table and setting. `policy.tenant_caps` is not here: `tightened` uses the rule of `caps` for each tenant."""


def tightened(ours: WorkerSettings, theirs: WorkerSettings, said: Mapping[str, Any]) -> tuple[WorkerSettings, list[str]]:
    """The operator's settings, made stricter by the settings of a file in a folder that is not trusted; and the names of the file's
    settings that do not apply, or not whole. `theirs` are the settings of that file, and `said` is its content."""
    ignored = [name for name in said if name not in RULES]
    for table, rules in RULES.items():
        mine, other = getattr(ours, table), getattr(theirs, table)
        kept: dict[str, Any] = {}
        for name in said.get(table, {}):
            if (table, name) == ("policy", "tenant_caps"):
                kept[name], whole = _tenants(ours, theirs)
            elif name in rules:
                kept[name], whole = rules[name](getattr(mine, name), getattr(other, name))
            else:
                whole = False
            if not whole:
                ignored.append(f"{table}.{name}")
        if "caps" in kept and "tenant_caps" not in kept and ours.policy.tenant_caps:
            kept["tenant_caps"], _ = _tenants(
                ours, theirs
            )  # otherwise the operator's caps of a tenant could be higher than the file's caps
        ours = msgspec.structs.replace(ours, **{table: msgspec.structs.replace(mine, **kept)})
    return ours, sorted(ignored)


def _tenants(ours: WorkerSettings, theirs: WorkerSettings) -> tuple[Mapping[str, DayCaps], bool]:
    names = {*ours.policy.tenant_caps, *theirs.policy.tenant_caps}
    both = {tenant: _caps(ours.policy.caps_of(tenant), theirs.policy.caps_of(tenant)) for tenant in sorted(names)}
    return {tenant: caps for tenant, (caps, _) in both.items()}, all(both[tenant][1] for tenant in theirs.policy.tenant_caps)
