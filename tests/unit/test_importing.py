"""A document from anywhere: what is good comes in, what is not is refused with the member at fault, and nothing crashes."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.exports import importing
from holdfast.exports.exporting import FORMAT
from holdfast.exports.importing import read
from holdfast.model.errors import ExportInvalid
from holdfast.model.execution import State, graph_text

ID = "019b7a2c-0000-7000-8000-000000000001"
STEP, CALL, INSIDE, BOX = "a" * 64, "b" * 64, "c" * 64, "d" * 64
GRAPH = graph_text("{}")

DOCUMENT: dict[str, Any] = {
    "format": "holdfast-execution/1",
    "exported_at": 1_767_225_700_000,
    "data": True,
    "arn": f"arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/order-1/{ID}",
    "execution": {
        "id": ID, "function": "order", "version": "$LATEST", "name": "order-1",
        "terms": {"timeout_seconds": 3600, "retention_days": 14, "max_operations": 1000, "max_bytes": 1000000},
        "started_at": 1_767_225_600_000, "deadline": 1_767_229_200_000, "status": "RUNNING", "state": "suspended", "epoch": 1,
        "revision": 4, "sequence": 2, "events": 8, "pending": 1, "invocation": None, "invoked_at": 1_767_225_600_000, "seen": 3,
        "ended_at": None, "result_event": None, "due_at": 1_767_229_200_000, "ready_at": 1_767_225_600_000,
        "touched_at": 1_767_225_600_004, "failures": 0, "deaths": 0, "operations": 4, "stored": 16, "parent": None,
        "parent_operation": None, "cascade": True, "tenant": None, "continued_as": None, "expires_at": None,
    },
    "operations": [
        {"id": STEP, "type": "STEP", "status": "FAILED", "started_at": 1_767_225_600_000, "sub_type": "Step", "name": "pay",
         "ended_at": 1_767_225_600_001, "attempt": 1, "place": 2, "payload_event": 3, "revision": 2},
        {"id": CALL, "type": "CALLBACK", "status": "STARTED", "started_at": 1_767_225_600_002, "sub_type": "Callback",
         "name": "approval", "place": 4, "revision": 3},
        {"id": BOX, "type": "CONTEXT", "status": "STARTED", "started_at": 1_767_225_600_002, "sub_type": "RunInChildContext",
         "place": 5, "revision": 3},
        {"id": INSIDE, "type": "STEP", "status": "SUCCEEDED", "started_at": 1_767_225_600_003, "sub_type": "Step",
         "parent_id": BOX, "ended_at": 1_767_225_600_003, "attempt": 1, "place": 6, "payload_event": 7, "revision": 4},
    ],
    "events": [
        {"number": 1, "type": "ExecutionStarted", "at": 1_767_225_600_000, "payload": "{}", "detail": {"ExecutionTimeout": 3600}},
        {"number": 2, "type": "StepStarted", "at": 1_767_225_600_000, "operation_id": STEP},
        {"number": 3, "type": "StepFailed", "at": 1_767_225_600_001, "operation_id": STEP,
         "payload": '{"ErrorMessage":"no","ErrorType":"ValueError"}', "detail": {"RetryDetails": {"CurrentAttempt": 1}}},
        {"number": 4, "type": "CallbackStarted", "at": 1_767_225_600_002, "operation_id": CALL,
         "detail": {"CallbackId": "of another store"}},
        {"number": 5, "type": "ContextStarted", "at": 1_767_225_600_002, "operation_id": BOX},
        {"number": 6, "type": "StepStarted", "at": 1_767_225_600_003, "operation_id": INSIDE},
        {"number": 7, "type": "StepSucceeded", "at": 1_767_225_600_003, "operation_id": INSIDE, "payload": '"ok"'},
        {"number": 8, "type": "InvocationCompleted", "at": 1_767_225_600_004,
         "detail": {"StartTimestamp": 1_767_225_600.0, "EndTimestamp": 1_767_225_600.004, "RequestId": "r"}},
    ],
    "history": {"Events": []},
}  # fmt: skip
"""A document of format 1. It must be readable for as long as that format is."""


def test_a_document_of_the_first_format_is_still_read() -> None:
    found = read(DOCUMENT).snapshot
    assert (found.header.id, found.header.state, found.header.terms.max_operations) == (ID, State.SUSPENDED, 1000)
    failed, callback, _, inside = found.operations
    assert failed.error is not None
    assert (failed.error.message, failed.result) == ("no", None)
    assert callback.callback_id == "of another store"
    assert (inside.result, inside.parent_id) == ('"ok"', BOX)
    assert [event.number for event in found.events] == list(range(1, 9))


def closed(document: dict[str, Any]) -> None:
    """Make it the document of an execution that is over."""
    document["execution"] |= {
        "status": "SUCCEEDED", "state": "closed", "events": 9, "result_event": 9, "ended_at": 1_767_225_600_004, "pending": 0,
        "due_at": None, "expires_at": 1_768_435_200_004,
    }  # fmt: skip
    document["events"].append({"number": 9, "type": "ExecutionSucceeded", "at": 1_767_225_600_004, "payload": "1"})


def changed(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Set a member: `execution.id`, `events.2.at`; `...` takes it away."""

    def change(document: dict[str, Any]) -> None:
        *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        at: Any = document
        for part in outer:
            at = at[part]
        if value is ...:
            del at[last]
        else:
            at[last] = value

    return change


