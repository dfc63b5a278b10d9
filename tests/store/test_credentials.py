"""Credentials in both backends, and the signals that are still kept for those who only look."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.model.execution import Terms, new_execution
from holdfast.model.ids import Seal, id_at
from holdfast.model.verbs import Start
from holdfast.store.opening import open_store
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.credentials import CredentialsSuite, SharedCredentialsSuite
from tests.postgres import empty_store

NOW = 1_767_225_600_000
Opening = Callable[[str], Store]


@contextlib.contextmanager
def opened(where: str) -> Iterator[Opening]:
    with contextlib.ExitStack() as stores:
        yield lambda member: stores.enter_context(contextlib.closing(open_store(where, member)))


class Kept:
    """What this issue added to the outbox and to lists; mixed in, so that each backend is asked."""

    def test_kept_signals_are_told_to_anybody_in_pages(self, keeper: Store) -> None:
        keeper.subscribe("billing")
        for name in "abc":
            self.start(keeper, name)
        first, second, third = keeper.kept_signals(0, 10)
        assert [signal.name for signal in (first, second, third)] == ["a", "b", "c"]
        assert list(keeper.kept_signals(first.number, 1)) == [second]
        keeper.unsubscribe("billing")
        while keeper.expire(NOW, 100):
            pass
        assert list(keeper.kept_signals(0, 10)) == []

    def test_a_list_can_be_of_one_tenant(self, keeper: Store) -> None:
        for name, tenant in (("a", "north"), ("b", None), ("c", "south"), ("d", "north")):
            self.start(keeper, name, tenant)
        assert [x.name for x in keeper.list(Filter(tenant="north"))] == ["d", "a"]
        assert [x.name for x in keeper.list(Filter(tenant="nobody"))] == []
        assert len(keeper.list(Filter())) == 4

    @staticmethod
    def start(store: Store, name: str, tenant: str | None = None) -> None:
        header = new_execution(id_at(NOW), name, "order", "$LATEST", payload="{}", now=NOW, terms=Terms())
        store.commit([Start(msgspec.structs.replace(header, tenant=tenant), "{}")], NOW)


class TestSqlite(SharedCredentialsSuite, Kept):
    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[Opening]:
        with opened(str(tmp_path / "holdfast.db")) as opening:
            yield opening


class TestSqliteMemory(CredentialsSuite, Kept):
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        with opened(":memory:") as opening:
            yield opening


class TestPostgres(SharedCredentialsSuite, Kept):
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        with opened(empty_store()) as opening:
            yield opening


def test_a_derived_key_is_of_its_store_and_of_its_purpose() -> None:
    seal = Seal(bytes(32))
    assert seal.derived(b"access keys") == Seal(bytes(32)).derived(b"access keys")
    assert len({seal.derived(b"access keys"), seal.derived(b"other"), Seal(bytes(31) + b"x").derived(b"access keys")}) == 3
