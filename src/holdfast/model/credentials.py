"""Credentials: who may ask the server for what. The secret itself is never among them, only what recognises it.

An access key signs requests (AWS Signature Version 4), so its secret must be known to whoever verifies: it is kept sealed. A token is
sent as it is, so its hash is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Word

_TENANT: Final = re.compile(r"[a-zA-Z0-9._:/=+\-@ ]{1,256}")
_MAX_NOTE: Final = 256

KEYS_SECRET_VARIABLE: Final = "HOLDFAST_KEYS_SECRET"
KEYS_SECRET_BEFORE_VARIABLE: Final = "HOLDFAST_KEYS_SECRET_BEFORE"
KEYS_FILE_VARIABLE: Final = "HOLDFAST_KEYS_FILE"
KEYS_VARIABLES: Final = frozenset({KEYS_SECRET_VARIABLE, KEYS_SECRET_BEFORE_VARIABLE, KEYS_FILE_VARIABLE})
"""What opens access keys. No function, tool or body may have any of it."""


class CredentialKind(Word):
    """How its holder shows it."""

    ACCESS_KEY = "access-key"
    TOKEN = "token"


class Role(Word):
    """What its holder may do. Each of the others may also do what a viewer may; an admin may do everything."""

    VIEWER = "viewer"
    """Look at functions, executions, histories and signals."""
    OPERATOR = "operator"
    """Invoke functions, stop executions, and checkpoint as a function does."""
    APPROVER = "approver"
    """Answer callbacks, and decide what workers ask for."""
    SETTLER = "settler"
    """Say what became of a call of a worker whose outcome is unknown."""
    ADMIN = "admin"
    """Everything, deploying functions included."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential as a store keeps it."""

    id: str
    """Names it, and is no secret: the id of an access key, or of a token."""
    kind: CredentialKind
    secret: str
    """The sealed secret of an access key; the SHA-256 of a token, in hex."""
    roles: tuple[Role, ...]
    """In alphabetical order, without repeats, at least one."""
    tenant: str | None = None
    """Sees and starts only executions of this tenant."""
    note: str = ""
    """For people: whose it is."""
    created_at: int
    expires_at: int | None = None

    def is_expired(self, now: int) -> bool:
        """Whether it is good no more."""
        return self.expires_at is not None and self.expires_at <= now


def checked_roles(names: Iterable[str]) -> tuple[Role, ...]:
    """Roles by name, in the order in which they are kept."""
    known = {role.value: role for role in Role}
    wanted = sorted(set(names))
    for name in wanted:
        if name not in known:
            raise InvalidParameter(f"There is no role {name!r}. The roles are {', '.join(known)}.")
    if not wanted:
        raise InvalidParameter(f"A credential needs a role: {', '.join(known)}.")
    return tuple(known[name] for name in wanted)


def checked_tenant(tenant: str | None) -> str | None:
    """A tenant's id, as AWS has them."""
    if tenant is not None and not _TENANT.fullmatch(tenant):
        raise InvalidParameter(f"Tenant {tenant!r}: use 1 to 256 letters, digits, spaces or any of . _ : / = + - @")
    return tenant


def checked_note(note: str) -> str:
    """A note that fits on a line."""
    if len(note) > _MAX_NOTE or not note.isprintable():
        raise InvalidParameter(f"A note is one line of at most {_MAX_NOTE} characters.")
    return note
