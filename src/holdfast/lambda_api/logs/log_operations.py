"""The operations of CloudWatch Logs that read logs. Each gets a request and the tenant of the caller, and answers as AWS does. A caller
without a tenant reads the lines of all tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.lambda_api.logs import log_requests as asking
from holdfast.lambda_api.logs.filter_patterns import FilterPattern
from holdfast.lambda_api.logs.log_lines import PREFIX, LogLine, group_arn
from holdfast.lambda_api.logs.log_reader import BEGINNING, MAX_EVENTS, LineFilter, LogPage, LogReader, Stream
from holdfast.lambda_api.logs.log_requests import DescribeLogGroups, DescribeLogStreams, FilterLogEvents, GetLogEvents, Token
from holdfast.lambda_api.logs.log_writer import LogWriter
from holdfast.lambda_api.logs.segments import KeptRecord, LogGroup, LogPosition
from holdfast.model import json_structs
from holdfast.model.clock import Clock
from holdfast.model.deploy_errors import LogNotFound
from holdfast.model.execution import Execution

_FLUSH_SECONDS: Final = 2.0
_ID_DIGITS: Final = 56
_LATE_MS: Final = 60_000
"""Lines that are at most this many milliseconds later than the end of an execution may still belong to it."""
MAX_OF_EXECUTION: Final = 1_000
"""At most this many lines of one execution are read."""

LogsAnswer = dict[str, Any]


class Logs:
    """Reads the logs of functions for a client. All methods block."""

    def __init__(self, keeper: LogWriter, clock: Clock, is_function: Callable[[str], bool]) -> None:
        """`is_function` tells whether there is a function of this name. If there is, its log can be read before it has a line (it
        is empty then); only the list of logs leaves it out."""
        self._keeper = keeper
        self._folder = keeper.folder
        self._reader = LogReader(keeper.folder)
        self._clock = clock
        self._is_function = is_function

    # --- events

    def filter_log_events(self, asked: FilterLogEvents, tenant: str | None) -> LogsAnswer:
        """FilterLogEvents: a page of the matching events of one log, of all its streams or of those that the request names. The oldest come
        first, unless the request has `startFromHead` false. Raises LogNotFound if there is no such log, and PatternInvalid if the filter
        pattern is not valid."""
        asked = asked.checked()
        function, limit = asked.function(), asking.size(asked.limit, MAX_EVENTS)
        pattern = FilterPattern(asked.filter_pattern or "")
        names, prefix = asked.log_stream_names, asked.log_stream_name_prefix
        search = asking.search_of(function, names, prefix, asked.start_time, asked.end_time, asked.filter_pattern)
        token = self._token(asked.next_token, search, function, tenant)
        since, until = self._since(asked.start_time), asked.end_time

        def wanted(record: LogLine) -> bool:
            return (
                record.at >= since
                and (until is None or record.at <= until)
                and (tenant is None or record.tenant == tenant)
                and (names is None or record.stream in names)
                and (prefix is None or record.stream.startswith(prefix))
                and pattern.matches(record.text)
            )

        is_forward = token.is_forward if token is not None else asked.start_from_head is not False
        page = self._page(function, token, since, wanted, limit, is_forward=is_forward)
        answer: LogsAnswer = {"events": [_event(kept) | _identity(kept) for kept in page.found], "searchedLogStreams": []}
        return answer if page.is_last else answer | {"nextToken": str(Token(page.end, is_forward, search))}

    def get_log_events(self, asked: GetLogEvents, tenant: str | None) -> LogsAnswer:
        """GetLogEvents: a page of the events of one stream. The first page has the newest events, or the oldest ones if the request has
        `startFromHead` true. In each page the oldest event comes first. Raises LogNotFound if there is no such stream."""
        asked = asked.checked()
        function, limit, name = asked.function(), asking.size(asked.limit, MAX_EVENTS), asked.log_stream_name
        search = asking.search_of(function, name)
        token = self._token(asked.next_token, search, function, tenant)
        since, until = self._since(asked.start_time), asked.end_time
        if name not in self._reader.streams(function, tenant, self._since(None)):
            raise LogNotFound("The specified log stream does not exist.")

        def wanted(record: LogLine) -> bool:
            return (
                record.stream == name
                and record.at >= since
                and (until is None or record.at < until)
                and (tenant is None or record.tenant == tenant)
            )

        is_forward = token.is_forward if token is not None else asked.start_from_head is True
        page = self._page(function, token, since, wanted, limit, is_forward=is_forward)
        found = page.found if is_forward else page.found[::-1]
        begin, end = self._ends(function, found, page, token, is_forward=is_forward)
        return {
            "events": [_event(kept) for kept in found],
            "nextForwardToken": str(Token(end, True, search)),
            "nextBackwardToken": str(Token(begin, False, search)),
        }

    def _ends(
        self, function: str, found: list[KeptRecord], page: LogPage, token: Token | None, *, is_forward: bool
    ) -> tuple[LogPosition, LogPosition]:
        """Two positions: where the next page backward begins, and where the next page forward begins. If nothing was found and the log ends
        here, both are the position in the token that the client sent: the same token tells the client that nothing follows. If it sent
        none, both are the position after the newest record."""
        if not found and page.is_last:
            place = token.position if token is not None else self._reader.newest(function)
            return place, place
        other = token.position if token is not None else page.end
        if is_forward:
            return (found[0].begin if found else other), page.end
        return page.end, (found[-1].end if found else other)

    def _page(self, function: str, token: Token | None, since: int, wanted: LineFilter, limit: int, *, is_forward: bool) -> LogPage:
        if is_forward:
            return self._reader.forward(function, BEGINNING if token is None else token.position, since, wanted, limit)
        return self._reader.backward(function, None if token is None else token.position, since, wanted, limit)

    def of_execution(self, header: Execution) -> list[dict[str, Any]]:
        """The log lines of an execution as JSON objects, the oldest first: at most `MAX_OF_EXECUTION`. The search also has limits of bytes
        and of time; lines that it does not reach are left out. First waits until the writer has written the lines that it has, but at most
        _FLUSH_SECONDS."""
        self._keeper.flush(_FLUSH_SECONDS)
        since = self._since(header.started_at)
        until = None if header.ended_at is None else header.ended_at + _LATE_MS

        def wanted(record: LogLine) -> bool:
            return record.at >= since and (until is None or record.at <= until) and header.id in record.text

        page = self._page(header.function, None, since, wanted, MAX_OF_EXECUTION, is_forward=True)
        told = [json_structs.decoded(kept.record.text, dict[str, Any]) for kept in page.found]
        return [line for line in told if str(line.get("executionArn", "")).endswith(f"/{header.id}")]

    # --- groups and streams

    def describe_log_groups(self, asked: DescribeLogGroups, tenant: str | None) -> LogsAnswer:
        """DescribeLogGroups: a page of the logs that the request asks for, of functions that have logged a line. A caller with a tenant
        gets only the logs that have a line of this tenant."""
        asked = asked.checked()
        limit, only = asking.size(asked.limit, asking.MAX_ITEMS), asked.functions()
        self._keeper.flush(_FLUSH_SECONDS)
        prefix, pattern = asked.log_group_name_prefix or "", asked.log_group_name_pattern or ""
        groups = [
            group
            for group in self._folder.groups()
            if (name := f"{PREFIX}{group.function}").startswith(prefix)
            and pattern in name
            and asked.log_group_class in (None, "STANDARD")
            and (only is None or group.function in only)
            and (tenant is None or self._reader.streams(group.function, tenant, self._since(None)))
        ]
        search = asking.search_of(prefix, pattern, asked.log_group_class, only and sorted(only))
        keys = [group.function for group in groups]
        begin = asking.after(asked.next_token, keys, search)
        page = groups[begin : begin + limit]
        answer: LogsAnswer = {"logGroups": [self._group(group, tenant) for group in page]}
        return answer if begin + limit >= len(groups) else answer | {"nextToken": f"{search}/{page[-1].function}"}

    def _group(self, group: LogGroup, tenant: str | None) -> LogsAnswer:
        arn = group_arn(group.function)
        if tenant is None:
            size = sum(segment.size for segment in self._folder.segments(group.function))
        else:
            size = sum(stream.size for stream in self._reader.streams(group.function, tenant, 0).values())
        return {
            "logGroupName": f"{PREFIX}{group.function}",
            "creationTime": group.created,
            "retentionInDays": self._folder.retention.max_days,
            "metricFilterCount": 0,
            "arn": f"{arn}:*",
            "storedBytes": size,
            "logGroupClass": "STANDARD",
            "logGroupArn": arn,
            "deletionProtectionEnabled": False,
            "bearerTokenAuthenticationEnabled": False,
        }

    def describe_log_streams(self, asked: DescribeLogStreams, tenant: str | None) -> LogsAnswer:
        """DescribeLogStreams: a page of the streams of one log. Each process that has logged a line has its own stream. A caller with a
        tenant gets only the streams that have a line of this tenant. Raises LogNotFound if there is no such log."""
        asked = asked.checked()
        function, limit = asked.function(), asking.size(asked.limit, asking.MAX_ITEMS)
        self._known(function, tenant)
        found = self._reader.streams(function, tenant, self._since(None))
        by_time, descending = asked.order_by == "LastEventTime", bool(asked.descending)
        prefix = asked.log_stream_name_prefix or ""

        def key(name: str) -> str:
            return f"{found[name].last:020d}/{name}" if by_time else name

        names = sorted((name for name in found if name.startswith(prefix)), key=key, reverse=descending)
        search = asking.search_of(function, by_time, descending, prefix)
        begin = asking.after(asked.next_token, [key(name) for name in names], search, descending=descending)
        page = names[begin : begin + limit]
        answer: LogsAnswer = {"logStreams": [_stream(function, name, found[name]) for name in page]}
        return answer if begin + limit >= len(names) else answer | {"nextToken": f"{search}/{key(page[-1])}"}

    # --- checks

    def _since(self, start: int | None) -> int:
        return max(start or 0, self._folder.retention.oldest(self._clock.now()))

    def _known(self, function: str, tenant: str | None) -> None:
        """Wait until the writer has written the lines that it has, but at most _FLUSH_SECONDS. Then raise LogNotFound, unless there is a
        function of this name, or a log of this name that has a line of this tenant (if `tenant` is None: a log of this name)."""
        self._keeper.flush(_FLUSH_SECONDS)
        if self._is_function(function):
            return
        if self._folder.group(function) is None or (tenant is not None and not self._reader.streams(function, tenant, self._since(None))):
            raise LogNotFound("The specified log group does not exist.")

    def _token(self, text: str | None, search: str, function: str, tenant: str | None) -> Token | None:
        self._known(function, tenant)
        token = asking.token_of(text, search)
        if token is not None and token.position != BEGINNING and not self._folder.has(function, token.position):
            raise asking.no_such_token()
        return token


def _event(kept: KeptRecord) -> LogsAnswer:
    return {"timestamp": kept.record.at, "message": kept.record.text, "ingestionTime": kept.record.at}


def _identity(kept: KeptRecord) -> LogsAnswer:
    number = (kept.begin.segment << 48) + kept.begin.offset
    return {"logStreamName": kept.record.stream, "eventId": f"{number:0{_ID_DIGITS}d}"}


def _stream(function: str, name: str, stream: Stream) -> LogsAnswer:
    return {
        "logStreamName": name,
        "creationTime": stream.first,
        "firstEventTimestamp": stream.first,
        "lastEventTimestamp": stream.last,
        "lastIngestionTime": stream.last,
        "arn": f"{group_arn(function)}:log-stream:{name}",
        "storedBytes": stream.size,
    }
