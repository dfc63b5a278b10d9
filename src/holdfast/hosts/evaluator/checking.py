"""Is a value what a schema promises? In place where that is certain to be quick, else in a process that can be ended.

quick   (what the schema can cost) x (how large the value is) is below a bound, and nothing in the schema multiplies
else    an evaluator is asked, and killed after a few seconds: then the value is refused
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.contract.checking import Checker, Mismatch, Size, checker_of, size_of, sized
from holdfast.contract.costs import IN_PLACE, LISTED_IN_PLACE, SchemaInvalid
from holdfast.contract.redacting import Schema
from holdfast.contract.refusals import Overloaded
from holdfast.hosts.evaluator.frames import Check, Checked
from holdfast.hosts.evaluator.pool import SECONDS, Crowded, Evaluators, shared
from holdfast.hosts.evaluator.process import Died, Late
from holdfast.model import codec
from holdfast.model.errors import InvalidParameter, PayloadNotJson, Rejected

_SMALL_SCHEMA = 2 * 1024
"""Bytes of a schema that is compiled in place, when a body brings it."""


class CheckTooCostly(Rejected):
    """A value cannot be checked against its schema in the time there is."""

    code = "schema_too_costly"


async def problems(checker: Checker, value: Any, who: str, pool: Evaluators | None = None) -> tuple[Mismatch, ...]:
    """Where a value breaks a schema; nothing if it fits. `who` is whose value it is: strangers do not wait for each other."""
    found = _in_place(checker, value)
    if isinstance(found, tuple):
        return found
    try:
        return (await _asked(who, _check(msgspec.json.encode(checker.schema), found), pool)).problems
    except CheckTooCostly:
        if _is_quick(checker, found):  # only saying why takes so long
            return checker.problems(value)
        raise


async def problems_in(schema: Schema, value: Any, who: str, pool: Evaluators | None = None) -> tuple[Mismatch, ...]:
    """The same for a schema that a body brought; raises SchemaInvalid."""
    text = msgspec.json.encode(schema)
    if _is_small(text):
        return await problems(checker_of(schema), value, who, pool)
    found = _written(value)
    return found if isinstance(found, tuple) else (await _asked(who, _check(text, found), pool)).problems


async def examined(schema: Schema, who: str, pool: Evaluators | None = None) -> None:
    """Whether a schema that a body brought is one, and within the limits; raises SchemaInvalid."""
    text = msgspec.json.encode(schema)
    if _is_small(text):
        checker_of(schema)
    else:
        await _asked(who, _check(text, None), pool)


def problems_now(schema: Schema, value: Any, who: str) -> tuple[Mismatch, ...]:
    """As `problems_in`, for a caller that may wait."""
    text = msgspec.json.encode(schema)
    found = _in_place(checker_of(schema), value) if _is_small(text) else _written(value)
    if isinstance(found, tuple):
        return found
    with _refusals():
        return _accepted(shared().submit(who, _check(text, found)).result()).problems


def _check(schema: bytes, value: Size | None) -> Check:
    return Check(msgspec.Raw(schema), () if value is None else (msgspec.Raw(value.text),))


def _is_small(schema: bytes) -> bool:
    return len(schema) <= _SMALL_SCHEMA and schema.count(b"attern") <= 2  # each pattern takes its time to compile


def _in_place(checker: Checker, value: Any) -> tuple[Mismatch, ...] | Size:
    """What is found at once; or the value as it goes to an evaluator."""
    size = _written(value)
    if isinstance(size, tuple) or not _is_quick(checker, size):
        return size
    listed = checker.cost.steps(size.places, 0) <= LISTED_IN_PLACE
    if listed or checker.valid(value):
        return checker.problems(value) if listed else ()
    return size


def _is_quick(checker: Checker, size: Size) -> bool:
    return not checker.cost.unbounded and checker.cost.steps(size.places, len(size.text)) <= IN_PLACE


def _written(value: Any) -> Size | tuple[Mismatch, ...]:
    size = size_of(value)
    if size.text:
        return size
    try:
        return sized(codec.dumps(value).encode())
    except (PayloadNotJson, InvalidParameter, UnicodeError) as odd:
        return (Mismatch("", f"the value is not JSON: {odd}"[:200], ""),)


async def _asked(who: str, check: Check, pool: Evaluators | None) -> Checked:
    with _refusals():
        return _accepted(await asyncio.wrap_future((pool or shared()).submit(who, check)))


def _accepted(checked: Checked) -> Checked:
    if checked.refused is not None:
        raise SchemaInvalid(checked.refused.path, checked.refused.reason, checked.refused.code)
    return checked


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn a failure of an evaluator into the error that the caller gets."""
    try:
        yield
    except Crowded:
        raise Overloaded("Too many values wait to be checked against their schemas here.") from None
    except Late:
        raise CheckTooCostly(f"Checking the value against its schema took longer than {SECONDS:g} seconds, and was ended.") from None
    except Died:
        raise CheckTooCostly("Checking the value against its schema took too much memory, and was ended.") from None
