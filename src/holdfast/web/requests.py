"""Requests: what a client sent. What cannot be read is refused here, before anything is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from holdfast.model.auditing import Actor
from holdfast.model.credentials import Role
from holdfast.model.errors import InvalidParameter
from holdfast.web.asgi import Scope
from holdfast.web.auth.identity import actor_of, identity_of
from holdfast.web.errors import unreadable

T = TypeVar("T")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}")
_MAX_FIELDS: Final = 200

_label = lru_cache(maxsize=4096)(unquote)
"""An execution's ARN comes with each of its checkpoints."""
_CACHED_CHARACTERS: Final = 512


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
    def roles(self) -> tuple[Role, ...]:
        """What whoever asks may do; nothing, where anybody may ask."""
        return identity_of(self._scope).roles

    @property
    def actor(self) -> Actor | None:
        """Who acts, for the audit log."""
        return actor_of(self._scope)

    @property
    def sees_values(self) -> bool:
        """Whether whoever asks may see what environment variables hold: who could also set them."""
        return Role.ADMIN in self.roles and self.tenant is None

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
            # As signatures read it (auth/sigv4.py): a letter that came as it is and the same letter percent-encoded are one.
            text = self._scope["query_string"].decode("utf-8", "replace")
            return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise unreadable(f"The query has more than {_MAX_FIELDS} fields.") from None

    def texts(self, name: str) -> tuple[str, ...]:
        """Every value of a query member."""
        return tuple(value for key, value in self._query if key == name)

    def text(self, name: str) -> str | None:
        """A query member. Two different values are refused: a signature does not say which of them came first."""
        found = set(self.texts(name))
        if len(found) > 1:
            raise unreadable(f"{name}: is given {len(found)} times, with different values.")
        return found.pop() if found else None

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
