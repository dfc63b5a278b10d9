"""What the console keeps in the store: the sessions of its browsers, and the views that people save."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter

MAX_VIEWS: Final = 100
"""One owner may save at most this many views."""


_LONGEST_NAME: Final = 100
_LONGEST_OWNER: Final = 300
_LONGEST_QUERY: Final = 8_000


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that has signed in with a credential. Times are in milliseconds since 1970-01-01 UTC."""

    id: str
    """The SHA-256 of the cookie's value, in hex. The value itself is not stored."""
    credential: str
    """The id of the credential that the browser signed in with."""
    csrf: str
    """The token that every form of this session must carry."""
    made_at: int
    seen_at: int
    """When the session's cookie got its present value: when the session began, or later. While the session is used, its cookie gets a new
    value from time to time."""
    expires_at: int


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A search for executions that a person saves under a name."""

    owner: str
    """Who saved the view: the id of a credential, the name of its person, or `local:USER` for a user of the machine."""
    name: str
    query: str
    """The query string of the console page that shows the view."""
    made_at: int


def checked_view(view: SavedView) -> SavedView:
    """The view itself. Raises InvalidParameter if its name, owner or query is too long or has characters that are not printable, or if its
    name or owner is empty or has only spaces."""
    for what, text, longest in (("name", view.name, _LONGEST_NAME), ("owner", view.owner, _LONGEST_OWNER)):
        if len(text) > longest or not text.isprintable() or not text.strip():
            raise InvalidParameter(
                f"The {what} of a saved view is not allowed: use 1 to {longest:,} printable characters, not only spaces."
            )
    if len(view.query) > _LONGEST_QUERY or not view.query.isprintable():
        raise InvalidParameter(f"The query of a saved view is not allowed: use at most {_LONGEST_QUERY:,} printable characters.")
    return view
