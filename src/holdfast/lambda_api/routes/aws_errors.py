"""Errors for AWS's clients: their form is that of web/error_shapes.py. For a few errors, the client looks for a message of AWS's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError, InvalidToken, LeaseLost
from holdfast.web.error_shapes import reply_to
from holdfast.web.refusals import Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.route_groups import RouteGroup

STALE: Final = "Invalid checkpoint token"
STALE_TITLE: Final = "Invalid Checkpoint Token"
_SDK: Final = re.compile(r"aws-durable-execution-sdk-(python|js|java)/(\d+)\.(\d+)\.(\d+)")
_LAST_TITLE_CASED: Final[Mapping[str, tuple[int, int, int]]] = {"python": (2, 0, 0), "js": (2, 4, 0)}
_DATED: Final = re.compile(r"/\d{4}-\d\d-\d\d/")


class HookGroup(RouteGroup):
    """Routes that are not AWS's, but whose errors have AWS's messages."""

    def message(self, error: HoldfastError, request: Request) -> str:
        if isinstance(error, InvalidToken | LeaseLost):
            return stale_message(_agent(request))
        return error.on_the_wire if isinstance(error, ExecutionAlreadyStarted) else str(error)


class AwsGroup(HookGroup):
    """The routes of AWS's APIs. Each path begins with a date, or the header X-Amz-Target names the operation."""

    def owns(self, path: str, target: str | None) -> bool:
        return target is not None or _DATED.match(path) is not None

    def denial(self, refused: Refused, request: Request) -> Reply:
        return reply_to(refused)


HOOKS: Final = HookGroup()
AWS: Final = AwsGroup()


def stale_message(agent: str) -> str:
    """The message by which an SDK recognises that its checkpoint token is old. `agent` is the SDK's User-Agent. Some versions of SDKs
    recognise the message only in title case. With any other message they fail the execution."""
    found = _SDK.search(agent)
    if found is None:
        return STALE
    language, version = found[1], (int(found[2]), int(found[3]), int(found[4]))
    titled = language == "java" or version <= _LAST_TITLE_CASED[language]
    return STALE_TITLE if titled else STALE


def _agent(request: Request) -> str:
    """The headers User-Agent and X-Amz-User-Agent as one text. AWS's clients in browsers and in Node name themselves in
    X-Amz-User-Agent."""
    headers = request.scope["headers"]
    return " ".join(value.decode("latin-1") for key, value in headers if key in (b"user-agent", b"x-amz-user-agent"))
