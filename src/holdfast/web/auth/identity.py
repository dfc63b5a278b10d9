"""Who asks: the server's handlers find it in the request's scope."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec

from holdfast.model.auditing import Actor, kept_days, principal
from holdfast.model.credentials import Credential, Role

_PLACE: Final = "identity"


class Identity(msgspec.Struct, frozen=True):
    """Whoever asks, and what they may."""

    name: str
    """The id of their credential."""
    roles: tuple[Role, ...]
    tenant: str | None = None
    """Sees and starts only executions of this tenant; None sees all."""

    @classmethod
    def of(cls, credential: Credential) -> Identity:
        """The holder of a credential."""
        return cls(credential.id, credential.roles, credential.tenant)


ANYBODY: Final = Identity("anybody", (Role.ADMIN,))
"""Whoever asks a server that needs no credentials."""


def identity_of(scope: MutableMapping[str, Any]) -> Identity:
    """Who asks. Where nothing protects an app, that is anybody."""
    found = scope.get("state", {}).get(_PLACE, ANYBODY)
    assert isinstance(found, Identity)
    return found


def actor_of(scope: MutableMapping[str, Any]) -> Actor | None:
    """Who acts, for the audit log; None where no gate stands: the listener of a function's own process."""
    found = scope.get("state", {}).get(_PLACE)
    if not isinstance(found, Identity):
        return None
    return Actor(
        who=principal() if found == ANYBODY else found.name, origin=origin_of(scope), tenant=found.tenant, days=kept_days(os.environ)
    )


def origin_of(scope: MutableMapping[str, Any]) -> str:
    """Where a request comes from."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


def identified(scope: MutableMapping[str, Any], identity: Identity) -> MutableMapping[str, Any]:
    """The scope of a request, with who asks."""
    return {**scope, "state": {**scope.get("state", {}), _PLACE: identity}}
