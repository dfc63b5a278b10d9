"""Values become text and values again: to the byte as the official SDK does it, because either may read what the other wrote."""

import enum
import json
import logging
from collections import OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import aws_durable_execution_sdk_python.concurrency.models as official_models
import aws_durable_execution_sdk_python.config as official_config
import aws_durable_execution_sdk_python.exceptions as official_exceptions
import aws_durable_execution_sdk_python.lambda_service as official_service
import aws_durable_execution_sdk_python.serdes as official
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.durable import serdes
from holdfast.durable.concurrency import models
from holdfast.durable.concurrency.models import CompletionReason
from holdfast.durable.config import BatchItemStatus
from holdfast.durable.exceptions import RetryableSerDesError, SerDesError
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.serdes import ExtendedTypeSerDes, JsonSerDes, PassThroughSerDes, SerDes, SerDesContext

EXTENDED: ExtendedTypeSerDes[Any] = ExtendedTypeSerDes()
THEIRS: Any = official.ExtendedTypeSerDes()  # type: ignore[no-untyped-call]
CONTEXT = SerDesContext("op", "arn")

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates too
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=3))])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXT,
    st.binary(max_size=8),
    st.uuids(),
    st.decimals(),
    st.dates(),
    st.datetimes(timezones=ZONES).map(lambda at: at.replace(fold=0)),  # ISO 8601 cannot say which of two equal wall times it was
)


def nested(keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=4)

    return st.recursive(SCALARS, deeper, max_leaves=12)


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.StrEnum):
    RED = "red"


class Count(int):
    def __str__(self) -> str:
        return "a count"

    __repr__ = __str__


class Ratio(float):
    def __repr__(self) -> str:
        return "a ratio"


Point = namedtuple("Point", "x y")


@given(nested(TEXT | st.integers() | st.floats() | st.booleans() | st.none()))
@example({1: "a", "1": "b", None: "c", False: "d", 1.5: "e", float("nan"): "f"})
@example({"a": [float("inf"), -float("inf"), float("nan")]})
@example([float("inf"), -float("inf"), float("nan"), [True, None, "ü\u2028\U0001f600"]])
@example({"t": "m", "v": {"t": "i", "v": 1}})
def test_the_text_is_the_official_one_to_the_byte(value: Any) -> None:
    assert EXTENDED.serialize(value, CONTEXT) == THEIRS.serialize(value)


@given(nested(TEXT))
@example({"t": 1, "v": 2})
@example(({"t": "zz", "v": ()},))
def test_what_was_written_comes_back_in_its_own_type(value: Any) -> None:
    assert repr(EXTENDED.deserialize(EXTENDED.serialize(value))) == repr(value)


@pytest.mark.parametrize(
    "value, back",
    [
        (Level.LOW, 1),
        (Colour.RED, "red"),
        ({"of": Ratio(0.5), "level": Level.LOW, Colour.RED: Colour.RED}, {"of": 0.5, "level": 1, "red": "red"}),
        ([Ratio(0.5)], [0.5]),
        ({"n": Count(3)}, {"n": 3}),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        ({3: "x"}, {"3": "x"}),
    ],
)
def test_a_subclass_is_kept_as_what_it_derives_from(value: Any, back: object) -> None:
    text = EXTENDED.serialize(value)
    assert text == THEIRS.serialize(value)
    assert EXTENDED.deserialize(text) == back
    assert type(EXTENDED.deserialize(text)) is type(back)


ITEMS = st.lists(st.tuples(st.sampled_from(list(BatchItemStatus)), nested(TEXT), st.none() | TEXT), max_size=4)


def batch(models: Any, error: Any, statuses: Any, items: list[tuple[BatchItemStatus, Any, str | None]], reason: CompletionReason) -> Any:
    made = [
        models.BatchItem(i, statuses(status.value), result, None if text is None else error(text, None, None, ["line"]))
        for i, (status, result, text) in enumerate(items)
    ]
    return models.BatchResult(made, models.CompletionReason(reason.value))


