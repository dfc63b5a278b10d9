"""The caller of a request, as runs and approvals know it."""

from __future__ import annotations

from holdfast.model.audit import principal
from holdfast.web.identity import WITHOUT_CREDENTIAL, WITHOUT_GATE
from holdfast.web.requests import Request
from holdfast.workers.run_lookup import Caller


def caller_of(request: Request) -> Caller:
    """The caller. Its name (`principal`) is the person who holds its credential, or the id of the credential if that names no person. Its
    tenant is `default` if the credential is for all tenants. If the server needs no credentials, or the app has no gate, the name is
    `local:USER`, where USER is the user of the machine who runs the server."""
    identity = request.identity
    if identity in (WITHOUT_CREDENTIAL, WITHOUT_GATE):
        return Caller(principal=principal(), actor=request.actor)
    everywhere = identity.tenant is None
    tenant = identity.tenant or "default"
    who = {"principal": identity.person or identity.name, "credential": identity.name}
    return Caller(tenant=tenant, logged_in=True, everywhere=everywhere, actor=request.actor, **who)
