"""Signatures of webhooks, as the convention Standard Webhooks defines them, so that receivers can verify them with existing libraries.

    webhook-id          the event's id, the same if the event is sent again
    webhook-timestamp   when it was sent, in seconds
    webhook-signature   v1,BASE64 of HMAC-SHA256 over `id.timestamp.body`; several, with spaces between them, while secrets are changed

A receiver should refuse a request that was sent more than five minutes ago. If it has processed the id before, it should answer 2xx and do
nothing: the event was sent again because the first answer was lost, or the request is an attacker's copy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.model.errors import AccessRefused, InvalidParameter

PREFIX: Final = "whsec_"
TOLERANCE_SECONDS: Final = 300
_LEAST_BYTES: Final = 24
_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
_TIMESTAMP: Final = re.compile(r"[0-9]{1,15}")
_MAKE_ONE: Final = "Make one with holdfast.signals.new_secret(os.urandom)."


def new_secret(chance: Callable[[int], bytes]) -> str:
    """A new secret for a webhook. `chance(size)` returns `size` random bytes, as `os.urandom` does."""
    return PREFIX + base64.b64encode(chance(32)).decode()


def key_of(secret: str) -> bytes:
    """The key of a secret. After the prefix `whsec_`, the secret has its key in base64; a secret without this prefix is the key itself.
    Raises InvalidParameter if the part after the prefix is not base64, or if the key has fewer than 24 bytes; the message does not show the
    secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else secret.encode()
    except binascii.Error:
        raise InvalidParameter(
            f"A webhook's secret begins with {PREFIX}, but the rest is not base64. Use {PREFIX} and base64, or a text that does not begin "
            f"with {PREFIX}."
        ) from None
    if len(key) < _LEAST_BYTES:
        raise InvalidParameter(f"A webhook's secret must have at least {_LEAST_BYTES} bytes. {_MAKE_ONE}")
    return key


def signature(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: one signature for each key, with spaces between them. `timestamp` is in seconds."""
    signed = f"{id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys)


def verify(headers: Mapping[str, str], body: bytes, secret: str, now_seconds: int) -> str:
    """For receivers of webhooks: check the signature and the age of a request, and return the request's id. Raises AccessRefused if a
    header is missing, the time in the request is not a number or differs from `now_seconds` by more than five minutes, or the signature is
    wrong. Raises InvalidParameter if `secret` is not valid. The names in `headers` must be in lower case. Keep the id of a
    request that you have processed; answer another request with this id with 2xx, and do nothing."""
    for name in _HEADERS:
        if name not in headers:
            raise AccessRefused(f"The header {name!r} is missing.")
    id, sent, given = (headers[name] for name in _HEADERS)
    if not _TIMESTAMP.fullmatch(sent) or abs(int(sent) - now_seconds) > TOLERANCE_SECONDS:
        raise AccessRefused(
            f"webhook-timestamp is not a number, or differs from the time now by more than {TOLERANCE_SECONDS} seconds. "
            "The request may be a copy of an old one."
        )
    wanted = signature([key_of(secret)], id, int(sent), body).encode()
    if not any(hmac.compare_digest(wanted, each.encode()) for each in given.split(" ")):
        raise AccessRefused("The signature does not fit the request: another secret signed it, or the request was changed.")
    return id
