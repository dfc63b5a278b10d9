"""Encryption at rest: payloads are encrypted with AES-256-GCM. Keys can be changed while executions run."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.model.errors import CodecFailed, ExtraMissing, InvalidParameter

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class AesGcm:
    """A payload codec: AES-256-GCM with random nonces. Each text begins with the id of its key, so a text can be read as long as the codec
    has that key.

    To change keys, first give every process the new key beside the old ones, then make it `current` everywhere. Remove an old key when the
    store has nothing left that was written with it. With random nonces, one key may encrypt about four thousand million (2**32) payloads.
    """

    name = "aes-gcm"

    def __init__(self, keys: Mapping[str, bytes], current: str, *, chance: Callable[[int], bytes] = os.urandom) -> None:
        """`keys` has keys of 32 bytes, each under an id that need not be secret. `current` is the id of the key that encrypts. `chance(n)`
        returns n random bytes, for nonces. Raises InvalidParameter if one of these is not valid, and ExtraMissing if the package
        `cryptography` is not installed."""
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ExtraMissing("Encryption needs the package `cryptography`: pip install 'holdfast[encryption]'.") from None
        for key_id, key in keys.items():
            _check_key(key_id, key)
        if current not in keys:
            raise InvalidParameter(f"`current` is {current!r}, which is not among the keys: {', '.join(sorted(keys)) or 'there are none'}.")
        self._current = current
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        # Fingerprints use a key of their own, derived from the encryption key, so that neither use reveals anything about the other.
        self._marks = {key_id: hmac.digest(key, b"holdfast input fingerprint", "sha256") for key_id, key in keys.items()}
        self._chance = chance
        self._wrong = (InvalidTag, ValueError)

    def __repr__(self) -> str:
        return f"AesGcm(keys={sorted(self._ciphers)}, current={self._current!r})"

    def encode(self, text: str, about: str) -> str:
        """The encrypted text: `KEY_ID:base64(nonce + ciphertext + tag)`. It can be decrypted only with the same `about`."""
        nonce = self._chance(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, text.encode(), about.encode())
        return f"{self._current}:{base64.b64encode(nonce + sealed).decode()}"

    def decode(self, text: str, about: str) -> str:
        """The plain text. Raises CodecFailed if the codec does not have the key, if the text is damaged, or if `about` is not the one with
        which the text was encrypted."""
        key_id, _, sealed = text.partition(":")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise CodecFailed(self._unknown(key_id))
        try:
            raw = base64.b64decode(sealed, validate=True)
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], about.encode()).decode()
        except self._wrong:
            pass
        raise CodecFailed(f"the text of key {key_id!r} is damaged, belongs to another place, or was made with another key of that id")

    def fingerprint(self, text: str, like: str | None = None) -> str:
        """A keyed hash of the text: `KEY_ID:HMAC-SHA256`. `like` is an earlier fingerprint, whose key is used again; None: the current key
        is used. Raises CodecFailed if the codec does not have that key."""
        key_id = self._current if like is None else like.partition(":")[0]
        mark = self._marks.get(key_id)
        if mark is None:
            raise CodecFailed(self._unknown(key_id))
        return f"{key_id}:{hmac.new(mark, text.encode(), hashlib.sha256).hexdigest()}"

    def _unknown(self, key_id: str) -> str:
        known = ", ".join(sorted(self._ciphers))
        named = f"key {key_id!r}" if _KEY_ID.fullmatch(key_id) else "no key of this codec"
        return f"it was made with {named}; the codec has the keys {known}"


def _check_key(key_id: object, key: object) -> None:
    """Raise InvalidParameter if the id or the key is not valid. The message never shows the key."""
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise InvalidParameter("The id of a key must be 1 to 64 letters (A-Z, a-z), digits, '.', '-' or '_'.")
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise InvalidParameter(
            f"Key {key_id!r} must be {_KEY_BYTES} bytes: make it with os.urandom({_KEY_BYTES}), or take it from a key service."
        )
