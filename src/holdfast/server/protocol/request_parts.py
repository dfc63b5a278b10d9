"""What the worker protocol reads of a request: the body, how long the caller waits, and the caller's trace."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model import json_structs
from holdfast.model.errors import InvalidParameter
from holdfast.signals.traceparent import CallerSpan, parent_of
from holdfast.web.requests import Request

_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_ASYNC: Final = re.compile(r"(^|[,;\s])respond-async($|[,;\s])")


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


def body_of(request: Request, kind: type[Any]) -> Any:
    """The body as a `kind`; an empty body is the object `{}`. Raises InvalidRequest if the body does not fit, or has too many values."""
    try:
        return json_structs.received(request.content or b"{}", kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is not valid: {error}") from None
