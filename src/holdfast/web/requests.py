"""Requests: what a client sent. The methods here raise Refused or InvalidParameter if the part of the request that they read is wrong.

A request is a Starlette request, so a handler may also use Starlette's headers, cookies and query. Forms are read by `form_values`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request as StarletteRequest
from starlette.types import Scope

from holdfast.model import json_structs
from holdfast.model.audit import Actor, kept_days, principal
from holdfast.model.clock import monotonic
from holdfast.model.console_state import ConsoleSession
from holdfast.model.credentials import Role
from holdfast.model.errors import InvalidParameter
from holdfast.web.bodies import Incoming
from holdfast.web.capacity import Capacities
from holdfast.web.identity import WITHOUT_CREDENTIAL, WITHOUT_GATE, CallerIdentity
from holdfast.web.policy import Needs, RoutePolicy
from holdfast.web.refusals import Gone, Refused, unreadable

T = TypeVar("T")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}")
_MAX_FIELDS: Final = 200
_MAX_FORM_FIELDS: Final = 500
_LEAST_BYTES_A_SECOND: Final = 1024


class Request(StarletteRequest):
    """One request: the labels of its path, its query, its headers, its body, its caller."""

    def __init__(
        self, scope: Scope, incoming: Incoming, policy: RoutePolicy, labels: tuple[str, ...], capacities: Capacities, closing: asyncio.Event
    ) -> None:
        super().__init__(scope, incoming.receive)
        self.incoming = incoming
        self.policy = policy
        self.labels = labels
        self.content = b""
        """The body. Empty if the handler reads the body itself (`RoutePolicy.reads_body`), and on a route with Waits.STREAM."""
        self.caller: CallerIdentity | None = None
        """The caller. None until the gate has admitted the request. If the app has no gate, the app sets `WITHOUT_GATE`."""
        self.session_of_browser: ConsoleSession | None = None
        """The session by which the gate recognised the caller; None if it recognised the caller in another way."""
        self.timer: asyncio.Timeout | None = None
        self.capacities = capacities
        self.closing = closing
        """Set when the server shuts down: a handler that waits must end then."""

    # --- the caller

    @property
    def identity(self) -> CallerIdentity:
        """The caller. Raises RuntimeError if the gate has not admitted the request yet, because the caller is not known before."""
        if self.caller is None:
            raise RuntimeError("The caller of a request was read before the gate has admitted it.")
        return self.caller

    @property
    def tenant(self) -> str | None:
        """The tenant to which the caller is limited; None: the caller is not limited to one tenant."""
        return self.identity.tenant

    @property
    def execution_tenant(self) -> str | None:
        """If the request starts an execution, the tenant of that execution: the header X-Amz-Tenant-Id, else the tenant of the caller. None
        if there is neither."""
        given = self.header(b"x-amz-tenant-id")
        return self.tenant if given is None else given

    @property
    def actor(self) -> Actor | None:
        """Who makes the request, for the audit log; None if the app has no gate. Raises RuntimeError if the gate has not admitted the
        request yet."""
        found = self.identity
        if found == WITHOUT_GATE:
            return None
        who = principal() if found == WITHOUT_CREDENTIAL else found.name
        return Actor(who=who, origin=self.origin, tenant=found.tenant, days=kept_days(os.environ))

    @property
    def origin(self) -> str:
        """The network address of the caller; empty if it is not known."""
        client = self.scope.get("client")
        return "" if client is None else str(client[0])

    @property
    def sees_values(self) -> bool:
        """Whether the caller may see the values of environment variables. Only an admin of all tenants may; on a server without
        credentials, every caller may."""
        return Role.ADMIN in self.identity.roles and self.tenant is None

    # --- the head

    @property
    def label(self) -> str:
        """The first label of the path, decoded. A label is a variable part of the route's path. Raises IndexError if the path has none."""
        return self.labels[0]

    def header(self, name: bytes) -> str | None:
        """The first value of a header, by its name in lower case; None if the request does not have it."""
        for key, value in self.scope["headers"]:
            if key == name:
                found: bytes = value
                return found.decode("latin-1")
        return None

    @cached_property
    def _fields(self) -> list[tuple[str, str]]:
        try:
            # As signatures read it (auth/sigv4.py): a letter as it is and the same letter percent-encoded are equal.
            text = self.scope["query_string"].decode("utf-8", "replace")
            return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise unreadable(f"The query has more than {_MAX_FIELDS} fields.") from None

    @property
    def field_names(self) -> set[str]:
        """The names of all query members."""
        return {name for name, _ in self._fields}

    def texts(self, name: str) -> tuple[str, ...]:
        """All values that the query gives for one name, in order; empty if it gives none."""
        return tuple(value for key, value in self._fields if key == name)

    def text(self, name: str) -> str | None:
        """The value that the query gives for a name; None if it gives none. Raises Refused if it gives two different values: a signature
        covers the values but not their order, so the server cannot know which one to use."""
        found = set(self.texts(name))
        if len(found) > 1:
            raise unreadable(f"{name} has {len(found)} different values. Give one.")
        return found.pop() if found else None

    def number(self, name: str) -> int | None:
        """A query member that is an integer; None if it is not given. Raises Refused if it is not one integer of at most 12 digits."""
        text = self.text(name)
        if text is None:
            return None
        if _NUMBER.fullmatch(text) is None:
            raise unreadable(f"{name}: {text!r:.100} is not an integer of at most 12 digits.")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """A query member that is true or false; `default` if it is not given. Raises Refused for any other value, and for two different
        values."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise unreadable(f"{name}: {text!r:.100} is neither true nor false.")
        return text.lower() == "true"

    def instant(self, name: str) -> int | None:
        """A query member that is a time in ISO 8601, as milliseconds since 1970; None if it is not given. Without a time zone it is in UTC.
        Raises Refused if it is not one time."""
        text = self.text(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise unreadable(f"{name}: {text!r:.100} is not a time such as 2026-01-01T00:00:00Z.") from None

    # --- the body

    def decoded(self, kind: type[T]) -> T:
        """The JSON of the body, as a value of this type; an empty body is read as an empty object. Raises Refused if the body is not JSON,
        or has too many values. Raises InvalidParameter if the JSON does not fit the type."""
        try:
            # Only an admin may send code, and to look through 67 MB of it takes longer than to read it.
            read = json_structs.decoded if self.policy.needs is Needs.DEPLOY else json_structs.received
            return read(self.content or b"{}", kind)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"The request's body: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unreadable(f"The request's body is not JSON: {error}") from None

    def form_values(self) -> dict[str, tuple[str, ...]]:
        """The fields of the form that a browser sent, each with all its values in order. A line in a value ends with LF alone.
        Raises InvalidParameter if the form is not UTF-8, or has too many fields."""
        try:
            fields = parse_qsl(self.content.decode(), keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)
        except ValueError:
            raise InvalidParameter(
                f"The form could not be read: it must be UTF-8, with at most {_MAX_FORM_FIELDS} fields. "
                "Open the page again, and send the form again."
            ) from None
        values: dict[str, tuple[str, ...]] = {}
        for name, value in fields:
            values[name] = (*values.get(name, ()), value.replace("\r\n", "\n"))
        return values

    async def parts(self, seconds: float) -> AsyncIterator[bytes]:
        """The body in parts, while it arrives. Raises Refused if the client sends less than about 1 KB a second: the next `seconds`
        kilobytes, or the rest of the body, must arrive within `seconds` seconds. Raises Refused also if the bodies of all requests together
        are too large. Raises Gone if the client closes its connection."""
        more, left, came = True, seconds, 0
        while more:
            asked_at = monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await self.receive()
            except TimeoutError:
                raise Refused(
                    408, "RequestTimeoutException", "The rest of the body did not arrive in time. Send the request again."
                ) from None
            if message["type"] != "http.request":
                raise Gone
            body, more = message.get("body", b""), message.get("more_body", False)
            left, came = max(0.0, left - (monotonic() - asked_at)), came + len(body)
            if came >= seconds * _LEAST_BYTES_A_SECOND:
                left, came = seconds, 0
            if body:
                yield body
                self.incoming.release(len(body))

    # --- time

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """For a handler that waits for a result. While the block runs, the request is counted among those that wait, and not among the
        ordinary ones. When the block begins, the request's time limit is removed, and it stays removed after the block. Raises Refused if
        too many requests wait already."""
        with self.capacities.waits.taken(self.tenant), self._unhurried():
            yield

    @contextlib.contextmanager
    def uploading(self) -> Iterator[None]:
        """For a handler that receives a large body. While the block runs, the request is counted among the uploads, and not among the
        ordinary ones. When the block begins, the request's time limit is removed, and it stays removed after the block. Raises Refused if
        too many uploads run already."""
        with self.capacities.uploads.taken(self.tenant), self._unhurried():
            yield

    @contextlib.contextmanager
    def _unhurried(self) -> Iterator[None]:
        with self.capacities.requests.given_back(self.tenant):
            if self.timer is not None:
                self.timer.reschedule(None)
            yield
