"""The value of a JSON text: what the standard library reads, whatever reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model import codec
from holdfast.model.errors import PayloadNotJson
from tests import parts

NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=12,
)
SCRAPS = st.lists(
    st.sampled_from([*'{}[]:,"\\ \n\t0123456789.eE+-/aué\x01', "null", "true", "NaN", "Infinity", "\\u", "\\ud800", "\ufeff"])
).map("".join)
TEXTS = NUMBERS | VALUES.map(json.dumps) | VALUES.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)) | SCRAPS


def read(reader: Callable[[str], Any], text: str) -> str:
    """The value and its types, or that the text was refused. `repr` tells 1 from 1.0 and from True, and 0.0 from -0.0."""
    try:
        return repr(reader(text))
    except (ValueError, PayloadNotJson):
        return "refused"


def refused(word: str) -> Any:
    raise ValueError(word)


@settings(max_examples=parts.examples(1_000), deadline=None)
@given(TEXTS)
@example("123456789012345678901234567890")
@example("-0")
@example("1e400")
@example('"\\ud800"')
@example('{"a":1,"a":2}')
@example('\ufeff{"a":1}')
def test_a_text_has_the_value_that_the_standard_library_reads(text: str) -> None:
    assert read(codec.value_of, text) == read(codec.loads, text) == read(json.loads, text)
    assert read(codec.parsed, text) == read(lambda given: json.loads(given, parse_constant=refused), text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_text_that_is_too_deep_is_refused_and_not_a_crash(text: str) -> None:
    for reader in (codec.loads, codec.parsed):
        with pytest.raises(PayloadNotJson):
            reader(text)


def test_equal_keys_of_many_values_are_one_text_in_memory() -> None:
    first, second = codec.loads('{"order_id":1}'), codec.loads('{"order_id":2}')
    assert next(iter(first)) is next(iter(second))
