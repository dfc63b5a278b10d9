"""Checks of the members of a request against AWS's patterns and lengths. AWS's clients do not make these checks, so the server does."""

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
    """Return the value. Raises InvalidParameter if it does not have 1 to `most` characters. `member` names it in the error."""
    if not 1 <= len(value) <= most:
        raise InvalidParameter(f"{member}: must have 1 to {most} characters, and has {len(value)}.")
    return value


def fits(member: str, value: str, pattern: re.Pattern[str], most: int) -> str:
    """Return the value. Raises InvalidParameter if it does not have 1 to `most` characters or does not match the pattern. `member` names it
    in the error."""
    sized(member, value, most)
    if pattern.fullmatch(value) is None:
        raise InvalidParameter(f"{member}: {value!r:.200} does not match {pattern.pattern}.")
    return value


class FunctionReference(NamedTuple):
    """A function as a request names it: its name, and a version or an alias if the request has one."""

    name: str
    qualifier: str | None

    @property
    def arn(self) -> str:
        """The function's ARN on this server, with the version or alias if the request has one."""
        return function_arn(self.name, self.qualifier)


def function_arn(name: str, qualifier: str | None = None) -> str:
    """The ARN of a function, with its version or alias if one is given."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}" + (f":{qualifier}" if qualifier else "")


def function_reference(name: str, qualifier: str | None) -> FunctionReference:
    """Read a function's name, partial ARN or ARN. The qualifier may be a part of it, or be given separately. Raises InvalidParameter if it
    is not valid or the two qualifiers differ, and FunctionNotFound for another account or region."""
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
    """Read an execution's ARN. Raises InvalidParameter if it is too long or is no such ARN."""
    if len(text) > MAX_ARN:
        raise InvalidParameter(f"DurableExecutionArn: must have 1 to {MAX_ARN} characters, and has {len(text)}.")
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Arn:
    """Parse an ARN. The result is cached, because each checkpoint of an execution sends the same ARN."""
    return Arn.parse(text)


def is_id(text: str) -> bool:
    """Whether this text has the form of an execution's id. Only such a text is looked up in the store."""
    return _ID.fullmatch(text) is not None


def execution_name(value: str) -> str:
    """Return a DurableExecutionName. Raises InvalidParameter if it is not valid."""
    return fits("DurableExecutionName", value, _NAME, 64)


def tenant_id(value: str) -> str:
    """Return a TenantId. Raises InvalidParameter if it is not valid."""
    return fits("TenantId", value, _TENANT, 256)


def trace_header(value: str) -> str:
    """Return an X-Amzn-Trace-Id. Raises InvalidParameter if it is not valid."""
    return fits("TraceHeader", value, _TRACE, 8192)


def callback_id(value: str) -> str:
    """Return a CallbackId. Raises InvalidParameter if its characters or its length are not valid."""
    if not 1 <= len(value) <= 1024 or _CAPABILITY.fullmatch(value) is None:
        raise InvalidParameter("Invalid callback id")
    return value


def page_size(value: int | None, default: int = DEFAULT_ITEMS, most: int = MAX_ITEMS) -> int:
    """The page size that MaxItems asks for; None and 0 mean the default. Raises InvalidParameter if it is below 0 or above `most`."""
    if value is not None and not 0 <= value <= most:
        raise InvalidParameter(f"MaxItems: must be between 0 and {most}, and is {value}.")
    return value or default


def one_of(member: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value. Raises InvalidParameter if it is not one of the allowed words. `member` names it in the error."""
    if value not in allowed:
        raise InvalidParameter(f"{member}: {value!r:.100} is none of {', '.join(allowed)}.")
    return value