@given(ITEMS, st.sampled_from(list(CompletionReason)))
def test_a_batch_result_is_written_as_the_official_one_and_comes_back(
    items: list[tuple[BatchItemStatus, Any, str | None]], reason: CompletionReason
) -> None:
    ours = batch(models, ErrorObject, BatchItemStatus, items, reason)
    theirs = batch(official_models, official_service.ErrorObject, official_config.BatchItemStatus, items, reason)
    text = EXTENDED.serialize({"batch": ours})
    assert text == THEIRS.serialize({"batch": theirs})
    assert repr(EXTENDED.deserialize(text)["batch"]) == repr(ours)


def outcome(module: Any, text: Any) -> str:
    """What reading gives: the value, or that it was refused as a value that cannot be read."""
    try:
        return repr(module.deserialize(None, text, "op", "arn"))
    except (SerDesError, official_exceptions.SerDesError):
        return "refused"


TAGS: st.SearchStrategy[Any] = st.sampled_from([tag.value for tag in serdes.TypeTag]) | st.sampled_from(["", "zz", 1, None, [], {}])
ENVELOPES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "7", "1.5", "YQ==", "2026-01-02", "2026-01-02T03:04:05Z", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["t", "v", "a"]), inner, max_size=3)
        | st.fixed_dictionaries({"t": TAGS, "v": inner})
        | st.fixed_dictionaries(
            {"t": st.sampled_from(["l", "t", "m"]), "v": st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)}
        )
    ),
    max_leaves=10,
)


@given(ENVELOPES)
@example({"t": "f", "v": 1})
@example({"t": "i", "v": "7"})
@example({"t": "s", "v": 5})
@example({"t": "b", "v": 0})
@example({"t": "n", "v": 5})
@example({"t": "l", "v": [1, {"a": {"t": "i", "v": 1}}, {"t": "i", "v": 2, "more": 3}]})
@example({"t": "br", "v": {"all": {"t": "l", "v": []}}})
def test_any_json_is_read_as_the_official_sdk_reads_it(value: Any) -> None:
    text = json.dumps(value)
    assert outcome(serdes, text) == outcome(official, text)


@pytest.mark.parametrize(
    "text", ["", " 1 ", "\n{}", "[1] [2]", "{", '{"t":"i","v":1} ', "nul", "\ufeff1", b'{"t":"i","v":1}', None, 5], ids=repr
)
def test_text_around_the_json_is_treated_as_json_loads_does(text: Any) -> None:
    assert outcome(serdes, text) == outcome(official, text)


CIRCLE: list[Any] = []
CIRCLE.append({"again": CIRCLE})


@pytest.mark.parametrize(
    "value, says",
    [
        (object(), "Unsupported type: <class 'object'>"),
        ({"a": {1, 2}}, "Unsupported type: <class 'set'>"),
        ((1j,), "Unsupported type: <class 'complex'>"),
        ({("a", "b"): 1}, "Tuple keys not supported"),
        ({b"a": 1}, "keys must be str, int, float, bool or None, not bytes"),
        (CIRCLE, "maximum recursion depth exceeded"),
    ],
)
def test_a_value_that_cannot_be_written_is_refused_as_the_official_sdk_does(value: Any, says: str) -> None:
    with pytest.raises(SerDesError) as ours:
        serdes.serialize(None, value, "op-1", "arn")
    with pytest.raises(official_exceptions.SerDesError) as theirs:
        official.serialize(None, value, "op-1", "arn")
    assert says in str(ours.value)
    assert says in str(theirs.value)


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"a":1}', 'Malformed envelope: missing "t" or "v" at root.'),
        ("[{}]", 'Malformed envelope: missing "t" or "v" at root.'),
        ('{"t":"zz","v":1}', 'Unknown type tag: "zz"'),
        ('{"t":[],"v":1}', 'Unknown type tag: "[]"'),
        ('{"t":"l","v":[{"t":"zz","v":1}]}', 'Unknown type tag: "zz"'),
        ('{"t":"l","v":{}}', "Expected list, got <class 'dict'>"),
        ('{"t":"m","v":[]}', "Expected dict, got <class 'list'>"),
    ],
)
def test_text_that_nobody_wrote_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(SerDesError) as refused:
        EXTENDED.deserialize(text)
    assert str(refused.value) == says


