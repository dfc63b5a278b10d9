"""The part of a store's specification (seam.py) for the console: reads for people, sessions and saved views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.console_state import ConsoleSession, SavedView
from holdfast.store.browse import MAX_COUNTED, Browse, Browsed, Completed, Facets, RunnerStatus, SubscriberPosition
from holdfast.store.values import Hosted


class BrowseStore(Protocol):
    """Reads for people, and the views that people save, by owner and name. `browse` and `facets` have a deadline, and use a connection of
    their own (a store in `:memory:` has only one), so that runners do not wait for them."""

    def browse(self, wanted: Browse, seconds: float) -> Browsed:
        """One page of the executions that match, newest first. It considers at most `wanted.scan` executions, even if none of them matches.
        A damaged row is left out. Raises ReadTooLong if it takes longer than `seconds`."""
        ...

    def facets(self, wanted: Browse, seconds: float, most: int = MAX_COUNTED) -> Facets:
        """Counts by field over the newest executions that match, at most `most` of them. It ignores `wanted.limit`. Raises ReadTooLong if
        it takes longer than `seconds`."""
        ...

    def runners(self) -> Sequence[RunnerStatus]:
        """The registered runners, in the order of their names."""
        ...

    def all_hosted(self) -> Sequence[Hosted]:
        """The functions, workers and pipelines that a runner has ever published, in the order of name and version: at most 10,000."""
        ...

    def subscribers(self) -> Sequence[SubscriberPosition]:
        """The subscribers of signals, in the order of their names."""
        ...

    def values(self, field: Completed, prefix: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """At most `limit` values of a field that begin with a prefix, in order. If `tenant` is given, only values of the newest 10,000
        executions of that tenant (for the tenant `default`: values of this tenant among the newest 10,000 executions of all tenants). For
        the field of tenants, the only value is then `tenant` itself."""
        ...

    def views(self, owner: str) -> Sequence[SavedView]:
        """The views of an owner, in the order of their names."""
        ...

    def put_view(self, view: SavedView) -> None:
        """Write a view. It replaces a view with the same owner and name. Raises TooManyViews if the owner would have more than 100 views.
        Raises InvalidParameter if a text of the view is not allowed."""
        ...

    def remove_view(self, owner: str, name: str) -> bool:
        """Remove a view. Returns False if the owner has no view with this name."""
        ...


class SessionStore(Protocol):
    """Sessions of the console. Sessions whose time is over stay until `RetentionStore.expire` removes them."""

    def put_session(self, session: ConsoleSession) -> None:
        """Write a session. It replaces a session with the same id."""
        ...

    def session(self, session: str) -> ConsoleSession | None:
        """The session with this id, even if its time is over; None if there is none."""
        ...

    def remove_session(self, session: str) -> bool:
        """Remove a session. Returns False if there is no session with this id."""
        ...

    def remove_login(self, credential: str, csrf: str) -> int:
        """Remove those sessions of a credential that have this CSRF token: they come from one login. Returns how many were removed."""
        ...

    def remove_sessions(self, credential: str) -> int:
        """Remove every session of a credential. Returns how many were removed."""
        ...
