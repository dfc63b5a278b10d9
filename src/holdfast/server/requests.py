"""Requests: what a client sent, read within limits. What cannot be read is refused here, before anything is called."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.types import Receive, Scope

from holdfast.model.errors import InvalidParameter
from holdfast.server.auth.identity import identity_of
from holdfast.server.errors import Refused, unreadable
from holdfast.server.limits import Limits

T = TypeVar("T")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}")
_MAX_FIELDS: Final = 200
_DRAINED_BYTES: Final = 64 * 1024 * 1024
"""A body that is too large is still read to its end up to this size: a client that is cut off while it sends never sees why."""


_label = lru_cache(maxsize=4096)(unquote)
"""An execution's ARN comes with each of its checkpoints."""
_CACHED_CHARACTERS: Final = 512


class Gone(Exception):
    """The client left."""


class Request:
    """One request: its labels from the path, its query, its headers, its body."""

    def __init__(self, scope: Scope, labels: Iterable[str], body: bytes) -> None:
        self._scope = scope
        self.labels = tuple(_label(label) if len(label) < _CACHED_CHARACTERS else unquote(label) for label in labels)
        self.body = body

    @property
    def tenant(self) -> str | None:
        """The tenant that whoever asks is kept to, if any."""
        return identity_of(self._scope).tenant

    @property
    def label(self) -> str:
        """The only label of the path."""
        return self.labels[0]

    def header(self, name: bytes) -> str | None:
        """A header, by its name in small letters."""
        for key, value in self._scope["headers"]:
            if key == name:
                found: bytes = value
                return found.decode("latin-1")
        return None

    @cached_property
    def _query(self) -> list[tuple[str, str]]:
        try:
            return parse_qsl(self._scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise unreadable(f"The query has more than {_MAX_FIELDS} fields.") from None

    def texts(self, name: str) -> tuple[str, ...]:
        """Every value of a query member."""
        return tuple(value for key, value in self._query if key == name)

    def text(self, name: str) -> str | None:
        """A query member."""
        return next((value for key, value in self._query if key == name), None)

    def number(self, name: str) -> int | None:
        """A query member that is a number."""
        text = self.text(name)
        if text is None:
            return None
        if _NUMBER.fullmatch(text) is None:
            raise unreadable(f"{name}: {text!r:.100} is not a number.")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """A query member that is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise unreadable(f"{name}: {text!r:.100} is neither true nor false.")
        return text.lower() == "true"

    def instant(self, name: str) -> int | None:
        """A query member that is a time in ISO 8601, in milliseconds."""
        text = self.text(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise unreadable(f"{name}: {text!r:.100} is not a time such as 2026-01-01T00:00:00Z.") from None

    def json(self, kind: type[T]) -> T:
        """The body as JSON of this shape; nothing at all is an empty object."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"The request's body: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unreadable(f"The request's body is not JSON: {error}") from None


async def read_body(scope: Scope, receive: Receive, limits: Limits, most: int) -> bytes:
    """The body, if it is not too large and comes in time."""
    message: Any = await receive()
    if message["type"] != "http.request":
        raise Gone
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > most:
            raise _too_large(most)
        return body
    length = _length(scope)
    if length is not None and length > _DRAINED_BYTES:
        raise _too_large(most, close=True)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read_on(body, receive, most)
    except TimeoutError:
        close = ((b"connection", b"close"),)
        raise Refused(408, "RequestTimeoutException", "The request's body did not come in time.", headers=close) from None


async def _read_on(body: bytes, receive: Receive, most: int) -> bytes:
    parts, size = [body], len(body)
    while True:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise Gone
        size += len(message.get("body", b""))
        if size <= most:
            parts.append(message.get("body", b""))
        elif size > _DRAINED_BYTES:
            raise _too_large(most, close=True)
        if not message.get("more_body", False):
            break
    if size > most:
        raise _too_large(most)
    return b"".join(parts)


def _length(scope: Scope) -> int | None:
    for key, value in scope["headers"]:
        if key == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def _too_large(most: int, *, close: bool = False) -> Refused:
    headers = ((b"connection", b"close"),) if close else ()
    return Refused(413, "RequestTooLargeException", f"Request must be smaller than {most} bytes.", headers=headers)
