"""The question of the list: what people type, and what addresses carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console.query import FACETS, Query, query_from
from holdfast.model.errors import InvalidParameter
from holdfast.model.shown_status import ShownStatus

NOW = 1_800_000_000_000
_values = st.text(st.characters(codec="utf-8"), max_size=20)
_texts = st.lists(st.one_of(_values, st.sampled_from([*'"\\: ', "a:b", "is:any", "  ", '"a', "worker:"])), max_size=8).map("".join)


@given(
    st.lists(st.tuples(st.sampled_from([key for key in FACETS if key != "status"]), _values), max_size=5),
    st.sampled_from(["", "24h", "7d"]),
    _texts,
)
def test_a_question_reads_back_as_it_was_written(values: list[tuple[str, str]], since: str, text: str) -> None:
    asked = Query(values=tuple(dict.fromkeys(values)), since=since, text=text)
    assert query_from(str(asked)) == asked


@pytest.mark.parametrize(
    "typed, written",
    [
        ('"foo:bar"', '"foo:bar"'),
        ('order "foo:bar"', '"order foo:bar"'),
        ('"two  spaces"', '"two  spaces"'),
        ('"order" 17', "order 17"),
        ("worker:a foo: -x:y", "worker:a foo: -x:y"),
    ],
)
def test_a_text_is_written_in_quotes_only_where_it_would_be_read_in_another_way(typed: str, written: str) -> None:
    assert str(query_from(typed)) == written
    assert query_from(written) == query_from(typed)


def test_a_text_of_many_words_is_still_one_word_after_it_was_written() -> None:
    asked = query_from('worker:a "' + "x " * 49 + 'x"')
    assert query_from(str(asked)) == asked


def test_words_without_a_colon_are_the_beginning_of_a_name() -> None:
    asked = query_from("status:failed order-17 since:24h")
    assert (asked.of("status"), asked.text, asked.since) == (("failed",), "order-17", "24h")
    assert asked.browse(NOW).since == NOW - 86_400_000
    assert asked.browse(NOW).statuses == (ShownStatus.FAILED,)


def test_a_value_is_added_and_taken_away() -> None:
    asked = query_from("worker:a").toggled("worker", "b")
    assert str(asked) == "worker:a worker:b"
    assert str(asked.toggled("worker", "a")) == "worker:b"
    assert str(asked.without("worker")) == ""


@pytest.mark.parametrize(
    "text, said",
    [
        ("stat:x", "is not a qualifier. The qualifiers are status"),
        ("is:other", "'other' is not a value of 'is'. The only value is 'any'"),
        ("status:broken", "is not a status. The statuses are running"),
        ("since:soon", "is not a time. Write a span such as 15m"),
        ("since:2026-13-45", "is not a time"),
        ("a " * 100, "at most 50 words"),
        ("x" * 2000, "at most 1000 characters"),
    ],
)
def test_a_question_that_cannot_be_read_says_what_is_wrong_and_what_there_is(text: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        query_from(text)


@given(st.text(max_size=300))
def test_any_text_is_a_question_or_is_refused(text: str) -> None:
    try:
        asked = query_from(text)
        asked.browse(NOW)
    except InvalidParameter:
        return
    assert query_from(str(asked)) == asked
