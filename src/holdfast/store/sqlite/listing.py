"""Lists: the question that a filter asks, put so that an index answers it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.model import codec
from holdfast.model.execution import ExecutionStatus
from holdfast.store.seam import Filter

_FORMERLY: Final = {"name": "former_name", "function": "former_function"}
_PARAMETER: Final = re.compile(r":(\w+)")


def question(sql: Mapping[str, str], wanted: Filter) -> tuple[str, dict[str, object]]:
    """The statement and its parameters.

    A name or a parent leaves few rows, whatever their status; those that had a name before are in an index of their own. Else statuses
    without SUCCEEDED are looked up one by one: each is an ordered range of its index, and several ranges
    are merged without reading more than the page.
    """
    asked: dict[str, object] = {
        "function": wanted.function,
        "version": wanted.version,
        "name": wanted.name,
        "parent": wanted.parent,
        "tenant": wanted.tenant,
        "started_after": wanted.started_after,
        "started_before": wanted.started_before,
        "newer" if wanted.oldest_first else "older": wanted.beyond,
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    asked["limit"] = max(wanted.limit, 0)
    statuses = list(dict.fromkeys(status.value for status in wanted.statuses))
    order = sql["list_oldest_first" if wanted.oldest_first else "list_newest_first"]
    if statuses and (ExecutionStatus.SUCCEEDED in statuses or wanted.name is not None or wanted.parent is not None):
        asked["statuses"] = codec.dumps(statuses)
        statuses = []
    if wanted.name is not None:
        former = {_FORMERLY.get(name, name): value for name, value in asked.items()}
        return f"{_kept(sql, asked)}\n{sql['list_merged']}\n{_kept(sql, former)}\n{order}", asked | former
    if not statuses:
        return f"{_kept(sql, asked)}\n{order}", asked
    one = _kept(sql, asked | {"unsuccessful": ""})
    each = [one.replace(":unsuccessful", f":unsuccessful_{number}") for number in range(len(statuses))]
    asked |= {f"unsuccessful_{number}": status for number, status in enumerate(statuses)}
    return f"\n{sql['list_merged']}\n".join(each) + f"\n{order}", asked


def _kept(sql: Mapping[str, str], asked: Mapping[str, object]) -> str:
    return "\n".join(line for line in sql["list"].splitlines() if asked.keys() >= set(_PARAMETER.findall(line)))
