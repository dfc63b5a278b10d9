"""What several commands take: where the store is, and values given as text, from a file or through stdin."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.model import codec
from holdfast.model.auditing import Actor, kept_days, principal
from holdfast.model.errors import InvalidParameter, PayloadNotJson
from holdfast.model.payloads import PayloadCodec
from holdfast.service.client import Client
from holdfast.service.settings import default_codec, default_store
from holdfast.store.backends import placed

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="The store's file or address. Without it: $HOLDFAST_STORE, else ./holdfast.db."),
]
CodecOption = Annotated[
    str | None,
    typer.Option("--codec", metavar="FILE:NAME", help="The store's payload codec, if it has one. Without it: $HOLDFAST_CODEC, else none."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
LinesOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for machines: one document per line.")]
ExecutionArgument = Annotated[
    str, typer.Argument(metavar="EXECUTION", help="Its ARN, its id, FUNCTION/NAME, or its name if no other execution has it.")
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Trust the folders that a worker needs, and remember it: their tools run outside the sandbox.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The operator's file. Without it: $HOLDFAST_CONFIG, else holdfast.toml of this folder."),
]
ErrorMessageOption = Annotated[str | None, typer.Option("--error-message", metavar="TEXT", help="What went wrong, in words.")]
ErrorTypeOption = Annotated[str | None, typer.Option("--error-type", metavar="TEXT", help="What kind of error it is.")]


def local_actor() -> Actor:
    """Whom the audit log names for what is done at this terminal."""
    return Actor(who=principal(), origin="cli", days=kept_days(os.environ))


class StorePlace(msgspec.Struct, frozen=True):
    """Where the store is and what encodes its payloads, and how the user said so."""

    where: str
    said: tuple[str, ...]
    """The options that said it."""
    codec_address: str | None
    found: bool = False
    """It was not named, neither by an option nor by the environment: it is the one of the current folder."""

    @classmethod
    def of(cls, store: str | None, codec: str | None) -> StorePlace:
        """The store of a command line."""
        said = (("--store", store) if store else ()) + (("--codec", codec) if codec else ())
        found = not store and not os.environ.get("HOLDFAST_STORE")
        return cls(placed(store or default_store()), said, codec or default_codec(), found)

    def codec(self) -> PayloadCodec | None:
        """What encodes its payloads. Its module may print as it likes: stdout is the command's alone."""
        if self.codec_address is None:
            return None
        from holdfast.service.loading import load_codec  # it loads the SDK, which looking at a store does not need

        with contextlib.redirect_stdout(sys.stderr):
            return load_codec(self.codec_address)

    def client(self, *, create: bool = False) -> Client:
        """A client of this store, for the user at this terminal."""
        return Client.open(self.where, create=create, codec=self.codec(), actor=local_actor())

    def command(self, *words: str) -> str:
        """A command line that works on this store, to be copied as it is."""
        return shlex.join(["holdfast", *words, *self.said])


def read_text(option: str, value: str) -> str:
    """The text of an option: itself, a file's with `@path`, or stdin's with `-`."""
    try:
        if value == "-":
            return sys.stdin.buffer.read().decode()
        if value.startswith("@"):
            return Path(value[1:]).read_bytes().decode()
    except OSError as error:
        raise InvalidParameter(f"{option}: {value[1:]} could not be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{option}: the text is not UTF-8 (byte {error.start}).") from None
    return value


def read_json(option: str, value: str) -> Any:
    """The JSON value of an option; a mistake is shown with its position."""
    text = read_text(option, value)
    try:
        return codec.loads(text)
    except PayloadNotJson as error:
        raise PayloadNotJson(f"{option}: {error}") from None
