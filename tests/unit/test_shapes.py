"""How much a JSON text holds is known before it is read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.protocol import request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.hosts.sandbox.body_frames import FrameReader, Malformed, encoded
from holdfast.model.codec import parsed, too_deep
from holdfast.model.errors import PayloadNotJson
from holdfast.model.shapes import MAX_CONTAINERS, MAX_DIGITS, MAX_EXTREME, MAX_VALUES, crowding
from holdfast.model.wire import checkpoint_from_json
from holdfast.server import schedules
from holdfast.server.protocol import approvals, request_parts, restarts

MEGABYTE = 1 << 20
WORST = {
    "empty lists": b"[" + b"[]," * (MEGABYTE // 3) + b"[]]",
    "empty objects": b"[" + b"{}," * (MEGABYTE // 3) + b"{}]",
    "numbers": b"[" + b"0," * (MEGABYTE // 2) + b"0]",
    "empty texts": b"[" + b'"",' * (MEGABYTE // 3) + b'""]',
    "members": b"{" + b",".join(b'"%d":0' % number for number in range(MEGABYTE // 9)) + b"}",
    "digits": b"[" + b",".join([b"9" * 4_000] * (MEGABYTE // 4_000)) + b"]",
    "exponents": b"[" + b"1e300," * 90_000 + b"0]",
    "small numbers": b"[" + b"1.234567890123456789E-300," * 40_000 + b"0]",
    "zeros": b"[" + (b"0." + b"0" * 197 + b"1234567890123456789e-99,") * 5_000 + b"0]",
    "brackets": b"[" * (MEGABYTE // 2) + b"]" * (MEGABYTE // 2),
}
values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[]{},:\n'), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def containers(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + sum(map(containers, below))


@given(values, st.integers(0, 6), st.integers(0, 8))
def test_depth_and_objects_are_counted_exactly_whatever_the_texts_hold(value: Any, depth: int, most: int) -> None:
    text = json.dumps(value).encode()
    told = crowding(text, depth, containers=most) if containers(value) > depth else None
    if told is None:
        assert containers(value) <= max(most, depth)
        assert not too_deep(value, depth + 1)
    else:
        assert containers(value) > most or "levels deep" in told


@pytest.mark.parametrize("kind", WORST)
def test_a_megabyte_of_the_worst_kind_is_refused_in_a_moment(kind: str) -> None:
    began = time.process_time()
    assert crowding(WORST[kind], 200) is not None
    assert time.process_time() - began < 0.2


def test_a_megabyte_of_closing_brackets_is_left_to_the_parser_in_a_moment() -> None:
    text = b"[" * 9_000 + b"]" * (MEGABYTE - 9_000)
    began = time.process_time()
    assert crowding(text, 500) is None
    with pytest.raises(PayloadNotJson):
        parsed(text)
    assert time.process_time() - began < 0.2


def test_a_megabyte_of_text_is_taken_whatever_it_says() -> None:
    page = '<script>f({"a":[1,2,[]]},"\\\\");</script>' * (MEGABYTE // 40)
    assert crowding(json.dumps({"html": page}).encode(), 200) is None
    assert crowding(json.dumps([{"row": number} for number in range(MAX_CONTAINERS - 1)]).encode(), 200) is None
    assert crowding(json.dumps(list(range(MAX_VALUES - 1))).encode(), 200) is None


def test_a_number_may_have_many_digits_and_a_text_any_number_of_them() -> None:
    assert crowding(b"9" * MAX_DIGITS, 200) is None
    assert crowding(b'["' + b"9" * MEGABYTE + b'"]', 200) is None
    assert crowding(b'["a",' + b"9" * (MAX_DIGITS + 1) + b"]", 200) == f"holds a number of more than {MAX_DIGITS} digits"


def test_a_few_thousand_numbers_may_be_slow_to_read_and_texts_may_look_like_any_number_of_them() -> None:
    assert crowding(b"[" + b",".join([b"-1.5E-300"] * MAX_EXTREME) + b"]", 200) is None
    assert crowding(b"[" + b",".join([b"1.5e-99", b"-2.5E+22"] * (MAX_VALUES // 2 - 1)) + b"]", 200) is None
    assert crowding(b"[" + b",".join([b"1.2345678901234567e-147", b"-2.5E+199"] * (MAX_VALUES // 2 - 1)) + b"]", 200) is None
    assert crowding(b'["' + b"1e300," * MEGABYTE + b'"]', 200) is None


@pytest.mark.parametrize("number", [b"1e300", b"1E-200", b"1e1000", b"1e0300"])
def test_more_than_a_few_thousand_exponents_beyond_199_are_refused(number: bytes) -> None:
    assert crowding(b"[" + b",".join([number] * MAX_EXTREME) + b"]", 200) is None
    refused = crowding(b"[" + b",".join([number] * (MAX_EXTREME + 1)) + b"]", 200)
    assert refused == f"holds more than {MAX_EXTREME} exponents beyond 199 and runs of a hundred digits"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_a_text_in_another_encoding_hides_nothing(encoding: str) -> None:
    """Python's parser reads it. Its bytes have quotes where its text has none, so that any number of lists looked like one text."""
    text = ('{"\u0122":[' + "[]," * 30_000 + "[]]}").encode(encoding)
    assert isinstance(json.loads(text), dict)
    with pytest.raises(InvalidRequest, match="holds the byte 0"):
        request_from(text, worker_id="w")


READERS: dict[str, Callable[[Any], Any]] = {
    "a message for a queue": lambda request: request_parts.body_of(request, dict[str, Any]),
    "an answer of a person": lambda request: approvals._said(request, approvals._Answered),
    "a restart": lambda request: restarts._body(request, restarts._Restart),
    "a schedule": schedules._body,
    "a checkpoint": lambda request: checkpoint_from_json(request.content),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", WORST)
def test_a_request_of_the_worst_kind_is_refused_before_it_is_parsed(reader: str, kind: str) -> None:
    request = SimpleNamespace(content=b'{"result":' + WORST[kind] + b"}")
    with pytest.raises((InvalidRequest, msgspec.DecodeError), match=r"the text (holds|is nested) "):
        READERS[reader](request)


@pytest.mark.parametrize("kind", WORST)
def test_a_frame_of_the_worst_kind_ends_the_body_that_sent_it(kind: str) -> None:
    frame = b'{"op":"progress","data":' + WORST[kind] + b"}"
    heard = FrameReader(2 * MEGABYTE, 1000, now=0.0)
    with pytest.raises(Malformed, match=r"a frame that (holds|is nested)"):
        heard.take(len(frame).to_bytes(4, "big") + frame, [], 0.0)


def test_a_body_whose_frames_take_long_to_read_is_read_less_often() -> None:
    heard = FrameReader(MEGABYTE, 1000, now=0.0)
    large = encoded({"op": "progress", "data": list(range(90_000))})
    assert heard.take(large, [], 0.0)
    assert heard.rest == 0, "one large frame does no harm"
    heard.take(large * 2, [], 0.0)
    assert 0 < heard.rest <= 1
    heard.take(encoded({}), [], 10.0)
    assert heard.rest == 0
