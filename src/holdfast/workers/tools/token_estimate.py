"""An estimate of the tokens of a text. It is usually too high.

No tokenizer fits all models. In English words a token has about four letters; the estimate assumes three. For digits, punctuation and other
scripts it assumes more tokens. If a text has more tokens than the estimate, the further tokens are charged after the call, when the server
has reported its own count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

_PER_MESSAGE: Final = 8
_PER_CALL: Final = 16
_ASCII: Final = bytes(range(128))
_LETTERS: Final = bytes(byte for byte in _ASCII if chr(byte).isalpha() or chr(byte).isspace())


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has. It counts with fast operations on bytes, because the text may have megabytes, and this runs on the
    event loop."""
    raw = text.encode("utf-8", errors="surrogatepass")
    foreign = len(raw.translate(None, _ASCII))
    dense = len(raw.translate(None, _LETTERS)) - foreign
    letters = len(raw) - dense - foreign
    return math.ceil(letters / 3 + dense + foreign / 2)


def estimated_input(messages: Iterable[Mapping[str, Any]], schema_text: str = "") -> int:
    """About how many input tokens a request has: its messages, the schema that its answer must fit (`schema_text`), and what the protocol
    adds."""
    return (
        _PER_CALL
        + sum(_PER_MESSAGE + estimated_tokens(str(message.get("content", ""))) for message in messages)
        + estimated_tokens(schema_text)
    )
