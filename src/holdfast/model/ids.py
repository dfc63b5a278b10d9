"""Names and capabilities: ids, ARNs, checkpoint tokens and callback ids.

Tokens and callback ids are sealed with a keyed hash (BLAKE2b) whose key lives in the store, so any process of that store can read them and
nobody else can make one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import struct
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from holdfast.model.errors import CallbackNotFound, InvalidParameter, InvalidToken

LATEST = "$LATEST"
REGION, ACCOUNT = "local", "000000000000"
_ARN = re.compile(
    r"arn:(?P<partition>[a-zA-Z0-9-]+):lambda:(?P<region>[a-zA-Z0-9-]+):(?P<account>[0-9]{12}):function:(?P<function>[a-zA-Z0-9_-]+)"
    r":(?P<version>\$LATEST(?:\.PUBLISHED)?|[0-9]+)/durable-execution/(?P<name>[a-zA-Z0-9_-]+)/(?P<id>[a-zA-Z0-9_-]+)"
)
_FUNCTION = re.compile(
    r"(?:(?:arn:[a-zA-Z0-9-]+:lambda:(?P<region>[a-zA-Z0-9-]+):)?(?P<account>[0-9]{12}):)?(?:function:)?(?P<name>[a-zA-Z0-9_-]{1,64})"
    r"(?::(?P<version>\$LATEST|[a-zA-Z0-9_-]+))?"
)
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EXECUTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION = re.compile(r"\$LATEST|[1-9][0-9]*")
_POSITION = struct.Struct(">16sIIQ")
_MAC_BYTES = 16
_IDS_PER_MS = 1 << 12

IdSource = Callable[[int], str]
"""Makes a new id from the time now (milliseconds)."""


class Ids:
    """Makes UUIDs of version 7: ordered by time and, within a millisecond, by a counter.

    New rows lie side by side, and the newest-first list needs no second index.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._last = 0
        self._count = 0

    def __call__(self, now: int) -> str:
        """A new id."""
        if now > self._last:
            self._last, self._count = now, 0
        else:
            self._count += 1
            if self._count >= _IDS_PER_MS:
                self._last, self._count = self._last + 1, 0
        text = f"{self._last:012x}7{self._count:03x}{self._chance.getrandbits(62) | 1 << 63:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_chance = Random(os.urandom(32))
os.register_at_fork(after_in_child=lambda: _chance.seed(os.urandom(32)))
id_at: IdSource = Ids(_chance)
"""The ids of this process."""


class Arn(NamedTuple):
    """The parts of an execution's ARN that mean something here."""

    function: str
    version: str
    name: str
    id: str

    def __str__(self) -> str:
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}:{self.version}/durable-execution/{self.name}/{self.id}"

    @classmethod
    def parse(cls, text: object) -> Arn:
        """Read an execution ARN."""
        found = _ARN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidParameter(f"Not the ARN of a durable execution: {text!r}")
        return cls(found["function"], found["version"], found["name"], found["id"])


class FunctionName(NamedTuple):
    """A function as a caller names it: by name or ARN, perhaps with a version."""

    name: str
    version: str | None

    @classmethod
    def parse(cls, text: object) -> FunctionName:
        """Read a function's name, partial ARN or ARN."""
        found = _FUNCTION.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidParameter(f"Not a function's name or ARN: {text!r}")
        if found["account"] not in (None, ACCOUNT):
            raise InvalidParameter("Cannot start a CHAINED_INVOKE on a function in another account.")
        if found["region"] not in (None, REGION):
            raise InvalidParameter("Cannot start a CHAINED_INVOKE on a function in another region.")
        return cls(found["name"], found["version"])


def checked_function(name: object) -> str:
    """A function name that fits into an ARN."""
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise InvalidParameter(f"Function name {name!r}: use 1 to 64 letters, digits, '-' or '_'.")
    return name


def checked_name(name: object) -> str:
    """An execution name that fits into an ARN."""
    if not isinstance(name, str) or not _EXECUTION_NAME.fullmatch(name):
        raise InvalidParameter(f"Execution name {name!r}: use 1 to 64 letters, digits, '-' or '_'.")
    return name


def checked_mention(execution: object) -> str:
    """What a caller names an execution by: its ARN, its id or its name."""
    if not isinstance(execution, str):
        raise InvalidParameter(f"An execution is named by a str, its ARN or its id, and {execution!r:.100} is none.")
    return execution


def checked_version(version: int | str) -> str:
    """A version as in an ARN: `$LATEST` or a positive integer."""
    text = str(version)
    if not _VERSION.fullmatch(text):
        raise InvalidParameter(f"Version {version!r}: use a positive integer or '{LATEST}'.")
    return text


class Position(NamedTuple):
    """What a checkpoint token says: which write of which invocation comes next, and what its sender has seen.

    Inside the process this is the token itself; it is sealed where it leaves.
    """

    execution: str
    epoch: int
    sequence: int
    revision: int


class Seal:
    """Seals positions and callback ids so that they cannot be forged."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def derived(self, purpose: bytes) -> bytes:
        """A key of its own, 32 bytes, for another purpose (at most 16 bytes long): it tells nothing about this one."""
        return blake2b(b"", digest_size=32, key=self._key, person=purpose).digest()

    def token(self, position: Position) -> str:
        """The checkpoint token for a position."""
        execution, epoch, sequence, revision = position
        raw = _POSITION.pack(bytes.fromhex(execution.replace("-", "")), epoch, sequence, revision)
        return base64.b64encode(raw + self._mac(b"t", raw)).decode()

    def position(self, token: str) -> Position:
        """The position a token was made for."""
        raw = self._opened(b"t", token)
        if raw is None or len(raw) != _POSITION.size:
            raise InvalidToken
        execution, epoch, sequence, revision = _POSITION.unpack(raw)
        return Position(_dashed(execution), epoch, sequence, revision)

    def callback(self, execution: str, operation_id: str) -> str:
        """The callback id of an operation: a capability, unguessable and bound to it."""
        raw = bytes.fromhex(execution.replace("-", "")) + operation_id.encode()
        return base64.b64encode(raw + self._mac(b"c", raw)).decode()

    def callback_target(self, callback_id: str) -> tuple[str, str]:
        """The execution and operation a callback id belongs to."""
        raw = self._opened(b"c", callback_id)
        if raw is None or len(raw) <= 16:
            raise CallbackNotFound("This is not a callback id of this store.")
        return _dashed(raw[:16]), raw[16:].decode()

    def _mac(self, kind: bytes, raw: bytes) -> bytes:
        return blake2b(raw, digest_size=_MAC_BYTES, key=self._key, person=kind).digest()

    def _opened(self, kind: bytes, text: str) -> bytes | None:
        try:
            sealed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            return None
        if base64.b64encode(sealed).decode() != text:
            return None  # unused bits before the padding were set: one capability has one text
        raw, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        return raw if hmac.compare_digest(mac, self._mac(kind, raw)) else None


def _dashed(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
