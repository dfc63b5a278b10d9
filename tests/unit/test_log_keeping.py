"""Logs are kept for a while: in the order they came, bounded in bytes and days, and never at a function's cost."""

from __future__ import annotations

import itertools
import json
import logging
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.lambda_api.logs import log_reader
from holdfast.lambda_api.logs import log_requests as asking
from holdfast.lambda_api.logs.log_lines import record_of
from holdfast.lambda_api.logs.log_operations import Logs
from holdfast.lambda_api.logs.log_writer import LogWriter
from holdfast.lambda_api.logs.segments import DAY_MS, LogFolder, LogRetention, folder_of
from holdfast.lambda_api.runtime.process_output import OutputLine
from holdfast.model.clock import VirtualClock
from holdfast.model.deploy_errors import LogNotFound
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Terms
from holdfast.model.ids import Arn, id_at
from holdfast.model.life import new_execution

GROUP = "/aws/lambda/f"


class Kept:
    """A keeper and what can be read of it."""

    def __init__(self, root: Path, *, max_waiting_bytes: int = 1 << 24, **retention: int) -> None:
        self.clock = VirtualClock()
        self.folder = LogFolder(root / "logs", LogRetention(**retention))
        self.keeper = LogWriter(self.folder, self.clock, max_waiting_bytes=max_waiting_bytes)
        self.logs = Logs(self.keeper, self.clock, lambda name: False)

    def say(self, *texts: str, function: str = "f", stream: str = "s", **more: Any) -> None:
        """Log lines, a millisecond apart."""
        for text in texts:
            self.clock.move_to(self.clock.now() + 1)
            self.keeper.put([OutputLine(self.clock.now(), function, "1", stream, text, **more)])

    def settle(self) -> None:
        assert self.keeper.flush(60)

    def find(self, pattern: str = "", tenant: str | None = None, **asked: Any) -> list[str]:
        """The messages of all pages."""
        found: list[str] = []
        token: str | None = None
        while True:
            request = asking.FilterLogEvents(log_group_name=GROUP, filter_pattern=pattern, next_token=token, **asked)
            page = self.logs.filter_log_events(request, tenant)
            found += [json.loads(event["message"])["message"] for event in page["events"]]
            token = page.get("nextToken")
            if token is None:
                return found

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.root.rglob("*.jsonl"))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.keeper.close()


def test_a_search_that_takes_long_comes_in_more_pages_and_loses_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"line {number}" for number in range(20)]
    kept.say(*texts)
    ticks = itertools.count()
    monkeypatch.setattr(kept.logs._reader, "_now", lambda: next(ticks) * 0.3)  # a page has time for a few records
    assert kept.find() == texts
    assert kept.find(start_from_head=False) == texts[::-1]
    assert kept.find('"line 17"') == ["line 17"]
    assert next(ticks) > 60


def test_what_was_logged_is_read_at_once_and_in_order(kept: Kept) -> None:
    texts = [f"line {number}" for number in range(200)]
    kept.say(*texts)
    assert kept.find() == texts
    assert kept.find(limit=7) == texts
    assert kept.find(limit=7, start_from_head=False) == texts[::-1]
    assert kept.find('"line 170"') == ["line 170"]


def test_what_an_execution_logged_is_read_at_once(kept: Kept) -> None:
    now = kept.clock.now()
    header = new_execution(id_at(now), None, "f", "1", payload="{}", now=now, terms=Terms())
    kept.say("everything is there", execution=str(Arn("f", "1", header.id, header.id)))
    assert [line["message"] for line in kept.logs.of_execution(header)] == ["everything is there"]


def test_logs_outlive_their_process_and_nobody_else_may_read_them(kept: Kept, tmp_path: Path) -> None:
    kept.say("before")
    kept.keeper.close()
    again = Kept(tmp_path)
    again.clock.move_to(kept.clock.now())
    again.say("after")
    assert again.find() == ["before", "after"]
    again.keeper.close()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "logs").rglob("*.jsonl")} == {0}


