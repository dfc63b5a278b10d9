"""Pages of an execution's state: how much one page holds, and the marker that says where the next page begins.

A handler gets its state in pages: the first with its event, the others by GetDurableExecutionState. The EXECUTION operation comes first,
then the operations that a replay needs, in the order in which they began. The answer to a checkpoint may be cut into pages as well: these
have only operations that changed after a certain revision.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Operation

PAGE_ITEMS: Final = 1000
PAGE_BYTES: Final = 5 * 1024 * 1024
"""A page has at most about this many bytes of payloads, because a whole event or answer must stay below 6 MB."""
_OVERHEAD: Final = 512
_INVALID: Final = "Invalid Marker"


class Mark(NamedTuple):
    """Where a page begins. A page is a part of the list of an execution's operations."""

    newer_than: int = 0
    """The page has only operations that changed after this revision. 0: all operations that a replay needs; those inside a context that has
    ended are left out, unless the context is replayed."""
    after: int = -1
    """The `place` of the last operation on the page before this one. -1: this page begins with the EXECUTION operation. 0: it begins with
    the operation that follows the EXECUTION operation."""


BEGINNING: Final = Mark()
FIRST_OPERATION: Final = Mark(0, 0)


def marker(kind: str, *numbers: int | str) -> str:
    """A text that a client sends back to get the next page of a list: `kind` and `numbers` in base64. `kind` names the list, so that a
    marker of one list is refused for another list."""
    return base64.urlsafe_b64encode("|".join([kind, *map(str, numbers)]).encode()).decode()


def read_marker(kind: str, text: str) -> list[str]:
    """The `numbers` that `marker` was called with, as text. Raises InvalidParameter if the text is not a marker of this kind."""
    try:
        found, *parts = base64.b64decode(text, altchars=b"-_", validate=True).decode().split("|")
    except (binascii.Error, ValueError):
        raise InvalidParameter(_INVALID) from None
    if found != kind:
        raise InvalidParameter(_INVALID)
    return parts


def state_marker(mark: Mark) -> str:
    """The marker of the page of the state that begins at `mark`."""
    return marker("state", *mark)


def state_mark(text: str) -> Mark:
    """Where the page of this marker begins. Raises InvalidParameter if the text is not a marker of a state."""
    parts = read_marker("state", text)
    if len(parts) != len(Mark._fields):
        raise InvalidParameter(_INVALID)
    newer_than, after = map(number, parts)
    if newer_than < 0:
        raise InvalidParameter(_INVALID)
    return Mark(newer_than, after)


def number(text: str, most: int = 2**62) -> int:
    """A number from a marker. Raises InvalidParameter if it is not an integer from -1 to `most`: a client may have changed the marker."""
    if len(text) > 19 or not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or not -1 <= int(text) <= most:
        raise InvalidParameter(_INVALID)
    return int(text)


def weight(operation: Operation) -> int:
    """About how many bytes an operation adds to a page of operations."""
    size = _OVERHEAD
    if operation.result is not None:
        size += len(operation.result)
    if operation.error is not None:
        error = operation.error
        size += sum(len(text or "") for text in (error.message, error.type, error.data, *(error.stack_trace or ())))
    return size


def cut(
    operations: Iterable[Operation], mark: Mark, *, most: int = PAGE_ITEMS, room: int = PAGE_BYTES, begun: bool = False
) -> tuple[Sequence[Operation], Mark | None]:
    """The operations of the page of an execution's state that begins at `mark`, and the mark of the next page (None if this page is the
    last one).

    `operations` must be in the order in which they began. The page has at most `most` operations, with about `room` bytes together. Its
    first operation is taken whatever its size, unless `begun` says that the caller has put another operation on the page already.
    """
    page: list[Operation] = []
    for operation in operations:
        if operation.place <= mark.after:
            continue
        room -= weight(operation)
        if len(page) >= most or ((page or begun) and room < 0):
            return page, Mark(mark.newer_than, page[-1].place if page else mark.after)
        page.append(operation)
    return page, None
