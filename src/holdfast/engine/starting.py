"""Starting a name again after its execution failed."""

from __future__ import annotations

from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import FAILED_STATUSES, goes_on_as
from holdfast.store.seam import Store

ON_FAILED = ("find", "restart")
"""What a start does when the execution that has the name failed: find it, as AWS does, or start the name again."""


def is_restart(on_failed: str, name: str | None) -> bool:
    """Whether a start may start a failed name again."""
    if on_failed not in ON_FAILED:
        raise InvalidParameter(f"on_failed is {on_failed!r}; use {' or '.join(map(repr, ON_FAILED))}.")
    if on_failed == "restart" and name is None:
        raise InvalidParameter("on_failed='restart' needs a name: without one every start is a new execution.")
    return on_failed == "restart"


def failed_as(store: Store, function: str, name: str | None) -> str | None:
    """The id of the execution that has a name and went on as others, if the last of them failed. What has ended stays as it ended."""
    first = last = None if name is None else store.find_named(function, name)
    while last is not None and last.continued_as is not None:
        heir = store.find(last.continued_as)
        if heir is None or not goes_on_as(last, heir):
            return None
        last = heir
    return first.id if first is not None and last is not None and last.status in FAILED_STATUSES else None
