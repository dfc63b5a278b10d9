"""The embedded store: the suite, and what only SQLite and its lock files can get wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.seam import Store
from holdfast.store.sqlite.store import SqliteStore
from tests.store.suite import Opening, SharedStoreSuite, StoreSuite


def opened_at(where: str) -> Iterator[Opening]:
    stores: list[SqliteStore] = []

    def opening(member: str) -> Store:
        stores.append(SqliteStore(where, member))
        return stores[-1]

    yield opening
    for store in stores:
        store.close()


class TestSqlite(SharedStoreSuite):
    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[Opening]:
        yield from opened_at(str(tmp_path / "holdfast.db"))


class TestSqliteMemory(StoreSuite):
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        yield from opened_at(":memory:")
