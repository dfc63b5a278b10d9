"""What the console keeps in the store: the sessions of its browsers, and the views that people save."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter

MAX_VIEWS: Final = 100
"""The most views that one owner may keep."""


_LONGEST_NAME: Final = 100
_LONGEST_OWNER: Final = 300
_LONGEST_QUERY: Final = 8_000


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that has signed in with a credential."""

    id: str
    """The SHA-256 of the cookie's value, in hex. The value itself is never kept."""
    credential: str
    """The id of the credential that the browser signed in with."""
    csrf: str
    """The token that every form of this session must carry."""
    made_at: int
    seen_at: int
    """When a request of this session was last seen."""
    expires_at: int


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A question about executions that a person keeps under a name."""

    owner: str
    name: str
    query: str
    """The query string of the page that it opens."""
    made_at: int


def checked_view(view: SavedView) -> SavedView:
    """The view, if it can be kept."""
    for what, text, longest in (
        ("name", view.name, _LONGEST_NAME),
        ("owner", view.owner, _LONGEST_OWNER),
        ("query", view.query, _LONGEST_QUERY),
    ):
        if len(text) > longest or not text.isprintable() or (what != "query" and not text.strip()):
            raise InvalidParameter(f"The {what} of a saved view has 1 to {longest:,} printable characters.")
    return view
