"""Names and capabilities: what they look like, and that no caller can make or change one."""

import base64
import os
import re
import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.clock import SystemClock
from holdfast.model.errors import CallbackNotFound, InvalidParameter, InvalidToken
from holdfast.model.ids import (
    LATEST,
    Arn,
    Ids,
    Position,
    checked_function,
    checked_name,
    checked_version,
    id_at,
    new_span_id,
    new_trace_id,
)
from holdfast.model.seal import Seal
from tests.unit.lone import ID, T0

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
AWS_SEALED = re.compile(r"[A-Za-z0-9+/]+={0,2}")
AWS_ARN = re.compile(
    r"arn:([a-zA-Z0-9-]+):lambda:([a-zA-Z0-9-]+):(\d{12}):function:([a-zA-Z0-9_-]+):(\$LATEST(?:\.PUBLISHED)?|[0-9]+)"
    r"/durable-execution/([a-zA-Z0-9_-]+)/([a-zA-Z0-9_-]+)"
)
positions = st.builds(Position, st.uuids().map(str), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1))
operation_ids = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=64)


# --- ids ---------------------------------------------------------------------------------------------------------------------


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = uuid.UUID(Ids(Random())(T0))
    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, T0)


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=50))
def test_ids_sort_as_they_were_made_even_if_the_clock_is_set_back(times: list[int]) -> None:
    ids = Ids(Random())
    made = [ids(at) for at in times]
    assert made == sorted(set(made))


