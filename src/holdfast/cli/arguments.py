"""Options that several commands share: the place of the store, and values that the user gives as text, in a file or through stdin."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from holdfast.model import codec
from holdfast.model.audit import Actor, kept_days, principal
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import InvalidParameter, PayloadNotJson
from holdfast.model.payloads import PayloadCodec
from holdfast.service.client import Client
from holdfast.service.opened_store import opened_store
from holdfast.service.settings import default_codec, default_store
from holdfast.store.backends import placed
from holdfast.store.seam import Store

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH|URL", help="The store's file or address. Without it: $HOLDFAST_STORE, else ./holdfast.db."),
]
CodecOption = Annotated[
    str | None,
    typer.Option("--codec", metavar="FILE:NAME", help="The store's payload codec, if it has one. Without it: $HOLDFAST_CODEC, else none."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
LinesOption = Annotated[bool, typer.Option("--json", help="Print JSON lines for machines: one document per line.")]
ExecutionArgument = Annotated[
    str,
    typer.Argument(
        metavar="EXECUTION", help="An execution: its ARN, its id, FUNCTION/NAME, or its name if no other execution has this name."
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Trust the folders that this command uses, from now on: their tools run outside the sandbox, and their holdfast.toml applies"
        " in full.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The operator's file. Without it: $HOLDFAST_CONFIG, else ./holdfast.toml, else holdfast.toml of your configuration folder.",
    ),
]
ErrorMessageOption = Annotated[str | None, typer.Option("--error-message", metavar="TEXT", help="What went wrong, in words.")]
ErrorTypeOption = Annotated[str | None, typer.Option("--error-type", metavar="TEXT", help="What kind of error it is.")]


def local_actor() -> Actor:
    """The actor that the audit log names for actions at this terminal."""
    return Actor(who=principal(), origin="cli", days=kept_days(os.environ))


NO_CONSOLE: Final = "The console cannot show a store in memory: only the connection that made such a store can read it."


class StorePlace(msgspec.Struct, frozen=True):
    """The place of the store, its payload codec, and the options by which the user named them."""

    where: str
    """The path or the address of the store."""
    said: tuple[str, ...]
    """The options of the command line that named the store and the codec, such as `("--store", "a.db")`."""
    codec_address: str | None
    """Where the payload codec is, as `FILE:NAME`; None: no codec."""
    found: bool = False
    """True if neither an option nor the environment named the store: it is the store of the current folder."""

    @classmethod
    def of(cls, store: str | None, codec: str | None) -> StorePlace:
        """The store that `--store` names, and the payload codec that `--codec` names. If an option is missing or empty, its environment
        variable is used (HOLDFAST_STORE, HOLDFAST_CODEC). If the variable is not set either, the store is ./holdfast.db, and there is no
        codec."""
        said = (("--store", store) if store else ()) + (("--codec", codec) if codec else ())
        found = not store and not os.environ.get("HOLDFAST_STORE")
        return cls(placed(store or default_store()), said, codec or default_codec(), found)

    def check_lasting(self, why: str) -> None:
        """Raise InvalidParameter if this is a store in memory. The message begins with `why`."""
        if self.where == ":memory:":
            raise InvalidParameter(f"{why} Name a file or a database with --store.")

    def codec(self) -> PayloadCodec | None:
        """Import the payload codec; None if there is none. Output of its module goes to stderr, because stdout is for the command's
        result."""
        if self.codec_address is None:
            return None
        from holdfast.author_files.function_loader import load_codec  # loads holdfast.durable, which most commands do not need

        with contextlib.redirect_stdout(sys.stderr):
            return load_codec(self.codec_address)

    def client(self, *, create: bool = False) -> Client:
        """A client of this store that acts for the user at this terminal. Raises StoreNotFound if the store's file does not exist, unless
        `create` is set."""
        return Client.open(self.where, create=create, codec=self.codec(), actor=local_actor())

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[Store, Clock]]:
        """The store, open until the block is left, and its clock. A store that does not exist is made."""
        clock = SystemClock()
        with opened_store(self.where, clock, self.codec()) as store:
            yield store, store.clock(clock)

    def command(self, *words: str) -> str:
        """A command line for this store that the user can copy."""
        return shlex.join(["holdfast", *words, *self.said])


def read_text(option: str, value: str) -> str:
    """The text of an option: for `-` the content of stdin, for `@path` the content of that file, else the value itself. Raises
    InvalidParameter if the content cannot be read or is not UTF-8."""
    try:
        if value == "-":
            return sys.stdin.buffer.read().decode()
        if value.startswith("@"):
            return Path(value[1:]).read_bytes().decode()
    except OSError as error:
        raise InvalidParameter(f"{option}: {'stdin' if value == '-' else value[1:]} could not be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{option}: the text is not UTF-8 (byte {error.start}).") from None
    return value


def read_json(option: str, value: str) -> Any:
    """The JSON value of an option, whose text is found as in `read_text`. Raises PayloadNotJson, with the position of the mistake, if the
    text is not JSON, and the errors of `read_text`."""
    text = read_text(option, value)
    try:
        return codec.parsed(text)
    except PayloadNotJson as error:
        raise PayloadNotJson(f"{option}: {error}") from None
