"""A house rule: texts name the actor, and use none of the words behind which an actor hides.

A reader whose English is a second language must guess who a pronoun without a noun is. Write the caller, the runner, the worker, the
client, the handler, the engine, the store, the author or the operator.
"""

import re

import pytest

from tests.unit.source_files import project_texts

# Spelled in pieces: this file is one of those it reads.
WORDS = ("who" + "ever", "some" + "body", "no" + "body", "come" + r"s?\s+to", "word" + r"\s+on")
BANNED = re.compile(rf"""([`'"]?)\b({"|".join(WORDS)})\b([`'"]?)""", re.I)
"""The words, with a quote on either side. Names with underscores are other words."""

NOT_OURS = ("LICENSE",)


def found(text: str) -> list[str]:
    """The words in a text. One alone between quotes or backticks is code: the name of the Unix user."""
    matches = (match for match in BANNED.finditer(text) if not match[1] or match[1] != match[3])
    return [f"line {text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[2].split())}" for match in matches]


def test_no_text_hides_who_does_something() -> None:
    texts = {name: text for name, text in project_texts().items() if not name.startswith(NOT_OURS)}
    assert len(texts) > 30
    assert {name: words for name, text in texts.items() if (words := found(text))} == {}, "name the actor"


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("Who" + "ever waits gets it.", True),
        ("what it come" + "s\nto", True),
        ("a wor" + "d on errors", True),
        ("No" + "body's memory", True),
        ("def test_who" + "ever_waits(): ...", False),
        ("the user `no" + "body`", False),
        ("tenant='no" + "body'", False),
        ("the outcome stands", False),
        ("a password only", False),
    ],
)
def test_a_hidden_actor_is_found(text: str, wrong: bool) -> None:
    assert bool(found(text)) is wrong
