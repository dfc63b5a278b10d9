"""Sessions: a browser logs in with a token once, and then sends a cookie.

The value of the cookie is random, and the store keeps only its SHA-256. A session ends 12 hours after the login, after about 2 hours in
which the browser opened no page (forms and event streams do not count), when the browser logs out, or when its credential expires or is
revoked. If the value of the cookie is older than a quarter of an hour when the browser opens a page, the session gets a new value; the old
value is valid for one more minute, for requests that are on their way.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, NamedTuple

import msgspec

from holdfast.model.console_state import ConsoleSession
from holdfast.model.credentials import Credential
from holdfast.store.browse_seam import SessionStore
from holdfast.web.auth.key_sealing import Chance
from holdfast.web.refusals import Header

COOKIE: Final = "holdfast_session"
LIFE_MS: Final = 12 * 3_600_000
IDLE_MS: Final = 2 * 3_600_000
ROTATE_MS: Final = 15 * 60_000
_GRACE_MS: Final = 60_000
_LONGEST: Final = 200
_CSRF_BYTES: Final = 18


class NewSession(NamedTuple):
    """A session with the value of its cookie, which only the browser keeps."""

    session: ConsoleSession
    cookie: str


class Sessions:
    """The sessions of a store. All calls block."""

    def __init__(self, store: SessionStore, chance: Chance) -> None:
        self._store = store
        self._chance = chance

    def begin(self, credential: Credential, now: int) -> NewSession:
        """Begin a session for a credential, and store it. It ends at the latest when the credential expires."""
        ends = now + LIFE_MS if credential.expires_at is None else min(now + LIFE_MS, credential.expires_at)
        return self._kept(
            ConsoleSession(id="", credential=credential.id, csrf=self._text(_CSRF_BYTES), made_at=now, seen_at=now, expires_at=ends)
        )

    def find(self, cookie: str | None, now: int) -> ConsoleSession | None:
        """The session of a cookie; None if there is none, if its time is over, or if the browser opened no page for about 2 hours. Whether
        its credential is still valid is not checked here."""
        if cookie is None or not cookie or len(cookie) > _LONGEST:
            return None
        found = self._store.session(_hashed(cookie))
        return None if found is None or found.expires_at <= now or found.seen_at + IDLE_MS <= now else found

    def rotate(self, session: ConsoleSession, now: int) -> NewSession | None:
        """Give the session a new value for its cookie, and return the session with it. None if the present value is not old enough
        (ROTATE_MS). The CSRF token stays the same, so that open forms still work.

        The old value is valid for one more minute. The time of its last use is set to now, so that a further request with it does not
        rotate again: a value made from the old one would end together with it, after that minute.
        """
        if now - session.seen_at < ROTATE_MS:
            return None
        ends = min(session.expires_at, now + _GRACE_MS)
        self._store.put_session(msgspec.structs.replace(session, expires_at=ends, seen_at=now))
        return self._kept(msgspec.structs.replace(session, seen_at=now))

    def end(self, cookie: str | None) -> None:
        """End the session of a cookie: remove every value that its cookie has had since the login. They are found by the CSRF token, which
        all values of one login share. Does nothing if there is no such session."""
        found = self._store.session(_hashed(cookie[:_LONGEST])) if cookie else None
        if found is not None:
            self._store.remove_login(found.credential, found.csrf)

    def _kept(self, session: ConsoleSession) -> NewSession:
        cookie = self._text(32)
        named = msgspec.structs.replace(session, id=_hashed(cookie))
        self._store.put_session(named)
        return NewSession(named, cookie)

    def _text(self, size: int) -> str:
        return base64.urlsafe_b64encode(self._chance(size)).decode().rstrip("=")


def cookie_in(header: str | None) -> str | None:
    """The value of the session's cookie in the header Cookie; None if it is not there, or if the header is too long. If the header has the
    cookie several times, the last value. `http.cookies` is not used: it takes quadratic time to read a value with many backslashes."""
    if header is None or len(header) > 8192:
        return None
    pairs = [part.partition("=") for part in header.split(";")]
    return next((value.strip() for name, _, value in reversed(pairs) if name.strip() == COOKIE), None)


def cookie_header(value: str, *, seconds: int, secure: bool) -> Header:
    """The header that sets the cookie in a browser; with 0 seconds it removes the cookie. `secure`: the browser sends the cookie only over
    HTTPS. No script can read the cookie, and a page of another site cannot make the browser send it."""
    parts = [f"{COOKIE}={value}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict", *(["Secure"] if secure else ())]
    return (b"set-cookie", "; ".join(parts).encode())


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()
