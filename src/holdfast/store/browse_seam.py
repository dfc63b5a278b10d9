"""The part of a store's specification (seam.py) for the console: reads for people, sessions and saved views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.console import ConsoleSession, SavedView
from holdfast.model.operations import Operation
from holdfast.store.browse import MAX_COUNTED, Browse, Browsed, Completed, Facets, RunnerStatus, SubscriberPosition
from holdfast.store.values import HistoryEntry, Hosted


class BrowseStore(Protocol):
    """Reads for people. `browse` and `facets` have a connection of their own and a deadline, so that they never delay a runner."""

    def browse(self, wanted: Browse, seconds: float) -> Browsed:
        """Executions by filter, newest first. At most `wanted.scan` executions are considered, also if none of them matches. A damaged row
        is left out. Taking longer than `seconds` is an error (`ReadTooLong`)."""
        ...

    def facets(self, wanted: Browse, seconds: float, most: int = MAX_COUNTED) -> Facets:
        """Counts by field over the newest `most` executions that match. The filter's `limit` does not count."""
        ...

    def outline(self, execution: str, newer_than: int = 0) -> Sequence[Operation]:
        """All its operations that changed after a revision, in the order they began, without their payloads."""
        ...

    def attempts(self, execution: str, place: int) -> Sequence[HistoryEntry]:
        """The first events of one operation, in order, with their payloads. `place` is that of the operation."""
        ...

    def runners(self) -> Sequence[RunnerStatus]:
        """The runners that have a lease, in the order of their names."""
        ...

    def all_hosted(self) -> Sequence[Hosted]:
        """Every function, worker and pipeline that a runner has ever published, by name and version."""
        ...

    def subscribers(self) -> Sequence[SubscriberPosition]:
        """The subscribers of signals, in the order of their names."""
        ...

    def values(self, field: Completed, prefix: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """Values of a field that begin with a prefix, in order. For a caller who is confined to a tenant: those of the newest 10,000
        executions of that tenant."""
        ...


class SessionStore(Protocol):
    """Sessions of the console. `expire` removes those whose time is over."""

    def put_session(self, session: ConsoleSession) -> None:
        """Keep a session, in place of one of the same id."""
        ...

    def session(self, session: str) -> ConsoleSession | None:
        """The session of this id, also if its time is over."""
        ...

    def remove_session(self, session: str) -> bool:
        """Remove a session; False when there is none of this id."""
        ...

    def remove_login(self, credential: str, csrf: str) -> int:
        """Remove the sessions of a credential that have this CSRF token; they all come from one login. Returns how many there were."""
        ...

    def remove_sessions(self, credential: str) -> int:
        """Remove every session of a credential. Returns how many there were."""
        ...


class ViewStore(Protocol):
    """Views that people save, by owner and name."""

    def views(self, owner: str) -> Sequence[SavedView]:
        """The views of an owner, in the order of their names."""
        ...

    def put_view(self, view: SavedView) -> None:
        """Keep a view, in place of one of the same name. An owner has at most 100 views; one more is an error (`TooManyViews`)."""
        ...

    def remove_view(self, owner: str, name: str) -> bool:
        """Remove a view; False when there is none."""
        ...
