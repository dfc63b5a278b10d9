"""Checks a value against a schema: in the caller's process if the check is certainly fast, else in an evaluator that can be killed.

fast    (the cost of the schema) x (the size of the value) is below a limit, and nothing in the schema multiplies the cost
slow    an evaluator makes the check; after a few seconds it is killed, and the value is refused
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.contract.checking import Checker, Mismatch, Size, checker_of, size_of, sized
from holdfast.contract.costs import IN_PLACE, LISTED_IN_PLACE, SchemaInvalid
from holdfast.contract.redaction import Schema
from holdfast.contract.refusals import Overloaded
from holdfast.hosts.evaluator.check_frames import Check, CheckResult
from holdfast.hosts.evaluator.evaluator_pool import SECONDS, Evaluators, TooManyChecks, shared
from holdfast.hosts.evaluator.evaluator_process import EvaluatorDied, EvaluatorLate
from holdfast.model import codec
from holdfast.model.errors import InvalidParameter, PayloadNotJson, Rejected

_SMALL_SCHEMA = 2 * 1024
"""The largest schema, in bytes, that the caller's process compiles. Compiling a larger one may be slow, so an evaluator does it."""


class CheckTooCostly(Rejected):
    """A value cannot be checked against its schema within the limits of time and memory."""

    code = "schema_too_costly"


async def problems(checker: Checker, value: Any, who: str, pool: Evaluators | None = None) -> tuple[Mismatch, ...]:
    """The places where a value breaks a schema; empty if it fits. A value that is not JSON gives one such place. `who` is the party in
    the evaluators (`evaluator_pool.party_of`). Raises CheckTooCostly if the check takes too long or its process dies (if only the list of
    problems takes long, the caller's process makes it), and Overloaded if too many checks of this party wait."""
    found = _in_place(checker, value)
    if isinstance(found, tuple):
        return found
    try:
        return (await _asked(who, _check(msgspec.json.encode(checker.schema), found), pool)).problems
    except CheckTooCostly:
        if _is_quick(checker, found):  # the check is fast; only listing all mismatches takes long
            return checker.problems(value)
        raise


async def problems_in(schema: Schema, value: Any, who: str, pool: Evaluators | None = None) -> tuple[Mismatch, ...]:
    """The places where a value breaks a schema; empty if it fits. The schema is not compiled yet, and may come from a worker's body. Raises
    SchemaInvalid if the schema is not valid or is above a limit, CheckTooCostly if the check takes too long or its process dies, and
    Overloaded if too many checks of the requester `who` wait."""
    text = msgspec.json.encode(schema)
    if _is_small(text):
        return await problems(checker_of(schema), value, who, pool)
    found = _written(value)
    return found if isinstance(found, tuple) else (await _asked(who, _check(text, found), pool)).problems


async def examined(schema: Schema, who: str, pool: Evaluators | None = None) -> None:
    """Check that a schema, for example one from a worker's body, is valid and within the limits. `who` names the party for which the check
    is made: a tenant together with its worker, pipeline or tool. Raises SchemaInvalid if the schema is not valid or is above a limit,
    CheckTooCostly if the check takes too long or its process dies, and Overloaded if too many checks of this party wait."""
    text = msgspec.json.encode(schema)
    if _is_small(text):
        checker_of(schema)
    else:
        await _asked(who, _check(text, None), pool)


def problems_now(schema: Schema, value: Any, who: str) -> tuple[Mismatch, ...]:
    """The places where a value breaks a schema; empty if it fits. The schema is not compiled yet, and may come from a worker's body. Blocks
    the thread. Raises SchemaInvalid if the schema is not valid or is above a limit, CheckTooCostly if the check takes too long or its
    process dies, and Overloaded if too many checks of the requester `who` wait."""
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
    """Check the value in this process if that is fast, and return the problems. If the check is not fast, or if the value does not fit and
    the list of its problems is not fast, return the value as JSON with its size: an evaluator must check it. A value that is not JSON is
    one problem."""
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


async def _asked(who: str, check: Check, pool: Evaluators | None) -> CheckResult:
    with _refusals():
        return _accepted(await asyncio.wrap_future((pool or shared()).submit(who, check)))


def _accepted(checked: CheckResult) -> CheckResult:
    if checked.refused is not None:
        raise SchemaInvalid(checked.refused.path, checked.refused.reason, checked.refused.code)
    return checked


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn a failure of an evaluator into the error that the caller gets."""
    try:
        yield
    except TooManyChecks:
        raise Overloaded("Too many values wait to be checked against their schemas. Try again later.") from None
    except EvaluatorLate:
        raise CheckTooCostly(
            f"The check of a schema, or of a value against it, took longer than {SECONDS:g} seconds, and was ended. Use a simpler schema."
        ) from None
    except EvaluatorDied:
        raise CheckTooCostly(
            "The process that checked a schema, or a value against it, ended without an answer: probably the check took too much memory."
        ) from None
