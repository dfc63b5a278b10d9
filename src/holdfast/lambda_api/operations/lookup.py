"""FunctionLookup: how the API finds the functions that can be invoked on this server.

`RegisteredFunctions` finds the functions that the engine was opened with. `functions/served_functions.py` implements the same protocol for
these and for deployed functions, which have versions and aliases, together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from holdfast.engine.registry import Registry, latest
from holdfast.lambda_api.operations.checks import FunctionReference, page_size
from holdfast.model.errors import FunctionNotFound, InvalidParameter
from holdfast.model.execution import Terms
from holdfast.model.operations import Kind
from holdfast.model.state_pages import marker, number, read_marker
from holdfast.model.wire import Wire
from holdfast.store.seam import Hosted

_EPOCH: Final = "1970-01-01T00:00:00.000+0000"
_HIDDEN: Final = {"ErrorCode": "AccessDeniedException", "Message": "Only an admin of all tenants sees environment variables."}
_MAX_ITEMS: Final = 10_000
_DEFAULT_ITEMS: Final = 50


class FoundFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function in one version."""

    name: str
    version: str
    terms: Terms | None
    """The terms of its executions. A function without terms is not durable."""
    about: Mapping[str, Any] = {}
    """Members of its FunctionConfiguration, in addition to the standard ones or in their place. Empty for an inline function."""
    code: Mapping[str, Any] = {}
    """The place of its code, in the form of GetFunction; empty for an inline function."""
    tags: Mapping[str, str] = {}


class FunctionLookup(Protocol):
    """Finds functions."""

    def find(self, asked: FunctionReference) -> FoundFunction:
        """The function in the version that a request names by a version or an alias. Without a qualifier it is `$LATEST`, or the highest
        version if there is no `$LATEST`. Raises FunctionNotFound if there is none."""
        ...

    def draw(self, asked: FunctionReference) -> FoundFunction:
        """The function version that runs one invocation: the one that `find` returns. But if the request names an alias with a second
        version, that version is returned as often as its weight says, at random. Raises FunctionNotFound if there is none, and CodeChanged
        if its code on disk is not what was deployed."""
        ...

    def all(self) -> Sequence[FoundFunction]:
        """Every version of every function, sorted by name, then by version number; `$LATEST` comes before the numbers."""
        ...


class PlainCall(msgspec.Struct, frozen=True, kw_only=True):
    """An invocation of a function that is not durable."""

    function: FoundFunction
    payload: bytes
    waits: bool
    """True: the caller waits for the answer. False: the call is stored, and the function is called later."""
    client_context: str | None = None
    """JSON about the client; None if the caller sent none."""
    tenant: str | None = None
    trace: str | None = None
    arn: str | None = None
    """The function's ARN as its caller named it: with the version or alias, or without."""


class PlainAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a function that is not durable."""

    payload: bytes
    error: str | None = None
    """`Unhandled` if the function failed: then the payload is an error object. Else None."""
    log: bytes = b""
    request: str | None = None
    """The request id in the function's context and in its log."""


Plain = Callable[[PlainCall], Awaitable[PlainAnswer]]
"""Calls functions that are not durable."""


class RegisteredFunctions:
    """The functions that an engine was opened with."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find(self, asked: FunctionReference) -> FoundFunction:
        """The function in the version that a request names. Without a qualifier it is `$LATEST`, or the highest version if there is no
        `$LATEST`. Raises FunctionNotFound if there is none."""
        versions = {hosted.version: hosted for hosted in self._hosted() if hosted.function == asked.name}
        found = versions.get(asked.qualifier or latest(versions)) if versions else None
        if found is None:
            raise FunctionNotFound(f"Function not found: {asked.arn}")
        return FoundFunction(name=found.function, version=found.version, terms=found.terms)

    def draw(self, asked: FunctionReference) -> FoundFunction:
        """The function in the version that a request names, as `find` returns it: registered functions have no aliases, so nothing is
        drawn. Raises FunctionNotFound if there is none."""
        return self.find(asked)

    def all(self) -> Sequence[FoundFunction]:
        """Every version of every function, sorted by name, then by version number; `$LATEST` comes before the numbers."""
        return sorted((FoundFunction(name=one.function, version=one.version, terms=one.terms) for one in self._hosted()), key=list_order)

    def _hosted(self) -> Sequence[Hosted]:
        """The functions of the engine, without workers: a worker is not a function, so the API does not show it."""
        return [hosted for hosted in self._registry.hosted() if hosted.kind is Kind.FUNCTION]


def list_order(found: FoundFunction) -> tuple[str, int]:
    """The key by which lists are sorted: the name, then the version number; `$LATEST` comes before the numbers."""
    return found.name, int(found.version) if found.version.isdigit() else 0


def configuration(found: FoundFunction, arn: str, *, values: bool) -> Wire:
    """A FunctionConfiguration. If `values` is False, an error stands in place of the environment variables, because their values are often
    secrets."""
    shown: Wire = {
        "FunctionName": found.name,
        "FunctionArn": arn,
        "Version": found.version,
        "Handler": found.name,
        "Role": "",
        "CodeSize": 0,
        "CodeSha256": "",
        "Description": "",
        "Timeout": 900,
        "MemorySize": 128,
        "LastModified": _EPOCH,
        "RevisionId": f"{found.name}-{found.version}",
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "PackageType": "Zip",
        **found.about,
    }
    if not values and "Environment" in shown:
        shown["Environment"] = {"Error": _HIDDEN}
    if found.terms is not None:
        shown["DurableConfig"] = durable_config(found.terms)
    return shown


def page(member: str, everything: Sequence[Wire], start: str | None, most: int | None) -> Wire:
    """One page of a list of functions, versions or aliases. `member` is the name of the list in the answer, `start` the marker that the
    page before gave (None: the first page), and `most` the page size. Raises InvalidParameter if the marker or the size is not valid."""
    size = page_size(most, _DEFAULT_ITEMS, _MAX_ITEMS)
    first = marked_number(member, start, len(everything)) if start else 0
    if first < 0:
        raise InvalidParameter("Invalid Marker")
    shown: Wire = {member: everything[first : first + size]}
    if first + size < len(everything):
        shown["NextMarker"] = marker(member, first + size)
    return shown


def marked_number(kind: str, text: str, most: int) -> int:
    """The number in a marker, from -1 to `most`. Raises InvalidParameter if the text is not a marker of this kind with one number."""
    parts = read_marker(kind, text)
    if len(parts) != 1:
        raise InvalidParameter("Invalid Marker")
    return number(parts[0], most)


def durable_config(terms: Terms) -> Wire:
    """The DurableConfig of these terms."""
    return {"ExecutionTimeout": terms.timeout_seconds, "RetentionPeriodInDays": terms.retention_days}


def changed_terms(terms: Terms, timeout_seconds: int | None, retention_days: int | None) -> Terms:
    """These terms with another timeout and another retention; None: as they are. Raises InvalidParameter if a value is not allowed."""
    asked = {"timeout_seconds": timeout_seconds, "retention_days": retention_days}
    return msgspec.structs.replace(terms, **{name: value for name, value in asked.items() if value is not None}).checked()
