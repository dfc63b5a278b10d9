"""The rows of what the console keeps (model.console_state)."""

from __future__ import annotations

from holdfast.model.console_state import ConsoleSession, SavedView
from holdfast.store.rows import Row


def session_from(row: Row) -> ConsoleSession:
    """A session from its row."""
    id, credential, csrf, made_at, seen_at, expires_at = row
    return ConsoleSession(id=id, credential=credential, csrf=csrf, made_at=made_at, seen_at=seen_at, expires_at=expires_at)


def view_from(row: Row) -> SavedView:
    """A saved view from its row."""
    owner, name, query, made_at = row
    return SavedView(owner=owner, name=name, query=query, made_at=made_at)
