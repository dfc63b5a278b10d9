"""Payloads at rest: what a codec must do, and the only functions that call one.

A store hands every payload (input, result, error, state, answer, graph, schedule) to its codec where the row is made and where it is read;
memory holds plain text. Without a codec nothing here is called. `store.encryption` has a ready codec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from holdfast.model.errors import CodecFailed
from holdfast.model.execution import View
from holdfast.model.verbs import Start

_CHECK: Final = "holdfast"


class PayloadCodec(Protocol):
    """Turns a payload's text into the text that the store keeps, and back. Several threads call it at once."""

    @property
    def name(self) -> str:
        """The codec's name, which must never change. A store remembers it, and refuses a codec with another name."""
        ...

    def encode(self, text: str, about: str) -> str:
        """The text to store. `about` names the place of the payload: a text made for one place must not be readable at another."""
        ...

    def decode(self, text: str, about: str) -> str:
        """The text that `encode` was given for this place; anything else must raise."""
        ...

    def fingerprint(self, text: str, like: str | None = None) -> str:
        """The identity of an input: equal for equal texts. A reader without the key cannot check a guess of the text with it.

        `like` is an earlier fingerprint; the new one must equal it if the text does, also when keys have changed since.
        """
        ...


def encoded(codec: PayloadCodec, text: str, execution: str, number: int) -> str:
    """An event's payload as it is stored."""
    return _made(
        codec, f"encode the payload of event {number} of execution {execution}", lambda: codec.encode(text, f"{execution}/{number}")
    )


def decoded(codec: PayloadCodec, text: str, execution: str, number: int) -> str:
    """An event's payload as it was before it was stored."""
    return _made(
        codec, f"decode the payload of event {number} of execution {execution}", lambda: codec.decode(text, f"{execution}/{number}")
    )


def encoded_graph(codec: PayloadCodec, text: str, graph: str) -> str:
    """A graph's text as it is stored."""
    return _made(codec, f"encode graph {graph}", lambda: codec.encode(text, f"graph/{graph}"))


def decoded_graph(codec: PayloadCodec, text: str, graph: str) -> str:
    """A graph's text as it was before it was stored."""
    return _made(codec, f"decode graph {graph}", lambda: codec.decode(text, f"graph/{graph}"))


def encoded_schedule(codec: PayloadCodec, text: str, schedule: str) -> str:
    """A text of a schedule as it is stored."""
    return _made(codec, f"encode schedule {schedule}", lambda: codec.encode(text, f"schedule/{schedule}"))


def decoded_schedule(codec: PayloadCodec, text: str, schedule: str) -> str:
    """A text of a schedule as it was before it was stored."""
    return _made(codec, f"decode schedule {schedule}", lambda: codec.decode(text, f"schedule/{schedule}"))


def identified(start: Start, taken: View | None, codec: PayloadCodec) -> Start:
    """A start whose input has the identity that the codec makes. It can be compared with the identity in the execution that has the name.

    Without this, a reader of the store could compare the plain hash of a small input with guesses.
    """
    header, like = start.header, None if taken is None else taken.header.input_hash or None
    mark = _made(
        codec, f"make the fingerprint of the input of execution {header.id}", lambda: codec.fingerprint(start.same or start.input, like)
    )
    return msgspec.structs.replace(start, header=msgspec.structs.replace(header, input_hash=mark))


def check_text(codec: PayloadCodec) -> str:
    """A text for the store to keep, which tells the right keys from wrong ones before anything is read."""
    return _made(codec, "encode a check", lambda: codec.encode(_CHECK, "check"))


def check(codec: PayloadCodec, text: str) -> None:
    """Refuse keys that cannot read the check of a store."""
    if _made(codec, "decode the store's check", lambda: codec.decode(text, "check")) != _CHECK:
        raise CodecFailed(f"Codec {codec.name!r} read the store's check as something else.")


def _made(codec: PayloadCodec, what: str, make: Callable[[], object]) -> str:
    try:
        made = make()
        if isinstance(made, str):
            return made
        why = f"it gave {type(made).__name__}, not str"
    except CodecFailed as error:  # the messages of Holdfast's own codec hold nothing secret
        why = str(error).rstrip(".")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of native code is not an Exception, and must not fail the other writes of the batch
        why = type(error).__name__
    # Raised here, outside of the `except`: the message and the frames of the codec's error may hold secrets.
    raise CodecFailed(f"Codec {codec.name!r} could not {what}: {why}.")
