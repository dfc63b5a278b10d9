"""Payloads in the store: what a payload codec must do, and the only functions that call one.

A store gives every payload (input, result, error, state, answer, graph, schedule) to its codec before it writes the row and after it has
read the row; in memory payloads are plain text. A store without a codec calls nothing here. `store.encryption` has a codec that encrypts.
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
    """Turns the text of a payload into the text that is stored, and back. Several threads may call it at the same time."""

    @property
    def name(self) -> str:
        """The codec's name, which must never change. A store records it, and refuses a codec with another name."""
        ...

    def encode(self, text: str, about: str) -> str:
        """The text to store. `about` names the place of the payload in the store. `decode` must not accept this text for another place."""
        ...

    def decode(self, text: str, about: str) -> str:
        """The text that was given to `encode`. It must raise an error if `text` was not made by `encode` for this place."""
        ...

    def fingerprint(self, text: str, like: str | None = None) -> str:
        """A text that identifies an input: equal for equal inputs, different for different inputs. A reader of the store who does not have
        the key must not be able to test with it whether a guessed input is right.

        `like` is an earlier fingerprint, or None. If `like` was made from an equal input, the result must be equal to `like`, also if the
        codec's keys have changed since then.
        """
        ...


def encoded(codec: PayloadCodec, text: str, execution: str, number: int) -> str:
    """The payload `text` of an event as it is stored. `execution` is the id of the event's execution, `number` the event's number. Raises
    CodecFailed if the codec fails."""
    return _made(
        codec, f"encode the payload of event {number} of execution {execution}", lambda: codec.encode(text, f"{execution}/{number}")
    )


def decoded(codec: PayloadCodec, text: str, execution: str, number: int) -> str:
    """The payload of an event, from the `text` that is stored. `execution` is the id of the event's execution, `number` the event's number.
    Raises CodecFailed if the codec fails."""
    return _made(
        codec, f"decode the payload of event {number} of execution {execution}", lambda: codec.decode(text, f"{execution}/{number}")
    )


def encoded_document(codec: PayloadCodec, text: str, kind: str, name: str) -> str:
    """The text of a graph or of a schedule, as it is stored. `kind` is `graph` or `schedule`. `name` is the id of the graph, or names the
    schedule and which of its texts this is. Raises CodecFailed if the codec fails."""
    return _made(codec, f"encode {kind} {name}", lambda: codec.encode(text, f"{kind}/{name}"))


def decoded_document(codec: PayloadCodec, text: str, kind: str, name: str) -> str:
    """What was given to `encoded_document`, from the text that is stored. Raises CodecFailed if the codec fails."""
    return _made(codec, f"decode {kind} {name}", lambda: codec.decode(text, f"{kind}/{name}"))


def identified(start: Start, taken: View | None, codec: PayloadCodec) -> Start:
    """The start, with a fingerprint by the codec as the `input_hash` of its header. The fingerprint is of `Start.same` if that is given,
    else of the input. `taken` is the execution that has the name already; None if the name is free. If the start and `taken` have equal
    inputs, their fingerprints are equal. A start with `keeps_hash` has its fingerprint already, and is returned unchanged.

    A plain hash would let a reader of the store test guesses of a short input.
    """
    if start.keeps_hash:
        return start
    header, like = start.header, None if taken is None else taken.header.input_hash or None
    mark = _made(
        codec, f"make the fingerprint of the input of execution {header.id}", lambda: codec.fingerprint(start.same or start.input, like)
    )
    return msgspec.structs.replace(start, header=msgspec.structs.replace(header, input_hash=mark))


def check_text(codec: PayloadCodec) -> str:
    """A fixed text, encoded by the codec. The store keeps the result. Later the function `check` decodes it, and so finds out that keys are
    wrong before a payload is read."""
    return _made(codec, "encode a check", lambda: codec.encode(_CHECK, "check"))


def check(codec: PayloadCodec, text: str) -> None:
    """Raise CodecFailed if the codec cannot decode the text of `check_text`, which the store keeps."""
    if _made(codec, "decode the store's check", lambda: codec.decode(text, "check")) != _CHECK:
        raise CodecFailed(
            f"Codec {codec.name!r} decoded the store's check to a wrong text: its keys are not the keys of this store. "
            "Use the keys that the store was made with."
        )


def _made(codec: PayloadCodec, what: str, make: Callable[[], object]) -> str:
    try:
        made = make()
        if isinstance(made, str):
            return made
        why = f"it gave {type(made).__name__}, not str"
    except CodecFailed as error:  # the messages of Holdfast's own codec contain no secrets
        why = str(error).rstrip(".")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of native code is not an Exception, and must not fail the other writes of the batch
        why = type(error).__name__
    # Raised outside of the `except`, so that the codec's error is not attached: its message and its frames may contain secrets.
    raise CodecFailed(f"Codec {codec.name!r} could not {what}: {why}.")
