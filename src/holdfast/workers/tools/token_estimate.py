"""An estimate of the tokens of a text, rather too high than too low.

No tokenizer fits all models. Words of Latin letters are about four letters to a token; digits, marks and other scripts are dense.
Tokens of a hostile text beyond the estimate are charged afterwards, from the server's own count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

_PER_MESSAGE: Final = 8
_PER_CALL: Final = 16


def estimated_tokens(text: str) -> int:
    """A text's tokens."""
    letters = sum(char.isascii() and (char.isalpha() or char.isspace()) for char in text)
    dense = sum(char.isascii() for char in text) - letters
    foreign = len(text.encode("utf-8", errors="replace")) - letters - dense
    return math.ceil(letters / 3 + dense + foreign / 2)


def estimated_input(messages: Iterable[Mapping[str, Any]], schema_text: str = "") -> int:
    """A request's tokens: its messages, the schema of its answer, and what the protocol puts around them."""
    return (
        _PER_CALL
        + sum(_PER_MESSAGE + estimated_tokens(str(message.get("content", ""))) for message in messages)
        + estimated_tokens(schema_text)
    )
