"""Signatures of webhooks, after the Standard Webhooks convention, so that receivers can verify them with a library they have. Pure.

    webhook-id          the event's id, the same whenever it is sent again
    webhook-timestamp   when it was sent, in seconds
    webhook-signature   v1,BASE64 of HMAC-SHA256 over `id.timestamp.body`; several, with spaces between them, while secrets are changed

A receiver should refuse a request that was sent more than five minutes ago, and an id that it has seen before. Then a stranger who
overheard a request cannot use it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.model.errors import AccessRefused, InvalidParameter

PREFIX: Final = "whsec_"
TOLERANCE_SECONDS: Final = 300
_LEAST_BYTES: Final = 24
_MAKE_ONE: Final = "Make one with holdfast.signals.signatures.new_secret(os.urandom)."


def new_secret(chance: Callable[[int], bytes]) -> str:
    """A secret for a webhook; `chance` makes random bytes, as `os.urandom` does."""
    return PREFIX + base64.b64encode(chance(32)).decode()


def key_of(secret: str) -> bytes:
    """The key in a secret. The message never shows it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else secret.encode()
    except binascii.Error:
        raise InvalidParameter(f"A webhook's secret must be {PREFIX} and base64, or any text.") from None
    if len(key) < _LEAST_BYTES:
        raise InvalidParameter(f"A webhook's secret must have at least {_LEAST_BYTES} bytes. {_MAKE_ONE}")
    return key


def signature(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The signature header: one signature for each key."""
    signed = f"{id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys)


def verify(headers: Mapping[str, str], body: bytes, secret: str, now_seconds: int) -> str:
    """For receivers: the id of a request whose signature is right and new enough; any other request is refused. Header names are in lower
    case.

    Remember the id for five minutes at least, and take it once.
    """
    try:
        id, sent, given = (headers[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
    except KeyError as missing:
        raise AccessRefused(f"The header {missing} is missing.") from None
    if not (sent.isascii() and sent.isdecimal()) or abs(int(sent) - now_seconds) > TOLERANCE_SECONDS:
        raise AccessRefused("The request is too old, or from the future: it may have been overheard and repeated.")
    wanted = signature([key_of(secret)], id, int(sent), body).encode()
    if not any(hmac.compare_digest(wanted, each.encode()) for each in given.split(" ")):
        raise AccessRefused("The signature is wrong.")
    return id
