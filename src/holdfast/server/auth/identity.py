"""Who asks: the server's handlers find it in the request's scope."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import msgspec

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


def identified(scope: MutableMapping[str, Any], identity: Identity) -> MutableMapping[str, Any]:
    """The scope of a request, with who asks."""
    return {**scope, "state": {**scope.get("state", {}), _PLACE: identity}}