def both(*changes: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for each in changes:
            each(document)

    return change


WRONG: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    # shape and types
    (changed("format", "holdfast-execution/2"), "`format` is 'holdfast-execution/2'; this Holdfast reads 'holdfast-execution/1'"),
    (changed("format", ...), "missing required field `format`"),
    (changed("format", 1), "Expected `str`, got `int` - at `$.format`"),
    (changed("execution", ...), "missing required field `execution`"),
    (changed("execution", []), "Expected `object`, got `array` - at `$.execution`"),
    (changed("execution.epoch", "1"), "Expected `int`, got `str` - at `$.execution.epoch`"),
    (changed("execution.epoch", 1.5), "`$.execution.epoch`"),
    (changed("execution.state", "asleep"), "Invalid enum value 'asleep' - at `$.execution.state`"),
    (changed("execution.cascade", 1), "Expected `bool`, got `int` - at `$.execution.cascade`"),
    (changed("execution.password", 1), "unknown field `password` - at `$.execution`"),
    (changed("operations", {}), "Expected `array`, got `object` - at `$.operations`"),
    (changed("operations.0.type", "NAP"), "Invalid enum value 'NAP' - at `$.operations[0].type`"),
    (changed("events.1.number", None), "Expected `int`, got `null` - at `$.events[1].number`"),
    (changed("events.1.detail", "x"), "Expected `object | null`, got `str` - at `$.events[1].detail`"),
    (changed("events.1.more", 1), "unknown field `more` - at `$.events[1]`"),
    # who it is
    (changed("execution.id", "../../etc/passwd"), "`execution.id`: not the id of an execution"),
    (changed("execution.id", ID.upper()), "`execution.id`"),
    (changed("execution.name", "a b"), "`execution.name`: Execution name 'a b'"),
    (changed("execution.name", ""), "`execution.name`"),
    (changed("execution.function", "x" * 65), "`execution.function`"),
    (changed("execution.version", "latest"), "`execution.version`"),
    (changed("execution.terms.retention_days", 0), "`execution.terms`: retention_days is 0"),
    (changed("execution.terms.max_bytes", 10**30), "`execution.terms.max_bytes`: out of range"),
    (changed("arn", "arn:aws:lambda:local:000000000000:function:x:1/durable-execution/y/z"), "`arn`: names another execution"),
    # its graph
    (changed("graph", "{}"), "`graph`: the execution names none"),
    (changed("execution.graph", "x"), "`graph`: A graph is named by the sha256 of its text"),
    (both(changed("execution.graph", GRAPH.id), changed("graph", "{} ")), "`graph`: The id of a graph must be the sha256 of its text"),
    (both(changed("execution.graph", GRAPH.id), changed("graph", " " * (6 << 20 | 1))), "`graph`: Graph payload size"),
    # numbers
    (changed("execution.epoch", -1), "`execution.epoch`: out of range"),
    (changed("execution.revision", 2**53 + 1), "`execution.revision`: out of range"),
    (changed("execution.started_at", 10**15), "`execution.started_at`: out of range"),
    (changed("execution.epoch", 10**40), "`execution.epoch`"),
    (changed("operations.1.due_at", 10**15), "`operations[1].due_at`: out of range"),
    (changed("events.1.at", -5), "`events[1].at`: out of range"),
    (changed("execution.events", 7), "`events`: they must be numbered from 1 to execution.events, 7"),
    (changed("execution.events", 2**53), "`events`: they must be numbered"),
    (changed("execution.events", 0), "`events`: they must be numbered"),
    (changed("execution.operations", 5), "`execution.operations`: 5, but there are 4"),
    (changed("execution.pending", 3), "`execution.pending`: 3, but 1 operations are"),
    (changed("events", []), "`events`: they must be numbered"),
    (changed("events.3.number", 5), "`events`: they must be numbered"),
    (changed("events.4.at", 1_767_225_600_000), "`events[4].at`: earlier than the event before it"),
    # the story
    (changed("events.0.type", "StepStarted"), "`events[0].type`: the first event must be ExecutionStarted"),
    (changed("events.7.type", "ExecutionStarted"), "`events[7].type`: the first event must be ExecutionStarted"),
    (changed("events.1.operation_id", ...), "`events[1].operation_id`: missing: StepStarted tells of an operation"),
    (changed("events.1.operation_id", "nobody"), "`events[1].operation_id`: no such operation"),
    (changed("events.7.operation_id", STEP), "`events[7].type`: InvocationCompleted cannot happen to a STEP"),
    (changed("events.4.type", "CallbackSucceeded"), "`events[4].type`: CallbackSucceeded cannot happen to a CONTEXT"),
    (changed("events.2.payload", "not json"), "`events[2].payload`: JSON is malformed"),
    (changed("events.2.payload", '{"ErrorMessage": 5}'), "`events[2].payload`: Expected `str | null`, got `int`"),
    (changed("data", False), "`events[0].payload`: `data` says that there is none"),
    (changed("events.7.detail", ...), "`events[7].detail`: lacks EndTimestamp, StartTimestamp"),
    (changed("events.7.detail.EndTimestamp", "late"), "`events[7].detail`: Expected `float`, got `str`"),
    (changed("events.7.detail.EndTimestamp", 1e300), "`events[7].detail`: Expected `float` <="),
    (changed("events.2.detail.RetryDetails", None), "`events[2].detail`: Expected `object`, got `null`"),
    (changed("events.2.detail.Error", {"Payload": 1}), "`events[2].detail`: Error not allowed there"),
    (changed("events.3.detail.CallbackId", ...), "`events[3].detail`: lacks CallbackId"),
    # operations
    (changed("operations.1.id", STEP), "`events[1].type`: StepStarted cannot happen to a CALLBACK"),
    (changed("operations.3.id", STEP), "`events[5].operation_id`: no such operation"),
    (lambda document: document["operations"].append(document["operations"][3]), "`execution.operations`: 4, but there are 5"),
    (
        both(lambda document: document["operations"].append(document["operations"][3]), changed("execution.operations", 5)),
        "`operations[4].id`: must be unique in the document",
    ),
    (changed("operations.0.name", "x" * 257), "`operations[0].name`: longer than 256 characters"),
    (changed("operations.0.status", "TIMED_OUT"), "`operations[0].status`: a STEP cannot be TIMED_OUT"),
    (changed("operations.0.type", "EXECUTION"), "StepStarted cannot happen to a EXECUTION"),
    (changed("operations.0.ended_at", None), "`operations[0].ended_at`: does not fit the status FAILED"),
    (changed("operations.1.ended_at", 5), "`operations[1].ended_at`: does not fit the status STARTED"),
    (changed("operations.0.place", 3), "`operations[0].place`: must be the number of its first event"),
    (changed("operations.0.place", 0), "`operations[0].place`"),
    (changed("operations.3.parent_id", "nobody"), "`operations[3].parent_id`: no context before it in the list has this id"),
    (changed("operations.3.parent_id", STEP), "`operations[3].parent_id`: no context before it in the list has this id"),
    (changed("operations.3.parent_id", INSIDE), "`operations[3].parent_id`: no context before it in the list has this id"),
    (changed("operations.0.payload_event", 99), "`operations[0].payload_event`: not an event of this operation"),
    (changed("operations.0.payload_event", 7), "`operations[0].payload_event`: not an event of this operation"),
    (changed("operations.0.revision", 9), "`operations[0].revision`: must be from 1 to the execution's"),
    (changed("operations.0.revision", 0), "`operations[0].revision`: must be from 1 to the execution's"),
    (lambda document: document["operations"].insert(0, document["operations"].pop(1)), "`operations[1].place`: must be the number of its"),
    # the end
    (changed("execution.state", "closed"), "`execution.state`: closed while the status is RUNNING"),
    (changed("execution.status", "SUCCEEDED"), "`execution.state`: suspended while the status is SUCCEEDED"),
    (changed("execution.result_event", 8), "`execution.result_event`: must be the number of the terminal event"),
    (changed("execution.ended_at", 5), "`execution.ended_at`: does not fit the status RUNNING"),
    (both(closed, changed("events.8.type", "ExecutionFailed")), "`execution.status`: SUCCEEDED, but the last event is ExecutionFailed"),
    (both(closed, changed("execution.ended_at", None)), "`execution.ended_at`: does not fit the status SUCCEEDED"),
    (both(closed, changed("events.7.type", "ExecutionSucceeded")), "`events`: an execution that has ended must end"),
]


