"""The requests that read logs: the members of each operation, checked against AWS's own model. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.lambda_api.logs.log_lines import PREFIX
from holdfast.lambda_api.logs.segments import LogPosition
from holdfast.model.errors import InvalidParameter

MAX_ITEMS: Final = 50
_GROUP: Final = re.compile(r"[.\-_/#A-Za-z0-9]{1,512}")
_ARN: Final = re.compile(r"arn:[\w-]+:logs:[\w-]*:\d{12}:log-group:(?P<name>[.\-_/#A-Za-z0-9]{1,512})(?::\*)?")
_STREAM: Final = re.compile(r"[^:*]{1,512}")
_TOKEN: Final = re.compile(r"(?P<way>[fb])/(?P<segment>\d{1,12})/(?P<offset>\d{1,15})/(?P<search>[0-9a-f]{16})")


class _PagedRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    next_token: str | None = None
    limit: int | None = None


class _OfGroup(_PagedRequest, frozen=True, kw_only=True, rename="camel"):
    log_group_name: str | None = None
    log_group_identifier: str | None = None

    def function(self) -> str:
        """The function whose log group the request names. For a log group that is not Lambda's, a name that no function has. Raises
        InvalidParameter if the request does not have exactly one of `logGroupName` and `logGroupIdentifier`, or if that is not valid."""
        if (self.log_group_name is None) is (self.log_group_identifier is None):
            raise InvalidParameter("Give exactly one of logGroupName and logGroupIdentifier.")
        if self.log_group_name is not None:
            return function_of("logGroupName", self.log_group_name)
        return function_of("logGroupIdentifier", self.log_group_identifier or "")


class FilterLogEvents(_OfGroup, frozen=True, kw_only=True, rename="camel"):
    """A request for the matching records of a log. Its members `interleaved` and `unmask` are ignored."""

    log_stream_names: list[str] | None = None
    log_stream_name_prefix: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    filter_pattern: str | None = None
    start_from_head: bool | None = None

    def checked(self) -> FilterLogEvents:
        """Return this request. Raises InvalidParameter if its streams or its times are not valid, or do not go together."""
        if self.log_stream_names is not None and self.log_stream_name_prefix is not None:
            raise InvalidParameter("logStreamNames and logStreamNamePrefix cannot both be given.")
        if self.log_stream_names is not None and not 1 <= len(self.log_stream_names) <= 100:
            raise InvalidParameter("logStreamNames must have 1 to 100 names.")
        for name in self.log_stream_names or ():
            stream("logStreamNames", name)
        if self.log_stream_name_prefix is not None:
            stream("logStreamNamePrefix", self.log_stream_name_prefix)
        _times(self.start_time, self.end_time)
        return self


class GetLogEvents(_OfGroup, frozen=True, kw_only=True, rename="camel"):
    """A request for the records of one stream."""

    log_stream_name: str
    start_time: int | None = None
    end_time: int | None = None
    start_from_head: bool | None = None

    def checked(self) -> GetLogEvents:
        """Return this request. Raises InvalidParameter if its stream or its times are not valid."""
        stream("logStreamName", self.log_stream_name)
        _times(self.start_time, self.end_time)
        return self


class DescribeLogGroups(_PagedRequest, frozen=True, kw_only=True, rename="camel"):
    """A request for the log groups. There is only one account, so `accountIdentifiers` and `includeLinkedAccounts` are ignored."""

    log_group_name_prefix: str | None = None
    log_group_name_pattern: str | None = None
    log_group_class: str | None = None
    log_group_identifiers: list[str] | None = None

    def checked(self) -> DescribeLogGroups:
        """Return this request. Raises InvalidParameter if the names or the class of the logs are not valid, or two of them exclude each
        other."""
        if self.log_group_name_prefix is not None and self.log_group_name_pattern is not None:
            raise InvalidParameter("logGroupNamePrefix and logGroupNamePattern cannot both be given.")
        if self.log_group_name_prefix is not None and not _GROUP.fullmatch(self.log_group_name_prefix):
            raise InvalidParameter("logGroupNamePrefix must have 1 to 512 characters: letters, digits, and . - _ / #.")
        if self.log_group_class not in (None, "STANDARD", "INFREQUENT_ACCESS", "DELIVERY", "ESSENTIALS"):
            raise InvalidParameter(
                f"logGroupClass: {self.log_group_class!r:.100} is none of STANDARD, INFREQUENT_ACCESS, DELIVERY, ESSENTIALS."
            )
        if self.log_group_identifiers is not None and not 1 <= len(self.log_group_identifiers) <= MAX_ITEMS:
            raise InvalidParameter(f"logGroupIdentifiers must have 1 to {MAX_ITEMS} names.")
        return self

    def functions(self) -> set[str] | None:
        """The functions whose log groups the request names; None if it names none, which means all."""
        if self.log_group_identifiers is None:
            return None
        return {function_of("logGroupIdentifiers", one) for one in self.log_group_identifiers}


class DescribeLogStreams(_OfGroup, frozen=True, kw_only=True, rename="camel"):
    """A request for the streams of a log."""

    log_stream_name_prefix: str | None = None
    order_by: str | None = None
    descending: bool | None = None

    def checked(self) -> DescribeLogStreams:
        """Return this request. Raises InvalidParameter if `logStreamNamePrefix` or `orderBy` is not valid, or if the two do not go
        together."""
        if self.log_stream_name_prefix is not None:
            stream("logStreamNamePrefix", self.log_stream_name_prefix)
        if self.order_by not in (None, "LogStreamName", "LastEventTime"):
            raise InvalidParameter(f"orderBy: {self.order_by!r:.100} is neither LogStreamName nor LastEventTime.")
        if self.order_by == "LastEventTime" and self.log_stream_name_prefix is not None:
            raise InvalidParameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
        return self


def function_of(member: str, name: str) -> str:
    """The function of a log group, which is given by name or ARN. For a group that is not Lambda's, a name that no function has. Raises
    InvalidParameter if `name` is neither a name nor an ARN; `member` says in the error which member of the request it is."""
    arn = _ARN.fullmatch(name)
    name = arn["name"] if arn is not None else name
    if not _GROUP.fullmatch(name):
        raise InvalidParameter(f"{member}: {name!r:.100} is not the name of a log group such as {PREFIX}NAME.")
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else f"/{name}"


def stream(member: str, name: str) -> None:
    """Raise InvalidParameter if `name` cannot be the name of a stream. `member` says in the error which member of the request it is."""
    if not _STREAM.fullmatch(name):
        raise InvalidParameter(f"{member}: {name!r:.100} is not the name of a log stream: 1 to 512 characters without : and *.")


def size(limit: int | None, most: int) -> int:
    """The page size of a request; `most` if it gives no limit. Raises InvalidParameter if the limit is not from 1 to `most`."""
    if limit is None:
        return most
    if not 1 <= limit <= most:
        raise InvalidParameter(f"limit is {limit}; use 1 to {most}.")
    return limit


def _times(*given: int | None) -> None:
    if any(time is not None and not 0 <= time < 1 << 62 for time in given):
        raise InvalidParameter("startTime and endTime are milliseconds after 1970, not less than 0.")


class Token(msgspec.Struct, frozen=True):
    """What a client sends to get the next page: a position in a log, the direction, and the id of the search."""

    position: LogPosition
    is_forward: bool
    search: str

    def __str__(self) -> str:
        return f"{'f' if self.is_forward else 'b'}/{self.position.segment}/{self.position.offset}/{self.search}"


def search_of(*parts: object) -> str:
    """The id of a search, made from what the client searches for. A token is accepted only in a request with the same id."""
    return hashlib.sha256(repr(parts).encode(errors="replace")).hexdigest()[:16]


def token_of(text: str | None, search: str) -> Token | None:
    """Decode a token that the client sent back; None without a token. Raises InvalidParameter if the text is not such a token, or if it was
    made for another search."""
    if text is None:
        return None
    found = _TOKEN.fullmatch(text)
    if found is None or found["search"] != search:
        raise no_such_token()
    return Token(LogPosition(int(found["segment"]), int(found["offset"])), found["way"] == "f", search)


def no_such_token() -> InvalidParameter:
    """The error for a token that this server did not make, that it made for another search, or whose log is gone."""
    return InvalidParameter("The specified nextToken is invalid: use it only with the request it came from, or begin again without it.")


def after(text: str | None, keys: Sequence[str], search: str, *, descending: bool = False) -> int:
    """The index in `keys` at which the next page begins: that of the first key after the key in the token `text`; 0 if `text` is None.
    `keys` is sorted from the smallest to the largest, with `descending` from the largest to the smallest. Raises InvalidParameter if the
    token was made for another search."""
    if text is None:
        return 0
    mine, _, key = text.partition("/")
    if mine != search:
        raise no_such_token()
    return next((number for number, one in enumerate(keys) if (one < key if descending else one > key)), len(keys))
