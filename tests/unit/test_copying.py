"""The quick copy of a value is what reading its text would give."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.json_copy import UNSURE, copied
from holdfast.durable.serdes import deserialize, serialize

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(plain)
def test_a_copy_equals_what_the_text_gives_back_in_value_and_type(value: Any) -> None:
    read: Any = deserialize(None, serialize(None, value, "id", "arn"), "id", "arn")
    assert copied(value) == read
    assert repr(copied(value)) == repr(read)


def test_a_copy_shares_no_container_with_its_original() -> None:
    value: dict[str, Any] = {"inner": [1, {"deep": []}]}
    copy = copied(value)
    value["inner"][1]["deep"].append("later")
    assert copy == {"inner": [1, {"deep": []}]}


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [Colour.RED, {1: "int key"}, [Decimal("1.0")], {"a": datetime(2026, 1, 1, tzinfo=UTC)}, OrderedDict(a=1), b"bytes", [[{1}]]],
)
def test_what_a_copy_cannot_tell_is_left_to_the_text(value: Any) -> None:
    assert copied(value) is UNSURE
