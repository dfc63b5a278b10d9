"""What pages call a run: its name; or, if it has no name of its own, the end of its id.

Ids begin with the time, so ids of the same minute begin alike, and their ends are different. All pages show the same end. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.model.execution import Execution
from holdfast.workers.accept import is_made

_ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})\b")


def short_id(identity: str) -> str:
    """The end of an id: its last 12 digits. An id of another form, which an author chose, is returned whole."""
    found = _ID.fullmatch(identity)
    return identity if found is None else found[1]


def with_short_ids(text: str) -> str:
    """A sentence in which each id is written in its short form."""
    return _ID.sub(lambda found: found[1], text)


def named(header: Execution) -> str:
    """What pages call an execution: its name; but the short form of its id, if its name is its id, or looks like one that was made from an
    idempotency key."""
    return named_by(header.name, header.id)


def named_by(name: str, identity: str) -> str:
    """What pages call the execution with this name and id (`named`)."""
    return short_id(identity) if is_made(name) else short_id(name)


def is_unnamed(header: Execution) -> bool:
    """Whether pages call this execution by its id."""
    return header.name == header.id or is_made(header.name)