def test_ids_sort_as_they_were_made_however_many_a_millisecond_has() -> None:
    ids = Ids(Random())
    made = [ids(T0) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {uuid.UUID(text).version for text in made} == {7}


@pytest.mark.parametrize("turn", ["a test that makes an id of tomorrow", "the next test"])
def test_an_id_of_tomorrow_that_a_test_lets_the_process_make_does_not_reach_the_next_test(turn: str) -> None:
    now = SystemClock().now()
    made = int(id_at(now).replace("-", "")[:12], 16)
    assert now <= made < now + 60_000
    id_at(now + 86_400_000)


def test_ids_of_two_makers_differ() -> None:
    assert Ids(Random())(T0) != Ids(Random())(T0)


def test_ids_of_traces_and_spans_have_the_form_of_w3c_and_differ_also_in_a_forked_process() -> None:
    made = [(new_trace_id(), new_span_id()) for _ in range(100)]
    assert len(set(made)) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", trace) and re.fullmatch("[0-9a-f]{16}", span) for trace, span in made)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_trace_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 32).decode() != new_trace_id()
    os.close(reading)
    os.close(writing)


def test_the_chance_in_an_id_can_be_given() -> None:
    assert Ids(Random(1))(T0) == Ids(Random(1))(T0)


# --- ARNs --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [LATEST, "1", "42"])
def test_an_arn_reads_back_and_has_the_form_of_the_service(version: str) -> None:
    arn = Arn("order", version, "order_1-x", ID)
    assert Arn.parse(str(arn)) == arn
    assert AWS_ARN.fullmatch(str(arn))
    assert str(arn).rsplit("/", 1)[1] == ID, "the last segment is the id of the EXECUTION operation"


def test_an_arn_of_any_region_and_account_is_read() -> None:
    text = f"arn:aws-cn:lambda:eu-west-1:123456789012:function:order:7/durable-execution/order-1/{ID}"
    assert Arn.parse(text) == Arn("order", "7", "order-1", ID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order-1",
        f"arn:aws:lambda:local:000000000000:function:order/durable-execution/order-1/{ID}",
        f"arn:aws:lambda:local:000000000000:function:order:live/durable-execution/order-1/{ID}",
        f"arn:aws:lambda:local:00000000000:function:order:1/durable-execution/order-1/{ID}",
        f"arn:aws:lambda:local:٠٠٠٠٠٠٠٠٠٠٠٠:function:order:1/durable-execution/order-1/{ID}",
        f"arn:aws:lambda:local:000000000000:function:or.der:1/durable-execution/order-1/{ID}",
        f"arn:aws:lambda:local:000000000000:function:order:1/durable-execution/order 1/{ID}",
        "arn:aws:lambda:local:000000000000:function:order:1/durable-execution/order-1",
        f"arn:aws:lambda:local:000000000000:function:order:1/durable-execution/order-1/{ID}\n",
        f" arn:aws:lambda:local:000000000000:function:order:1/durable-execution/order-1/{ID}",
    ],
)
def test_anything_else_is_no_arn(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Arn.parse(text)


@pytest.mark.parametrize("check", [checked_function, checked_name])
def test_names_have_1_to_64_plain_characters(check: type[str]) -> None:
    assert [check(name) for name in ("a", "A-1_b", "x" * 64)] == ["a", "A-1_b", "x" * 64]
    for wrong in ("", "x" * 65, "a b", "a.b", "ä", "a\n"):
        with pytest.raises(InvalidParameter):
            check(wrong)


def test_a_version_is_a_positive_integer_or_latest() -> None:
    assert [checked_version(version) for version in (1, "17", LATEST)] == ["1", "17", LATEST]
    for wrong in (0, -1, "01", "live", "", "1.0", True):
        with pytest.raises(InvalidParameter):
            checked_version(wrong)


# --- seals -------------------------------------------------------------------------------------------------------------------


@given(positions)
def test_a_token_reads_back_in_any_process_of_its_store(position: Position) -> None:
    token = Seal(KEY).token(position)
    assert Seal(KEY).position(token) == position
    assert AWS_SEALED.fullmatch(token)
    assert len(token) <= 2048


def test_a_token_reads_back_as_often_as_it_is_sent() -> None:
    seal, position = Seal(KEY), Position(ID, 1, 2, 3)
    token = seal.token(position)
    assert [seal.position(token) for _ in range(3)] == [position] * 3


@given(operation_ids)
def test_a_callback_id_reads_back_in_any_process_of_its_store(operation_id: str) -> None:
    callback_id = Seal(KEY).callback(ID, operation_id)
    assert Seal(KEY).callback_target(callback_id) == (ID, operation_id)
    assert AWS_SEALED.fullmatch(callback_id)
    assert len(callback_id) <= 1024


def test_a_callback_id_is_the_same_each_time() -> None:
    assert Seal(KEY).callback(ID, "a") == Seal(KEY).callback(ID, "a")


@given(st.data())
def test_a_token_or_callback_id_with_any_character_changed_is_refused(data: st.DataObject) -> None:
    seal = Seal(KEY)
    operation_id = data.draw(operation_ids)
    for sealed, opened, error in (
        (seal.token(Position(ID, 1, 2, 3)), Seal(KEY).position, InvalidToken),
        (seal.callback(ID, operation_id), Seal(KEY).callback_target, CallbackNotFound),
    ):
        place = data.draw(st.integers(0, len(sealed) - 1))
        other = data.draw(st.sampled_from(sorted(set(BASE64 + "=-_ é") - {sealed[place]})))
        with pytest.raises(error):
            opened(sealed[:place] + other + sealed[place + 1 :])


def test_one_callback_id_has_one_text() -> None:
    """Base64 leaves bits unused before its padding: a text that differs only there is another text."""
    callback_id = Seal(KEY).callback(ID, "ab")
    assert callback_id.endswith("=")
    core = callback_id.rstrip("=")
    for other in set(BASE64) - {core[-1]}:
        with pytest.raises(CallbackNotFound):
            Seal(KEY).callback_target(callback_id.replace(core, core[:-1] + other))


@pytest.mark.parametrize("text", ["", "=", "a", "AAAA", "not base64!", "é", base64.b64encode(bytes(48)).decode(), "A" * 5000])
def test_what_was_never_sealed_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        Seal(KEY).position(text)
    with pytest.raises(CallbackNotFound):
        Seal(KEY).callback_target(text)


def test_the_seal_of_another_store_is_refused() -> None:
    with pytest.raises(InvalidToken):
        Seal(OTHER_KEY).position(Seal(KEY).token(Position(ID, 1, 2, 3)))
    with pytest.raises(CallbackNotFound):
        Seal(OTHER_KEY).callback_target(Seal(KEY).callback(ID, "a"))


def test_a_token_is_no_callback_id_and_a_callback_id_is_no_token() -> None:
    seal = Seal(KEY)
    with pytest.raises(CallbackNotFound):
        seal.callback_target(seal.token(Position(ID, 1, 2, 3)))
    with pytest.raises(InvalidToken):
        seal.position(seal.callback(ID, "x" * 16))  # as long as a token


def test_the_text_of_a_refused_token_is_the_one_clients_look_for() -> None:
    with pytest.raises(InvalidToken, match=r"^Invalid checkpoint token$"):
        Seal(KEY).position("AAAA")


def test_a_derived_key_is_of_its_store_and_of_its_purpose() -> None:
    seal = Seal(bytes(32))
    assert seal.derived(b"access keys") == Seal(bytes(32)).derived(b"access keys")
    assert len({seal.derived(b"access keys"), seal.derived(b"other"), Seal(bytes(31) + b"x").derived(b"access keys")}) == 3
