"""The seal of a store: checkpoint tokens and callback ids that cannot be forged.

Tokens and callback ids contain a keyed hash (BLAKE2b). The key is in the store, so any process of that store can check them, and a program
without the key cannot make one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from hashlib import blake2b

from holdfast.model.errors import CallbackNotFound, InvalidToken
from holdfast.model.ids import Position

_POSITION = struct.Struct(">16sIIQ")
_MAC_BYTES = 16


class Seal:
    """Makes and checks checkpoint tokens and callback ids that cannot be forged."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def derived(self, purpose: bytes) -> bytes:
        """A second key of 32 bytes, derived from the key of this seal. `purpose` is a text of at most 16 bytes; each purpose gives another
        key. The second key reveals nothing about the first."""
        return blake2b(b"", digest_size=32, key=self._key, person=purpose).digest()

    def token(self, position: Position) -> str:
        """The checkpoint token for a position."""
        execution, epoch, sequence, revision = position
        raw = _POSITION.pack(bytes.fromhex(execution.replace("-", "")), epoch, sequence, revision)
        return base64.b64encode(raw + self._mac(b"t", raw)).decode()

    def position(self, token: str) -> Position:
        """The position that a token was made for. Raises InvalidToken if this seal did not make the token."""
        raw = self._opened(b"t", token)
        if raw is None or len(raw) != _POSITION.size:
            raise InvalidToken
        execution, epoch, sequence, revision = _POSITION.unpack(raw)
        return Position(_dashed(execution), epoch, sequence, revision)

    def callback(self, execution: str, operation_id: str) -> str:
        """The callback id of an operation. It cannot be guessed. Having it is enough to answer the callback, unless the callback is an
        approval or a cancel of a run: only code that has checked the caller's authority answers these (`operations.KEPT`)."""
        raw = bytes.fromhex(execution.replace("-", "")) + operation_id.encode()
        return base64.b64encode(raw + self._mac(b"c", raw)).decode()

    def callback_target(self, callback_id: str) -> tuple[str, str]:
        """The ids of the execution and of the operation that a callback id belongs to. Raises CallbackNotFound if this seal did not make
        the callback id."""
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
            return None  # unused bits before the padding were set: a token or a callback id must have exactly one text
        raw, mac = sealed[:-_MAC_BYTES], sealed[-_MAC_BYTES:]
        return raw if hmac.compare_digest(mac, self._mac(kind, raw)) else None


def _dashed(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
