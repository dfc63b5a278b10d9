"""A text that arrives in parts: no part of a secret is shown, wherever the text is cut; a text without secrets is shown whole."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.workers.tools.secrets import Redactor
from tests import parts

SECRET = "sk-live/7Yq&é 9+Zx%tail"
SHORT = "pin"


def shown(redactor: Redactor, pieces: list[str]) -> str:
    """What is shown of a text that arrives in these pieces."""
    waiting, told = "", ""
    for piece in pieces:
        waiting += piece
        text, taken = redactor.released(waiting, is_first=not told, is_last=False)
        waiting, told = waiting[taken:], told + text
    return told + redactor.released(waiting, is_first=not told, is_last=True)[0]


def cut(text: str, places: list[int]) -> list[str]:
    at = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(at)]


def wrapped(text: str) -> str:
    coded = base64.b64encode(text.encode()).decode()
    return "\n".join(coded[at : at + 20] for at in range(0, len(coded), 20))


FORMS = {
    "plain": SECRET,
    "percent": quote(SECRET, safe=""),
    "json": json.dumps(SECRET)[1:-1],
    "json twice": json.dumps(json.dumps(SECRET)[1:-1])[1:-1],
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 among others": base64.b64encode(f"user:{SECRET}:end".encode()).decode(),
    "base64 in lines": wrapped(SECRET),
    "base64 of percent": base64.b64encode(quote(SECRET, safe="").encode()).decode(),
    "hexadecimal": SECRET.encode().hex(),
    "hexadecimal in pairs": SECRET.encode().hex(" "),
    "every letter escaped": "".join(f"\\u{ord(char):04x}" for char in SECRET),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_in_any_form_is_hidden_wherever_the_text_is_cut(form: str) -> None:
    redactor = Redactor({"key": SECRET})
    text = f"The key is {form} and so on."
    whole = redactor.text(text)
    assert "[redacted:key]" in whole
    assert shown(redactor, list(text)) == whole  # letter by letter
    for place in range(len(text)):
        assert shown(redactor, cut(text, [place])) == whole, text[:place]


@settings(max_examples=parts.examples(150), deadline=None)
@given(st.text(alphabet="ab 7\nZsk-%\\&=", max_size=60), st.lists(st.integers(0, 100), max_size=8))
def test_a_text_without_secrets_is_shown_whole_however_it_is_cut(text: str, places: list[int]) -> None:
    assert shown(Redactor({"key": SECRET, "other": "sk-b"}), cut(text, places)) == Redactor({"key": SECRET, "other": "sk-b"}).text(text)
    assert shown(Redactor({}), cut(text, places)) == text


def test_a_short_secret_is_hidden_only_as_the_whole_text() -> None:
    redactor = Redactor({"pin": SHORT})
    assert shown(redactor, list(SHORT)) == "[redacted:pin]"
    assert shown(redactor, list("spinning")) == "spinning"


@pytest.mark.parametrize("text,waits", [("A plain sentence is shown but for its end", 3), ("It is. ", 0), ("漢字は待たない", 0), ("", 0)])
def test_of_plain_words_only_the_last_one_waits(text: str, waits: int) -> None:
    assert Redactor({"key": SECRET}).released(text, is_first=True, is_last=False) == (text[: len(text) - waits], len(text) - waits)


def test_a_long_word_is_shown_in_parts_and_a_secret_in_it_is_hidden() -> None:
    redactor = Redactor({"key": "abcdefgh12345678"})
    text = "x" * 6000 + "abcdefgh12345678" + "y" * 6000
    assert shown(redactor, cut(text, [*range(0, 12_000, 700), 6005])) == "x" * 6000 + "[redacted:key]" + "y" * 6000


def test_a_text_that_begins_inside_a_secret_shows_nothing_of_it() -> None:
    redactor = Redactor({"key": "abcdefgh12345678"})
    longest = redactor.beginnings.longest
    text, _ = redactor.released("h12345678 and later " + "z " * longest, begin=longest, is_first=False, is_last=True)
    assert "345" not in text
    assert text.endswith("z z ")
