"""Filter patterns of logs: what matches, what does not, and what is refused."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lambda_api.logs.filter_patterns import MAX_CHARACTERS, FilterPattern
from holdfast.model.errors import PatternInvalid

ARN = "arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/order-42/0197"
RECORD = {
    "timestamp": "2026-01-01T00:00:00.000Z",
    "level": "ERROR",
    "message": 'card "refused" at https://shop.example/pay',
    "executionArn": ARN,
    "attempt": 3,
    "seconds": 0.5,
    "retry": True,
    "cause": None,
    "who": {"name": "ada", "tags": ["a", "b"], "first-name": "Ada"},
    "items": [{"price": 5}, {"price": 7}],
    "code": "404",
}


def matches(pattern: str, record: object = RECORD) -> bool:
    return FilterPattern(pattern).matches(json.dumps(record))


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "   ",
        "refused",
        "card refused",
        "refused card",
        '"at https://shop.example/pay"',
        'card "refused"',
        '"card \\"refused\\""',
        "https://shop.example/pay",
        "?nothing ?refused",
        "?refused",
        "card -nothing",
        "-nothing",
        '-"not here" -"nor here"',
        "card ?nothing ?refused -unknown",
        "ERROR",
        "{ $.level = ERROR }",
        '{ $.level = "ERROR" }',
        '{$.level="ERR*"}',
        "{ $.level = E*R }",
        "{" + "(" * 40 + "$.level = ERROR" + ")" * 40 + "}",
        f'{{ $.executionArn = "{ARN}" }}',
        '{ $.executionArn = "*/order-42/*" && $.level = "ERROR" }',
        '{ $.level = "INFO" || $.attempt = 3 }',
        '{ ($.level = "INFO" || $.level = "ERROR") && ($.attempt > 2) }',
        '{ $.level = "ERROR" || $.level = "x" && $.level = "y" }',
        '{ $.level != "INFO" }',
        "{ $.level != IN* }",
        "{ $.attempt = 3 }",
        "{ $.attempt = 3.0 }",
        "{ $.attempt != 4 }",
        "{ $.attempt > 2.5 && $.attempt >= 3 && $.attempt <= 3 && $.attempt < 1e1 }",
        "{ $.seconds > -1 && $.seconds < .6 }",
        "{ $.retry IS TRUE }",
        "{ $.retry = true }",
        "{ $.cause IS NULL }",
        "{ $.nothing NOT EXISTS }",
        "{ $.who.nothing NOT EXISTS }",
        "{ $.attempt.deeper NOT EXISTS }",
        "{ $.who.name = ada }",
        "{ $['who']['name'] = ada }",
        '{ $.who["name"] = ada }',
        '{ $.who.first-name = "Ada" }',
        "{ $.items[1].price = 7 }",
        "{ $.items[*].price = 5 }",
        "{ $.who.tags[0] = a }",
        "{ $.who.* = ada }",
        '{ $.code = "404" }',
        '{ $.executionArn = "*" }',
    ],
)
def test_a_record_that_is_asked_for_matches(pattern: str) -> None:
    assert matches(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "Refused",
        "card nothing",
        "card -refused",
        '-"card"',
        "?nothing ?unknown",
        "card ?nothing",
        '"refused card"',
        '{ $.level = "error" }',
        "{ $.level = ERRO }",
        '{ $.level = "*X*" }',
        '{ $.level = "ERRORERR*" }',
        '{ $.level = "ERROR" && $.level = "INFO" }',
        '{ ($.level = "ERROR" || $.level = "x") && $.level = "y" }',
        "{ $.attempt > 3 }",
        "{ $.attempt < 3 }",
        "{ $.attempt != 3 }",
        "{ $.attempt = 31 }",
        "{ $.code = 404 }",
        '{ $.attempt = "3" }',
        "{ $.retry > 0 }",
        "{ $.retry = 1 }",
        "{ $.retry IS FALSE }",
        "{ $.level > 1 }",
        "{ $.level IS NULL }",
        "{ $.nothing IS NULL }",
        "{ $.level NOT EXISTS }",
        '{ $.nothing = "*" }',
        '{ $.nothing != "x" }',
        "{ $.cause != x }",
        "{ $.who = ada }",
        "{ $.who != ada }",
        "{ $.items[2].price = 7 }",
        "{ $.items[*].price = 6 }",
        "{ $.who[0] = ada }",
    ],
)
def test_another_record_does_not_match(pattern: str) -> None:
    assert not matches(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "{",
        "}",
        "{}",
        "{ }",
        "{ $.a }",
        "{ $.a = }",
        "{ $.a == 1 }",
        "{ a = 1 }",
        "{ $ = 1 }",
        "{ $.a = 1 && }",
        "{ && $.a = 1 }",
        "{ $.a = 1 $.b = 2 }",
        "{ ($.a = 1 }",
        "{ $.a = 1) }",
        "{ $.a = 1 } x",
        "{ $.a > x }",
        '{ $.a > "1" }',
        "{ $.a = %x% }",
        "{ $.a =~ x }",
        "{ $.a EXISTS }",
        "{ $.a IS SOMETHING }",
        "{ $.a IS }",
        "{ $.a NOT NULL }",
        "{ $.a = $.b }",
        '{ $.a = "x }',
        "{ $..a = 1 }",
        "{ $.a[ = 1 }",
        "%ERROR%",
        "[a, b]",
        "[ERROR]",
        '"open',
        '""',
        "a*",
        "(a)",
        "a|b",
        "-",
        "?",
        '"a"b',
        "{" + "(" * 41 + "$.a = 1" + ")" * 41 + "}",
        "x" * (MAX_CHARACTERS + 1),
    ],
)
def test_what_cannot_be_read_is_refused_and_never_matches_everything(pattern: str) -> None:
    with pytest.raises(PatternInvalid):
        FilterPattern(pattern)


def test_the_refusal_says_where() -> None:
    with pytest.raises(PatternInvalid, match=r"at '%ERROR%'.*Regular expressions"):
        FilterPattern("card %ERROR%")
    with pytest.raises(PatternInvalid, match="'x' is not a number, and > compares numbers"):
        FilterPattern("{ $.a > x }")
    with pytest.raises(PatternInvalid, match="'5' is a text, because it is in quotes, and > compares numbers"):
        FilterPattern('{ $.a > "5" }')


@pytest.mark.parametrize("record", ["text", "[1]", "3", "", "{", '{"a":'])
def test_members_of_what_is_no_object_are_not_there(record: str) -> None:
    assert not FilterPattern("{ $.a NOT EXISTS }").matches(record)
    assert FilterPattern("").matches(record)


_PIECES = st.sampled_from(
    ["{", "}", "(", ")", "&&", "||", "=", "!=", "<", ">", "$", "$.a", "$.b[0]", "[*]", "IS", "NOT", "EXISTS", "NULL", "*", "1", "-", "?",
     '"', '"x"', "x", " ", "%", "\\", "é", "\n"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        pattern = FilterPattern(text)
    except PatternInvalid:
        return
    for record in (RECORD, {}, {"a": [1], "b": [{"a": None}]}):
        assert pattern.matches(json.dumps(record)) in (True, False)


def test_a_wildcard_does_not_take_for_ever() -> None:
    assert not matches('{ $.message = "' + "*a" * 400 + '*b" }', {"message": "a" * 100_000})


def test_a_star_that_stands_for_very_many_members_is_looked_at_so_far_and_no_further() -> None:
    record = json.dumps({"m": [[number] * 5 for number in range(20_000)]})
    hostile = FilterPattern("{ " + " || ".join(["$.m[*][*] = 9999999"] * 40) + " }")
    began = time.process_time()
    assert not hostile.matches(record)
    assert time.process_time() - began < 1.0
    assert FilterPattern("{ $.m[*][*] = 3 }").matches(record)
