"""What the worker protocol reads in the head of a request: who asks, how long the caller waits, and the caller's trace."""

from __future__ import annotations

import re
from typing import Final

from holdfast.model.audit import principal
from holdfast.model.errors import InvalidParameter
from holdfast.signals.traceparent import CallerSpan, parent_of
from holdfast.web.identity import WITHOUT_CREDENTIAL
from holdfast.web.requests import Request
from holdfast.workers.run_lookup import Caller

_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_ASYNC: Final = re.compile(r"(^|[,;\s])respond-async($|[,;\s])")


def caller_of(request: Request) -> Caller:
    """The caller. Its name (`principal`) is the person who holds its credential, or the id of the credential if that names no person. Its
    tenant is `default` if the credential is for all tenants. If the server needs no credentials, the name is `local:USER`, where USER is
    the user of the machine who runs the server."""
    identity = request.identity
    if identity == WITHOUT_CREDENTIAL:
        return Caller(principal=principal(), actor=request.actor)
    everywhere = identity.tenant is None
    tenant = identity.tenant or "default"
    who = {"principal": identity.person or identity.name, "credential": identity.name}
    return Caller(tenant=tenant, logged_in=True, everywhere=everywhere, actor=request.actor, **who)


def trace_of(request: Request) -> CallerSpan | None:
    """The span of the caller, from the header `traceparent`; None if the header is missing or not valid."""
    return parent_of(request.header(b"traceparent"))


def is_async(request: Request) -> bool:
    """Whether the caller does not want to wait for the run's response, and only wants the address of the run: `Prefer: respond-async`, or
    `?wait=0`. Without this `Prefer`, raises the errors of `patience`."""
    return _ASYNC.search((request.header(b"prefer") or "").lower()) is not None or patience(request, 1.0, 1.0) == 0


def patience(request: Request, default: float, most: float) -> float:
    """How many seconds the caller is ready to wait for a response: the query's `wait`, but not more than `most`. `default` if the query has
    no `wait`. Raises InvalidParameter if `wait` is not a number of seconds with at most 6 digits before the point and 3 after it. Raises
    Refused if the query has two different values of `wait`."""
    text = request.text("wait")
    if text is None:
        return default
    if _SECONDS.fullmatch(text) is None:
        raise InvalidParameter(
            f"wait: {text!r:.100} is not accepted. Write seconds with at most 6 digits before the point and 3 after it, such as 2.5."
        )
    return min(float(text), most)