class Failing(SerDes[Any]):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def serialize(self, value: Any, serdes_context: SerDesContext) -> str:
        raise self.error

    def deserialize(self, data: str, serdes_context: SerDesContext) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [SerDesError("permanent", data="kept"), RetryableSerDesError("not now")])
def test_an_error_that_says_what_it_means_passes_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)) as writing:
        serdes.serialize(Failing(error), 1, "op", "arn")
    with pytest.raises(type(error)) as reading:
        serdes.deserialize(Failing(error), "1", "op", "arn")
    assert writing.value is reading.value is error


def test_any_other_error_arrives_as_serdes_error_with_its_cause_and_a_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broken = KeyError("shelf")
    with caplog.at_level(logging.ERROR), pytest.raises(SerDesError) as writing:
        serdes.serialize(Failing(broken), 1, "op-7", "arn")
    with pytest.raises(SerDesError) as reading:
        serdes.deserialize(Failing(broken), "1", "op-7", "arn")
    assert str(writing.value) == "Serialization failed for id: op-7, error: 'shelf'."
    assert str(reading.value) == "Deserialization failed for id: op-7, error: 'shelf'."
    assert writing.value.__cause__ is reading.value.__cause__ is broken
    assert caplog.records[0].exc_info is not None


def test_a_serdes_is_told_whose_value_it_handles() -> None:
    class Curious(SerDes[str]):
        def serialize(self, value: str, serdes_context: SerDesContext) -> str:
            return f"{value}@{serdes_context.operation_id}@{serdes_context.durable_execution_arn}"

        def deserialize(self, data: str, serdes_context: SerDesContext) -> str:
            return f"{data}@{serdes_context.operation_id}@{serdes_context.durable_execution_arn}"

    assert serdes.serialize(Curious(), "x", "op", "arn") == serdes.deserialize(Curious(), "x", "op", "arn") == "x@op@arn"


def test_the_plain_ones_do_as_they_are_called() -> None:
    value = {"ü": [1, (2, 3)]}
    text = JsonSerDes[Any]().serialize(value, CONTEXT)
    assert text == '{"\\u00fc": [1, [2, 3]]}'
    assert JsonSerDes[Any]().deserialize(text, CONTEXT) == {"ü": [1, [2, 3]]}
    assert PassThroughSerDes[str]().serialize("as is", CONTEXT) == PassThroughSerDes[str]().deserialize("as is", CONTEXT) == "as is"


def test_a_known_value_has_the_documented_text() -> None:
    value = {
        "a": 1,
        "when": (date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC)),
        "id": UUID(int=1),
        "cost": Decimal("1.50"),
        "raw": b"a",
        "no": None,
        "ok": True,
        "r": 0.5,
        "l": ["é"],
    }
    assert json.loads(EXTENDED.serialize(value)) == {
        "t": "m",
        "v": {
            "a": {"t": "i", "v": 1},
            "when": {"t": "t", "v": [{"t": "D", "v": "2026-01-02"}, {"t": "dt", "v": "2026-01-02T03:00:00+00:00"}]},
            "id": {"t": "u", "v": "00000000-0000-0000-0000-000000000001"},
            "cost": {"t": "d", "v": "1.50"},
            "raw": {"t": "B", "v": "YQ=="},
            "no": {"t": "n", "v": None},
            "ok": {"t": "b", "v": True},
            "r": {"t": "f", "v": 0.5},
            "l": {"t": "l", "v": [{"t": "s", "v": "é"}]},
        },
    }