@pytest.mark.parametrize("change, told", WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_refused_with_the_member_at_fault(change: Callable[[dict[str, Any]], None], told: str, tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    for source, called in ((document, "The document"), (path, str(path))):
        with pytest.raises(ExportInvalid) as refused:
            read(source)
        assert str(refused.value).startswith(called)
        assert told in str(refused.value)
        assert refused.value.code == "export_invalid"


def test_a_graph_comes_with_its_execution_unless_the_document_has_no_data() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["execution"]["graph"] = GRAPH.id
    assert read(document).snapshot.graph is None
    document["graph"] = GRAPH.text
    found = read(document).snapshot
    assert (found.header.graph, found.graph) == (GRAPH.id, GRAPH.text)
    document["data"] = False
    with pytest.raises(ExportInvalid, match="`graph`: `data` says that there is none"):
        read(document)


def test_a_closed_one_is_good_too() -> None:
    document = copy.deepcopy(DOCUMENT)
    closed(document)
    assert read(document).snapshot.header.state is State.CLOSED


@pytest.mark.parametrize(
    "text, told",
    [
        (b"", "is not JSON, or was cut off"),
        (b"hello", "is not JSON, or was cut off"),
        (json.dumps(DOCUMENT).encode()[:-100], "is not JSON, or was cut off"),
        (b"\xff\xfe", "is not JSON, or was cut off"),
        (b"[1]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `format`"),
        (b'{"format": "' + FORMAT.encode() + b'", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (json.dumps(DOCUMENT).replace("ValueError", "\\\\ud800").encode(), "`events[2].payload`"),
        (json.dumps(DOCUMENT).replace('"pay"', '"\\ud800"').encode(), "is not JSON"),
    ],
)
def test_a_file_that_holds_no_document_is_told(tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    with pytest.raises(ExportInvalid, match=re.escape(told)):
        read(path)


def test_a_file_that_is_not_there_or_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportInvalid, match="could not be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(ExportInvalid, match="could not be read: Is a directory"):
        read(str(tmp_path))
    for name in ("a\0b", "\ud800"):
        with pytest.raises(ExportInvalid, match="could not be read: this is not the name of a file"):
            read(name)
    monkeypatch.setattr(importing, "MAX_BYTES", 10)
    (tmp_path / "large.json").write_text(json.dumps(DOCUMENT))
    with pytest.raises(ExportInvalid, match="more than 10 bytes"):
        read(tmp_path / "large.json")


@pytest.mark.parametrize("value", [object(), "\ud800", float("nan"), b"bytes"])
def test_a_mapping_that_json_cannot_say_is_told(value: object) -> None:
    with pytest.raises(ExportInvalid):
        read({**DOCUMENT, "arn": value})
