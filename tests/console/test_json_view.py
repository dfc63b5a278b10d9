"""JSON on a page: escaped, whole numbers, and bounded whatever is in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.console.json_view import json_html
from holdfast.console.rendering import pretty

_MOST = 2_000_000


def test_large_numbers_keep_their_digits() -> None:
    assert "12345678901234567890123" in json_html('{"id": 12345678901234567890123, "x": 1.10}')
    assert "1.10" in json_html('{"x": 1.10}')


def test_a_number_that_python_cannot_hold_is_left_as_it_is() -> None:
    assert pretty('{"x": 1.5}') == '{\n  "x": 1.5\n}'
    for number in ("1e-9999999999999999999", "0e9999999999999999999", "1e999", "1e-400", "0." + "1" * 30, "9" * 5_000):
        assert pretty(f'{{"x": {number}}}') == f'{{"x": {number}}}'


def test_markup_and_characters_that_turn_text_around_are_shown_and_do_nothing() -> None:
    page = json_html(json.dumps({"<script>": "<img src=x onerror=alert(1)>\u202e\u0000\x1b[31m"}))
    assert "<script>" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;img" in page


def test_a_large_value_is_cut_and_says_so() -> None:
    many = json_html(json.dumps({f"k{number}": number for number in range(100_000)})[:190_000] + "}")
    assert len(many) < 50_000
    assert "cut" in many
    keys = json_html(json.dumps({f"k{number}": number for number in range(10_000)}))
    assert "9,800 more" in keys
    assert "(1,000,000 characters)" not in json_html(json.dumps("x" * 1_000_000))
    assert "characters in all" in json_html(json.dumps("x" * 1_000_000))


def test_endless_nesting_is_shown_to_a_depth() -> None:
    assert "deeper" in json_html("[" * 500 + "]" * 500)
    assert len(json_html("[" * 90_000 + "]" * 90_000)) < 100_000


def test_a_lone_surrogate_is_shown_as_its_escape() -> None:
    assert "\\ud800" in json_html('"\\ud800"')


@given(st.text(max_size=200))
def test_any_text_is_shown(text: str) -> None:
    page = json_html(text)
    assert page.startswith('<pre class="json" ')
    assert "<script" not in page.lower()
