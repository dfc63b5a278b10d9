"""The answer of a model's server while it arrives: as one JSON document, or as a stream of server-sent events with a few tokens each.

    data: {"choices":[{"delta":{"content":"Hel"}}]}
    data: {"choices":[{"delta":{"content":"lo."},"finish_reason":"stop"}]}
    data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}
    data: [DONE]

In both cases the result is the same JSON document. The server may be hostile: the length of a line, of the text and of the whole answer is
limited, and so is the number of values in one JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from holdfast.contract.checking import MAX_DEPTH
from holdfast.model.shapes import crowding

MOST_LINE: Final = 1024 * 1024
MOST_TEXT: Final = 4 * 1024 * 1024
"""The most characters of an answer's text; a result of a tool cannot be much larger."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a streamed answer, including everything around its text. A stream needs a few hundred bytes for each token."""
_CONTENT: Final = re.compile(rb'"content"\s*:\s*"')
_SHOWN: Final = 500


class AnswerInvalid(Exception):
    """The server's answer does not follow the protocol, or is too large. The message continues the sentence "The model's server …"."""


class ModelAnswer(Protocol):
    """An answer while it arrives."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has said that nothing more follows. Always False for an answer in one document."""
        ...

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        ...

    @property
    def reported(self) -> Any:
        """The usage that the server has reported for the whole answer; None if it has not, or if an answer in one document is not
        complete."""
        ...

    def take(self, piece: bytes) -> str:
        """Take the next bytes of the answer. Returns the part of the answer's text that these bytes add, which may be empty. Raises
        AnswerInvalid if the answer is too large or does not follow the protocol, or if the server reports an error. Raises ValueError if a
        line of a stream is not JSON."""
        ...

    def document(self) -> Mapping[str, Any]:
        """The whole answer as a JSON object. Must be called after the last bytes were taken. Raises AnswerInvalid if it is not complete,
        and ValueError if it is not JSON."""
        ...


def answer_of(content_type: str | None) -> ModelAnswer:
    """The object that takes an answer with this content type: a stream of events, or one document."""
    return StreamedAnswer() if (content_type or "").partition(";")[0].strip().lower() == "text/event-stream" else WholeAnswer()


class WholeAnswer:
    """An answer in one JSON document."""

    is_complete = False
    reported = None

    def __init__(self) -> None:
        self._body = bytearray()

    @property
    def text(self) -> str:
        """The part of the answer's text that has arrived, still with the escapes of JSON. It is used only to estimate how long the text
        is."""
        found = _CONTENT.search(self._body)
        if found is None:
            return ""
        rest = bytes(self._body[found.end() :])
        end = rest.replace(b"\\\\", b"..").replace(b'\\"', b"..").find(b'"')
        return (rest if end < 0 else rest[:end]).decode(errors="replace")

    def take(self, piece: bytes) -> str:
        """Take the next bytes of the answer. Returns an empty text, because the text is known only at the end. Raises AnswerInvalid if the
        answer is too large."""
        self._body += piece
        if len(self._body) > MOST_TEXT * 2:
            raise AnswerInvalid(f"sent an answer of more than {MOST_TEXT * 2:,} bytes")
        return ""

    def document(self) -> Mapping[str, Any]:
        """The document that the server sent. Raises AnswerInvalid if it has too many values, and ValueError if it is not a JSON object."""
        document = _parsed(bytes(self._body))
        if not isinstance(document, Mapping):
            raise ValueError("the answer is not a JSON object")
        return document


class StreamedAnswer:
    """An answer that arrives as server-sent events."""

    def __init__(self) -> None:
        self.is_complete = False
        self._line = bytearray()
        self._searched = 0
        self._bytes = self._length = 0
        self._content: list[str] = []
        self._has_content = False
        self._refusal: list[str] = []
        self._finish: Any = None
        self._usage: Any = None

    @property
    def text(self) -> str:
        return "".join(self._content)

    @property
    def reported(self) -> Any:
        """The usage that the server has reported; None before the model has finished, because until then it may be a running count."""
        return None if self._finish is None else self._usage

    def take(self, piece: bytes) -> str:
        """Take the next bytes of the answer, and read the lines that are complete now. Returns the part of the answer's text in these
        lines. Raises AnswerInvalid if the answer is above a limit or does not follow the protocol, or if the server reports an error.
        Raises ValueError if a line is not JSON."""
        self._bytes += len(piece)
        self._line += piece
        told: list[str] = []
        while not self.is_complete and (end := self._line.find(b"\n", self._searched)) >= 0:
            line = bytes(self._line[:end]).rstrip(b"\r")
            del self._line[: end + 1]
            self._searched = 0
            told.append(self._read(line))
        self._searched = len(self._line)
        if self._searched > MOST_LINE:
            raise AnswerInvalid(f"sent a line of more than {MOST_LINE:,} bytes")
        if self._bytes > MOST_BYTES:
            raise AnswerInvalid(f"sent an answer of more than {MOST_BYTES:,} bytes")
        return "".join(told)

    def _read(self, line: bytes) -> str:
        """Read one line, and return the part of the answer's text in it. A line that does not begin with `data:` is ignored."""
        if len(line) > MOST_LINE:
            raise AnswerInvalid(f"sent a line of more than {MOST_LINE:,} bytes")
        if not line.startswith(b"data:"):
            return ""
        data = line[5:].strip()
        if data == b"[DONE]":
            self.is_complete = True
            return ""
        return self._chunk(_parsed(data)) if data else ""

    def _chunk(self, chunk: Any) -> str:
        if not isinstance(chunk, dict):
            raise AnswerInvalid("sent a part of an answer that is not a JSON object")
        if chunk.get("error"):
            raise AnswerInvalid(f"broke off its answer: {_said(chunk['error'])}")
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or first.get("index", 0) != 0:
            return ""
        self._finish = first.get("finish_reason") or self._finish
        delta = first.get("delta")
        if not isinstance(delta, dict):
            return ""
        self._has_content |= isinstance(delta.get("content"), str)
        self._take_text(self._refusal, delta.get("refusal"))
        return self._take_text(self._content, delta.get("content"))

    def _take_text(self, parts: list[str], text: Any) -> str:
        if not isinstance(text, str) or not text:
            return ""
        self._length += len(text)
        if self._length > MOST_TEXT:
            raise AnswerInvalid(f"sent a text of more than {MOST_TEXT:,} characters")
        parts.append(text)
        return text

    def document(self) -> Mapping[str, Any]:
        """The document that the server would have sent without streaming. Raises AnswerInvalid if the answer is not complete. A last line
        without a line break is read here; then this also raises AnswerInvalid if that line is not allowed, and ValueError if it is not
        JSON."""
        if self._line and not self.is_complete:  # the last line may have no end
            self._read(bytes(self._line))
        if self._finish is None and not self.is_complete:
            raise AnswerInvalid("broke off before its answer was complete")
        message = {"content": self.text if self._has_content else None, "refusal": "".join(self._refusal) or None}
        return {"choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


def _parsed(text: bytes) -> Any:
    """The value of a JSON text. It is parsed on the event loop, so a text with too many values is refused before."""
    if (crowded := crowding(text, MAX_DEPTH)) is not None:
        raise AnswerInvalid(f"sent JSON that {crowded}")
    return json.loads(text)


def _said(error: Any) -> str:
    said = error.get("message") if isinstance(error, dict) else error
    return str(said)[:_SHOWN].rstrip(".")
