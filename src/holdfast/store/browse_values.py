"""The queries that complete a value from its first letters. Each field has its own queries, because each field has its own index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.store.browse import Completed

_INDEXES: Final[Mapping[Completed, str]] = {
    Completed.FUNCTION: "executions_by_function",
    Completed.QUEUE: "executions_by_queue",
    Completed.TENANT: "executions_by_tenant",
    Completed.PIPELINE: "executions_by_pipeline",
    Completed.ERROR_CODE: "executions_by_error",
}


def with_values(sql: Mapping[str, str]) -> dict[str, str]:
    """The statements of browse.sql. Each statement that completes a value is added once for each field, under the name
    `STATEMENT_FIELD`, for example `values_queue`."""
    made = dict(sql)
    for field in Completed:
        for name in ("values", "values_default", "values_tenant"):
            made[f"{name}_{field.value}"] = sql[name].replace("{column}", field.value).replace("{index}", _INDEXES[field])
    return made
