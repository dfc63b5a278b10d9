"""Sessions of browsers, as a store keeps them."""

from __future__ import annotations

import msgspec


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that has logged in."""

    id: str
    """The SHA-256 of the cookie's value, in hexadecimal."""
    credential: str
    """The id of the credential with which it logged in."""
    csrf: str
    """The token that every form of the session carries."""
    made_at: int
    seen_at: int
    """When the cookie got its current value."""
    expires_at: int
