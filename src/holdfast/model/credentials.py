"""Credentials: which caller may ask the server for what. The store never contains a secret as plain text.

An access key signs requests (AWS Signature Version 4), and the server needs its secret to verify a signature; so the store keeps the secret
encrypted. A token is sent with each request, so its hash is enough.
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
_PERSON: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+\-]{0,127}")
_RESERVED: Final = ("hft-", "hfka")
"""Ids of credentials begin with one of these texts, in lower or upper case. A person's name must not, so that it cannot be mistaken for the
id of a credential."""

KEYS_SECRET_VARIABLE: Final = "HOLDFAST_KEYS_SECRET"
KEYS_SECRET_BEFORE_VARIABLE: Final = "HOLDFAST_KEYS_SECRET_BEFORE"
KEYS_FILE_VARIABLE: Final = "HOLDFAST_KEYS_FILE"
KEYS_VARIABLES: Final = frozenset({KEYS_SECRET_VARIABLE, KEYS_SECRET_BEFORE_VARIABLE, KEYS_FILE_VARIABLE})
"""The environment variables with which access keys can be decrypted. No function, tool or body gets any of them."""


DEFAULT_TENANT: Final = "default"
"""An execution or a schedule without a tenant counts as one of this tenant."""


class CredentialKind(Word):
    """How a caller proves that it has the credential."""

    ACCESS_KEY = "access-key"
    TOKEN = "token"


class Role(Word):
    """What a caller may do. Each role includes what the role VIEWER allows."""

    VIEWER = "viewer"
    """Look at functions, executions, runs, approvals, queues, schedules, costs and logs."""
    OPERATOR = "operator"
    """Start, stop and change executions, runs, queues and schedules, and send checkpoints as a function does."""
    APPROVER = "approver"
    """Answer callbacks, and decide approvals."""
    SETTLER = "settler"
    """Report how a call of a tool ended, if the run that made the call could not find it out."""
    ADMIN = "admin"
    """Everything, deploying functions included."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential as a store keeps it."""

    id: str
    """The id of an access key or of a token. It is not secret."""
    kind: CredentialKind
    secret: str
    """The encrypted secret of an access key, or the SHA-256 of a token in hex."""
    roles: tuple[Role, ...]
    """The roles of the credential: at least one, in alphabetical order, without repeats."""
    tenant: str | None = None
    """The caller sees and starts only executions of this tenant; None: of all tenants."""
    note: str = ""
    """A note for people, such as the owner of the credential."""
    person: str | None = None
    """The person who holds it; None if no person is named. Several credentials may name one person; in approvals they count as one
    person."""
    created_at: int
    """In milliseconds since 1970-01-01 UTC."""
    expires_at: int | None = None
    """In milliseconds since 1970-01-01 UTC; None: it does not expire."""

    def is_expired(self, now: int) -> bool:
        """Whether the credential has expired."""
        return self.expires_at is not None and self.expires_at <= now


def checked_roles(names: Iterable[str]) -> tuple[Role, ...]:
    """The roles with these names, in alphabetical order, without repeats. Raises InvalidParameter for an unknown name, and if `names` is
    empty."""
    known = {role.value: role for role in Role}
    wanted = sorted(set(names))
    for name in wanted:
        if name not in known:
            raise InvalidParameter(f"There is no role {name!r}. The roles are {', '.join(known)}.")
    if not wanted:
        raise InvalidParameter(f"A credential needs a role. Give at least one of {', '.join(known)}.")
    return tuple(known[name] for name in wanted)


def tenant_of(given: str | None) -> str:
    """The tenant that an execution or a schedule counts for: the one that it has, else `default`."""
    return DEFAULT_TENANT if given is None else given


def checked_tenant(tenant: str | None) -> str | None:
    """The tenant's id itself, or None. Raises InvalidParameter if it is empty, has more than 256 characters, or has characters that AWS
    does not allow."""
    if tenant is not None and not _TENANT.fullmatch(tenant):
        raise InvalidParameter(f"Tenant {tenant!r}: use 1 to 256 letters, digits, spaces or any of . _ : / = + - @")
    return tenant


def checked_person(person: str | None) -> str | None:
    """The name of a person itself, or None. Raises InvalidParameter if it is empty or too long, begins like the id of a credential, or has
    characters that are not allowed. A colon is not allowed, so that no name looks like a user of the machine (`local:ann`)."""
    if person is not None and (not _PERSON.fullmatch(person) or person.lower().startswith(_RESERVED)):
        raise InvalidParameter(
            f"Person {person!r:.150}: use 1 to 128 letters, digits or any of . _ @ + -, and begin with a letter or a digit. "
            "A name that begins like the id of a credential (hft-, HFKA) is not allowed."
        )
    return person


def checked_note(note: str) -> str:
    """The note of a credential, unchanged. Raises InvalidParameter if it is too long or has characters that are not printable."""
    if len(note) > _MAX_NOTE or not note.isprintable():
        raise InvalidParameter(f"A note must be one line of at most {_MAX_NOTE} printable characters.")
    return note
