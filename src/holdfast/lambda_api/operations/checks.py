"""Checks of a request's members: AWS's patterns and lengths. The server checks them because clients do not."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.model.errors import FunctionNotFound, InvalidParameter
from holdfast.model.ids import ACCOUNT, REGION, Arn

MAX_ARN: Final = 1024
MAX_ITEMS: Final = 1000
DEFAULT_ITEMS: Final = 100
MAX_STATUSES: Final = 10

_FUNCTION = re.compile(
    r"(?:arn:[a-zA-Z0-9-]+:lambda:(?P<region>[a-zA-Z0-9-]+):(?P<account>[0-9]{12}):function:|(?:(?P<owner>[0-9]{12}):)?(?:function:)?)"
    r"(?P<name>[a-zA-Z0-9_.-]+)(?::(?P<qualifier>\$LATEST(?:\.PUBLISHED)?|[a-zA-Z0-9_-]+))?"
)
_QUALIFIER = re.compile(r"\$LATEST(?:\.PUBLISHED)?|[a-zA-Z0-9_$-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_TENANT = re.compile(r"[a-zA-Z0-9._:/=+@ -]+")
_TRACE = re.compile(r"[\x20-\x7E]+")
_CAPABILITY = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def sized(member: str, value: str, most: int) -> str:
    """Return the value, or raise when it does not have 1 to `most` characters."""
    if not 1 <= len(value) <= most:
        raise InvalidParameter(f"{member}: must have 1 to {most} characters, and has {len(value)}.")
    return value


def fits(member: str, value: str, pattern: re.Pattern[str], most: int) -> str:
    """Return the value, or raise when it does not have 1 to `most` characters or does not match the pattern."""
    sized(member, value, most)
    if pattern.fullmatch(value) is None:
        raise InvalidParameter(f"{member}: {value!r:.200} does not match {pattern.pattern}.")
    return value


class FunctionReference(NamedTuple):
    """A function as a request names it."""

    name: str
    qualifier: str | None

    @property
    def arn(self) -> str:
        """The function's ARN on this server."""
        return function_arn(self.name, self.qualifier)


def function_arn(name: str, qualifier: str | None = None) -> str:
    """The ARN of a function, with its version or alias if one is given."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" + (f":{qualifier}" if qualifier else "")


def function_reference(name: str, qualifier: str | None) -> FunctionReference:
    """Read a name, partial ARN or ARN. The qualifier is part of it or given separately."""
    found = _FUNCTION.fullmatch(sized("FunctionName", name, 256))
    if found is None:
        raise InvalidParameter(f"FunctionName: {name!r:.200} is not a valid function name or ARN, with or without a version or alias.")
    if qualifier is not None:
        fits("Qualifier", qualifier, _QUALIFIER, 128)
    inside = found["qualifier"]
    if inside is not None and qualifier is not None and inside != qualifier:
        raise InvalidParameter("The derived qualifier from the function name does not match the specified qualifier.")
    if (found["account"] or found["owner"] or ACCOUNT) != ACCOUNT or (found["region"] or REGION) != REGION:
        raise FunctionNotFound(f"Function not found: {name} (here the region is {REGION}, and the account {ACCOUNT})")
    return FunctionReference(found["name"], inside or qualifier)


def execution_arn(text: str) -> Arn:
    """Read an execution's ARN."""
    if len(text) > MAX_ARN:
        raise InvalidParameter(f"DurableExecutionArn: must have 1 to {MAX_ARN} characters, and has {len(text)}.")
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Arn:
    """Parse an ARN. The result is cached, because each checkpoint of an execution sends the same ARN."""
    return Arn.parse(text)


def is_id(text: str) -> bool:
    """Whether this text can be the id of an execution. No other text is looked up in the store."""
    return _ID.fullmatch(text) is not None


def execution_name(value: str) -> str:
    """A DurableExecutionName."""
    return fits("DurableExecutionName", value, _NAME, 64)


def tenant_id(value: str) -> str:
    """A TenantId."""
    return fits("TenantId", value, _TENANT, 256)


def trace_header(value: str) -> str:
    """An X-Amzn-Trace-Id."""
    return fits("TraceHeader", value, _TRACE, 8192)


def callback_id(value: str) -> str:
    """Check the characters and the length of a CallbackId."""
    if not 1 <= len(value) <= 1024 or _CAPABILITY.fullmatch(value) is None:
        raise InvalidParameter("Invalid callback id")
    return value


def page_size(value: int | None, default: int = DEFAULT_ITEMS, most: int = MAX_ITEMS) -> int:
    """MaxItems; 0 means the default."""
    if value is not None and not 0 <= value <= most:
        raise InvalidParameter(f"MaxItems: must be between 0 and {most}, and is {value}.")
    return value or default


def one_of(member: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value, or raise when it is not one of the allowed words."""
    if value not in allowed:
        raise InvalidParameter(f"{member}: {value!r:.100} is none of {', '.join(allowed)}.")
    return value