def test_two_processes_may_write_to_one_folder(kept: Kept, tmp_path: Path) -> None:
    other = Kept(tmp_path)
    threads = [threading.Thread(target=one.say, args=[f"{number}" for number in range(300)]) for one in (kept, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.settle()
    assert sorted(kept.find()) == sorted([f"{number}" for number in range(300)] * 2)
    other.keeper.close()


def test_a_torn_line_costs_nothing_but_itself(kept: Kept) -> None:
    kept.say("whole")
    kept.settle()
    (file,) = kept.folder.root.rglob("*.jsonl")
    with file.open("ab") as opened:
        opened.write(b'{"at":1,"stream":"s","te')
    kept.say("next")
    assert kept.find() == ["whole", "next"]


@pytest.mark.parametrize("from_head, pattern", [(True, ""), (False, ""), (True, "b"), (False, "b")])
def test_a_search_passes_a_segment_that_is_larger_than_what_one_page_may_search(
    tmp_path: Path, from_head: bool, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each segment has, after its record, many bytes that are no record."""
    monkeypatch.setattr(log_reader, "_LOOKED_BYTES", 10_000)
    kept = Kept(tmp_path, max_bytes=1024 * 1024)
    for text in ("a", "b", "c"):
        kept.say(text)
        kept.settle()
        newest = kept.folder.segments("f")[-1]
        with newest.path.open("ab") as file:
            file.write(b"x" * 70_000 + b"\n")
    found, token = list[str](), None
    for _ in range(10):
        asked = asking.FilterLogEvents(log_group_name=GROUP, filter_pattern=pattern, next_token=token, start_from_head=from_head)
        page = kept.logs.filter_log_events(asked, None)
        found += [json.loads(event["message"])["message"] for event in page["events"]]
        token = page.get("nextToken")
        if token is None:
            break
    kept.keeper.close()
    assert token is None, "the pages have an end"
    assert found == (["b"] if pattern else ["a", "b", "c"] if from_head else ["c", "b", "a"])


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=1024 * 1024)
    for number in range(40):
        kept.say(f"{number} " + "x" * 60_000, function="f" if number % 2 else "other")
        kept.settle()
        assert kept.size() <= 1024 * 1024 + 3 * 64 * 1024
    numbers = [int(text.split()[0]) for text in kept.find()]
    assert numbers == list(range(numbers[0], 40, 2))
    assert 20 < numbers[0] < 30
    kept.keeper.close()


def test_no_segment_becomes_large_however_much_comes_at_once(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=1024 * 1024)
    lines = [OutputLine(kept.clock.now(), "f", "1", "s", f"{number} " + "x" * 1000) for number in range(5000)]
    kept.keeper.put(lines)
    kept.settle()
    assert max(segment.size for segment in kept.folder.segments("f")) <= 3 * 64 * 1024
    assert kept.size() <= 1024 * 1024
    numbers = [int(text.split()[0]) for text in kept.find()]
    assert numbers == list(range(numbers[0], 5000))
    assert len(numbers) > 500
    kept.keeper.close()


def test_what_is_too_old_is_not_shown_and_then_removed(kept: Kept) -> None:
    kept.say("old")
    kept.settle()
    kept.clock.move_to(kept.clock.now() + 14 * DAY_MS)
    assert kept.find() == ["old"]
    kept.clock.move_to(kept.clock.now() + 1)
    assert kept.find() == []
    kept.say("new", function="other")
    kept.settle()
    assert kept.size() < 200  # the new one is all there is


def test_a_reader_goes_on_where_it_was_also_when_the_oldest_went_meanwhile(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=1024 * 1024)
    kept.say(*[f"{number} " + "x" * 1000 for number in range(100)])
    asked = asking.FilterLogEvents(log_group_name=GROUP, limit=10)
    first = kept.logs.filter_log_events(asked, None)
    for number in range(100, 1200):
        kept.say(f"{number} " + "x" * 1000)
        if number % 100 == 0:
            kept.settle()
    page = kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP, limit=10, next_token=first["nextToken"]), None)
    (begin, *_) = [int(json.loads(event["message"])["message"].split()[0]) for event in page["events"]]
    assert begin > 100
    kept.keeper.close()


def test_a_log_that_keeps_nothing_writes_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=0)
    kept.say("x")
    kept.settle()
    assert not kept.folder.root.exists()


def test_a_disk_that_takes_nothing_costs_lines_that_are_counted_and_told(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    kept.say("first")
    kept.settle()
    place = kept.folder.segments("f")[0].path.parent
    aside = place.with_name("aside")
    place.rename(aside)
    place.write_text("in the way")  # nothing can be made in a file
    kept.say("lost", "lost too")
    kept.settle()
    kept.say("lost as well")
    kept.settle()
    assert kept.keeper.dropped == 3
    assert "log lines of functions are dropped: Not a directory" in caplog.text
    place.unlink()
    aside.rename(place)
    kept.say("last")
    assert kept.find() == ["first", "3 lines of this log dropped: Not a directory", "last"]
    assert kept.find("{ $.type = platform.logsDropped && $.record.droppedRecords = 3 }") != []
    assert "the log of f is written again; 3 lines of it were dropped" in caplog.text


def test_lines_that_are_written_are_not_dropped_although_their_segment_cannot_get_its_time(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **more: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    kept.say("first")
    kept.settle()
    kept.say("second")
    assert (kept.find(), kept.keeper.dropped) == (["first", "second"], 0)


def test_half_a_line_that_did_not_fit_is_taken_back(kept: Kept) -> None:
    kept.say("first")
    kept.settle()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = kept.size()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
        kept.say("x" * 1000)
        kept.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (kept.size(), kept.keeper.dropped) == (size, 1)
    kept.say("last")
    assert kept.find() == ["first", "1 line of this log dropped: File too large", "last"]


def test_one_log_that_cannot_be_written_leaves_the_others_alone(kept: Kept) -> None:
    kept.say("x", function="broken")
    kept.settle()
    place = kept.folder.segments("broken")[0].path.parent
    place.rename(place.with_name("aside"))
    place.write_text("in the way")
    line = OutputLine(kept.clock.now(), "broken", "1", "s", "lost")
    kept.keeper.put([line, OutputLine(line.at, "f", "1", "s", "kept")])
    assert kept.find() == ["kept"]
    assert kept.keeper.dropped == 1


def test_what_comes_too_fast_is_dropped_and_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, go = Kept(tmp_path, max_waiting_bytes=1000), threading.Event()
    append = LogFolder.append

    def slow(*arguments: Any) -> bool:
        assert go.wait(60)
        return append(*arguments)

    monkeypatch.setattr(LogFolder, "append", slow)
    kept.say("written")
    kept.keeper.flush(0.01)  # the thread has it now, and the disk is slow
    kept.say(*["x" * 100 for _ in range(100)])
    assert kept.keeper.dropped >= 90
    go.set()
    kept.settle()
    kept.say("last")
    found = kept.find()
    assert (found[0], found[-1]) == ("written", "last")
    assert any("lines of this log dropped: more lines came than could be written" in text for text in found)
    kept.keeper.close()


# --- streams and tenants


def streams(kept: Kept, tenant: str | None = None, **asked: Any) -> list[str]:
    answer = kept.logs.describe_log_streams(asking.DescribeLogStreams(log_group_name=GROUP, **asked), tenant)
    return [one["logStreamName"] for one in answer["logStreams"]]


def test_a_tenant_reads_its_own_lines_and_nothing_else(kept: Kept) -> None:
    kept.say("began", stream="a")
    kept.say("blue one", stream="a", tenant="blue")
    kept.say("red one", stream="b", tenant="red")
    kept.say("blue two", stream="b", tenant="blue")
    kept.say("red elsewhere", function="g", tenant="red")
    assert kept.find(tenant="blue") == ["blue one", "blue two"]
    assert kept.find("red", tenant="blue") == []
    assert kept.find() == ["began", "blue one", "red one", "blue two"]
    assert (streams(kept, "blue"), streams(kept, "red"), streams(kept)) == (["a", "b"], ["b"], ["a", "b"])
    asked = asking.GetLogEvents(log_group_name=GROUP, log_stream_name="b")
    events = kept.logs.get_log_events(asked, "red")["events"]
    assert [json.loads(event["message"])["message"] for event in events] == ["red one"]
    with pytest.raises(LogNotFound):
        kept.logs.get_log_events(asking.GetLogEvents(log_group_name=GROUP, log_stream_name="a"), "red")
    with pytest.raises(LogNotFound):
        kept.find(tenant="green")
    groups = [kept.logs.describe_log_groups(asking.DescribeLogGroups(), who)["logGroups"] for who in ("blue", "red", "green", None)]
    assert [[one["logGroupName"] for one in found] for found in groups] == [
        [GROUP],
        [GROUP, "/aws/lambda/g"],
        [],
        [GROUP, "/aws/lambda/g"],
    ]


def test_the_tenant_default_reads_lines_of_requests_without_a_tenant_and_no_lines_of_no_request(kept: Kept) -> None:
    kept.say("of the process")
    kept.say("of a request", request="r")
    kept.say("of blue", request="b", tenant="blue")
    assert kept.find(tenant="default") == ["of a request"]


def test_the_sizes_of_logs_are_bytes(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.say("€" * 100)
    group = kept.logs.describe_log_groups(asking.DescribeLogGroups(), None)["logGroups"][0]
    (event,) = kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP), None)["events"]
    kept.say("€" * 100, tenant="blue")
    mine = kept.logs.describe_log_groups(asking.DescribeLogGroups(), "blue")["logGroups"][0]
    assert mine["storedBytes"] == len(event["message"].encode()) > 300
    assert group["storedBytes"] > 300
    monkeypatch.setattr("holdfast.lambda_api.logs.log_reader._PAGE_BYTES", 300)
    assert len(kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP), None)["events"]) == 1


def test_streams_are_sorted_and_come_in_pages(kept: Kept) -> None:
    for stream in ("b", "c", "a"):
        kept.say("x", stream=stream)
    assert streams(kept) == ["a", "b", "c"]
    assert streams(kept, order_by="LastEventTime") == ["b", "c", "a"]
    assert streams(kept, order_by="LastEventTime", descending=True) == ["a", "c", "b"]
    for order, descending in (("LogStreamName", False), ("LogStreamName", True), ("LastEventTime", True)):
        whole, found, token = streams(kept, order_by=order, descending=descending), [], None
        for _ in whole:
            asked = asking.DescribeLogStreams(log_group_name=GROUP, order_by=order, descending=descending, limit=1, next_token=token)
            page = kept.logs.describe_log_streams(asked, None)
            found += [one["logStreamName"] for one in page["logStreams"]]
            token = page.get("nextToken")
        assert (found, token) == (whole, None)


def test_a_stream_is_read_in_both_directions_and_says_when_it_is_over(kept: Kept) -> None:
    for number in range(25):
        kept.say(f"{number}", stream="s")
        kept.say("noise", stream="other")

    def get(token: str | None = None, **more: Any) -> tuple[list[int], str, str]:
        asked = asking.GetLogEvents(log_group_name=GROUP, log_stream_name="s", limit=10, next_token=token, **more)
        page = kept.logs.get_log_events(asked, None)
        numbers = [int(json.loads(event["message"])["message"]) for event in page["events"]]
        return numbers, page["nextForwardToken"], page["nextBackwardToken"]

    newest, forward, backward = get()
    assert newest == list(range(15, 25))
    assert get(forward) == ([], forward, forward.replace("f/", "b/", 1))
    middle, again, backward = get(backward)
    assert middle == list(range(5, 15))
    assert get(again)[0] == newest
    first, _, backward = get(backward)
    assert first == list(range(5))
    assert get(backward)[::2] == ([], backward)
    head, forward, _ = get(start_from_head=True)
    assert head == list(range(10))
    assert get(forward)[0] == list(range(10, 20))
    _, end, _ = get(get(forward)[1])
    assert get(end)[:2] == ([], end)
    kept.say("25")
    assert get(end)[0] == [25]


# --- tokens and names


@pytest.mark.parametrize(
    "token", ["x", "f/1/0/0000000000000000", "f/1/3/{search}", "f/9/0/{search}", "f/1/999999/{search}", "", "g/1/0/{search}"]
)
def test_a_token_that_is_not_ours_is_refused(kept: Kept, token: str) -> None:
    kept.say("a", "b")
    first = kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP, limit=1), None)
    given = token.replace("{search}", first["nextToken"].rpartition("/")[2])
    with pytest.raises(InvalidParameter, match="nextToken"):
        kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP, next_token=given), None)
    other = asking.FilterLogEvents(log_group_name=GROUP, filter_pattern="a", next_token=first["nextToken"])
    with pytest.raises(InvalidParameter, match="nextToken"):
        kept.logs.filter_log_events(other, None)


@pytest.mark.parametrize("name", ["/aws/lambda/../../x", "/etc/passwd", "../x", "/aws/lambda/", "/aws/lambda/f/g", "x", "/aws/lambda/none"])
def test_a_group_that_is_not_there_is_not_looked_for_elsewhere(kept: Kept, name: str) -> None:
    kept.say("x")
    with pytest.raises(LogNotFound):
        kept.logs.filter_log_events(asking.FilterLogEvents(log_group_name=name), None)


def test_a_function_that_logged_nothing_yet_has_an_empty_log(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    logs = Logs(kept.keeper, kept.clock, lambda name: name == "f")
    assert logs.filter_log_events(asking.FilterLogEvents(log_group_name=GROUP), None) == {"events": [], "searchedLogStreams": []}
    assert logs.describe_log_streams(asking.DescribeLogStreams(log_group_name=GROUP), "blue") == {"logStreams": []}


def test_logs_are_beside_their_store() -> None:
    assert folder_of("a/orders.db") == Path("a/orders.db.logs").absolute()
    assert folder_of("postgresql://host/db") == Path("holdfast.logs").absolute()
    assert folder_of(":memory:") is None


# --- records


def told(text: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record_of(OutputLine(1_767_225_600_000, "f", "1", "s", text, **more)).text)
    return found


def test_a_line_becomes_a_record_that_says_when_what_and_of_whom() -> None:
    assert told("hello", request="r", execution="arn") == {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "level": "INFO",
        "message": "hello",
        "requestId": "r",
        "executionArn": "arn",
    }
    assert told("START RequestId: r", platform=True)["type"] == "platform"


@pytest.mark.parametrize(
    "text, level, message",
    [
        ("[ERROR]\t2026-01-01T00:00:00.000Z\tr\tno\tmore", "ERROR", "no\tmore"),
        ("2026-01-01T00:00:00.000Z\tr\tWARN\tno", "WARN", "no"),
        ("[ERROR] no", "INFO", "[ERROR] no"),
        ("", "INFO", ""),
        ("{ not json", "INFO", "{ not json"),
        ("[1]", "INFO", "[1]"),
        ("{}", "INFO", "{}"),
    ],
)
def test_the_level_of_lambdas_own_formats_is_read(text: str, level: str, message: str) -> None:
    assert (told(text)["level"], told(text)["message"]) == (level, message)


def test_a_json_line_stays_what_it_is_with_what_is_missing_added() -> None:
    line = '{"level": "ERROR", "message": "no", "executionArn": "mine", "n": [1, {"a": null}]}'
    assert told(line, request="r", execution="arn") == {
        "level": "ERROR",
        "message": "no",
        "executionArn": "mine",
        "n": [1, {"a": None}],
        "timestamp": "2026-01-01T00:00:00.000Z",
        "requestId": "r",
    }


def test_a_line_cannot_say_that_it_is_the_platforms() -> None:
    assert "type" not in told("START RequestId: forged")


def test_the_keeper_is_silent_while_all_is_well(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        kept.say("x")
        kept.settle()
    assert caplog.records == []
