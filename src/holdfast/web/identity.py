"""Identity: the caller of a request, as the gate has recognised it."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.credentials import Credential, Role


class CallerIdentity(msgspec.Struct, frozen=True):
    """A caller, and what it may do."""

    name: str
    """The id of the caller's credential; `no-credential` if no credential was needed."""
    roles: tuple[Role, ...]
    tenant: str | None = None
    """The only tenant whose executions the caller sees and starts; None: those of all tenants."""
    person: str | None = None
    """The person who holds the credential; None if the credential names no person."""

    @classmethod
    def of(cls, credential: Credential) -> CallerIdentity:
        """The identity of the holder of a credential."""
        return cls(credential.id, credential.roles, credential.tenant, credential.person)


WITHOUT_CREDENTIAL: Final = CallerIdentity("no-credential", (Role.ADMIN,))
"""The caller of every request to a server that needs no credentials: it may do everything."""
WITHOUT_GATE: Final = CallerIdentity("no-gate", (Role.ADMIN,))
"""The caller of every request to an app without a gate, as on the listener for the processes of functions: it may do everything, and the
audit log does not name it."""
UNKNOWN_CALLER: Final = CallerIdentity("no-credential", ())
"""The caller of a route that needs no role. The gate does not ask who this caller is."""
