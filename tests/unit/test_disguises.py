"""Disguises of secrets: whatever two encodings lie on top of each other, the secret is found, at a cost that grows with the text."""

from __future__ import annotations

import base64
import html
import json
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.workers.tools.secrets import Redactor

SECRET = 'p@ss/w%rd+\\"ünd"<&>'
MARK = "[redacted:KEY]"
Encoding = Callable[[str], str]


def _lowered(text: str) -> str:
    """Percent-encoding with small letters, of every byte."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


def _escaped(text: str) -> str:
    """Every letter as \\uXXXX, as some writers of JSON do."""
    raw = text.encode("utf-16-be")
    return "".join(f"\\u{raw[at]:02x}{raw[at + 1]:02x}" for at in range(0, len(raw), 2))


def _wrapped(width: int, offset: int, line: str = "\n") -> Encoding:
    def encode(text: str) -> str:
        longer = b"x" * offset + text.encode() + b"y" * 40
        return line.join(textwrap.wrap(base64.b64encode(longer).decode(), width))

    return encode


ENCODINGS: dict[str, Encoding] = {
    "percent": lambda text: quote(text, safe=""),
    "percent, small letters": _lowered,
    "percent, pluses": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps({"inner": json.dumps({"key": text})}),
    "unicode escapes": _escaped,
    "HTML": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 in lines of 64, offset 0": _wrapped(64, 0),
    "base64 in lines of 64, offset 1": _wrapped(64, 1, "\r\n"),
    "base64 in lines of 76, offset 2": _wrapped(76, 2),
    "base64 in short lines": _wrapped(16, 0),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal with colons": lambda text: text.encode().hex(":"),
    "bytes as Python shows them": lambda text: repr(text.encode())[2:-1],
    "every byte escaped": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
}
# A plus sign is a space in forms alone: under another layer this is unknown, so it is not undone there.
INNER = {name: encoding for name, encoding in ENCODINGS.items() if name != "percent, pluses"}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS.keys())
def test_a_secret_is_found_under_every_encoding(encoding: Encoding) -> None:
    told = f"it said {encoding(SECRET)} and left"
    clean = Redactor({"KEY": SECRET}).text(told)
    assert MARK in clean
    assert clean.startswith("it said ")
    assert clean.endswith(" and left")


@pytest.mark.parametrize("outer", ENCODINGS.values(), ids=ENCODINGS.keys())
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER.keys())
def test_a_secret_is_found_under_two_encodings(inner: Encoding, outer: Encoding) -> None:
    assert MARK in Redactor({"KEY": SECRET}).text(f"it said {outer(inner(SECRET))} and left")


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"]), min_size=12, max_size=40),
    st.sampled_from([*INNER.values()]),
    st.sampled_from([*INNER.values()]),
)
def test_any_secret_is_found_under_any_two_encodings(secret: str, inner: Encoding, outer: Encoding) -> None:
    clean = Redactor({"KEY": secret}).text(f"< {outer(inner(secret))} >")
    assert MARK in clean
    assert secret not in clean


def test_only_the_secret_goes_and_what_stands_around_it_stays() -> None:
    told = 'a=1&key=abc%2fdef%2Bghijkl&b=2 {"k": "\\u0061bc\\/def+ghijkl", "n": 3}'
    clean = Redactor({"KEY": "abc/def+ghijkl"}).text(told)
    assert clean == f'a=1&key={MARK}&b=2 {{"k": "{MARK}", "n": 3}}'


@pytest.mark.parametrize(
    "text",
    ["%25" * 40_000, "\\u0041" * 20_000, "&amp;" * 25_000, "abcdefghijkl " * 10_000, "QUJD\n" * 25_000, "41" * 60_000, "\\\\" * 60_000],
    ids=["percent", "unicode", "entities", "words", "lines", "hexadecimal", "backslashes"],
)
def test_a_large_text_of_nothing_but_encodings_comes_back_as_it_was(text: str) -> None:
    assert Redactor({"KEY": SECRET, "OTHER": "another-secret-of-some-length"}).text(text) == text
