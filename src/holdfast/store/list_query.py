"""The SQL of a list: the statement that finds the executions which match a filter, by an index. It is put together from the lines of the
query `list` in queries.sql. A line is kept if the filter gives a value for each parameter in that line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.model.credentials import DEFAULT_TENANT
from holdfast.model.execution import ExecutionStatus
from holdfast.store.seam import Filter

_FORMERLY: Final = {"name": "former_name", "function": "former_function"}


class Dialect(NamedTuple):
    """What differs between SQLite and Postgres in the SQL of a list."""

    parameter: str
    """How a statement names a parameter, with `{}` for the name."""
    array: Callable[[list[str]], object]
    """Makes one parameter from a list of texts."""
    ordered_parts: bool
    """Whether each part of a UNION is in parentheses and has its own ORDER BY and LIMIT, so that the database reads at most one page of
    each part."""

    def kept(self, statement: str, asked: Mapping[str, object]) -> str:
        """The lines of a statement for whose parameters `asked` has all values."""
        parameter = re.escape(self.parameter).replace(r"\{\}", r"(\w+)")
        return "\n".join(line for line in statement.splitlines() if asked.keys() >= set(re.findall(parameter, line)))


class ListQuery:
    """Makes the statement and the parameters of a list, in one dialect."""

    def __init__(self, sql: Mapping[str, str], dialect: Dialect) -> None:
        self._sql, self._dialect = sql, dialect

    def of(self, wanted: Filter) -> tuple[str, dict[str, object]]:
        """The statement and its parameters.

        If the filter has a name or a parent, few rows are left, and the status is compared in each of them. Executions that had the name
        before they were superseded are found by another index. If the filter has neither, and SUCCEEDED is not among its statuses, each
        status is looked up by itself: it is an ordered range of its index, and the database merges the ranges without reading more than the
        page. In any other case, the statuses are compared in each row.
        """
        asked: dict[str, object] = {
            "function": wanted.function,
            "version": wanted.version,
            "name": wanted.name,
            "parent": wanted.parent,
            "default_tenant" if wanted.tenant == DEFAULT_TENANT else "tenant": wanted.tenant,  # no tenant counts as `default`
            "queue": wanted.queue,
            "started_after": wanted.started_after,
            "started_before": wanted.started_before,
            "newer" if wanted.oldest_first else "older": wanted.beyond,
        }
        asked = {name: value for name, value in asked.items() if value is not None}
        asked["limit"] = max(wanted.limit, 0)
        statuses = list(dict.fromkeys(status.value for status in wanted.statuses))
        order = self._sql["list_oldest_first" if wanted.oldest_first else "list_newest_first"]
        if statuses and (ExecutionStatus.SUCCEEDED in statuses or wanted.name is not None or wanted.parent is not None):
            asked["statuses"] = self._dialect.array(statuses)
            statuses = []
        if wanted.name is not None:
            former = {_FORMERLY.get(name, name): value for name, value in asked.items()}
            return f"{self._kept(asked)}\n{self._sql['list_merged']}\n{self._kept(former)}\n{order}", asked | former
        if not statuses:
            return f"{self._kept(asked)}\n{order}", asked
        each = [self._of_status(asked, number, order) for number in range(len(statuses))]
        asked |= {f"unsuccessful_{number}": status for number, status in enumerate(statuses)}
        if self._dialect.ordered_parts and len(each) == 1:
            return each[0], asked
        return f"\n{self._sql['list_merged']}\n".join(each) + f"\n{order}", asked

    def _of_status(self, asked: Mapping[str, object], number: int, order: str) -> str:
        parameter = self._dialect.parameter
        part = self._kept({**asked, "unsuccessful": ""})
        part = part.replace(parameter.format("unsuccessful"), parameter.format(f"unsuccessful_{number}"))
        return f"({part}\n{order})" if self._dialect.ordered_parts else part

    def _kept(self, asked: Mapping[str, object]) -> str:
        return self._dialect.kept(self._sql["list"], asked)
