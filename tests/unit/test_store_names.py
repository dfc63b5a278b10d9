"""A store is named by a path or an address, and `sqlite:///path` is the path, wherever a store is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.arguments import StorePlace
from holdfast.model.errors import InvalidParameter
from holdfast.service.client import Client
from holdfast.service.settings import Settings
from holdfast.store.backends import open_maintenance, open_store, placed
from holdfast.store.seam import Filter


@pytest.mark.parametrize(
    "named, meant",
    [
        ("shop.db", "shop.db"),
        (":memory:", ":memory:"),
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:///data/shop.db", "data/shop.db"),
        ("sqlite:////folder/shop.db", "/folder/shop.db"),
        ("SQLITE:///shop.db", "shop.db"),
        ("sqlite://", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("postgresql://me@there/shop", "postgresql://me@there/shop"),
    ],
)
def test_an_address_of_sqlite_is_the_path_that_it_names(named: str, meant: str) -> None:
    assert placed(named) == meant
    assert placed(meant) == meant


@pytest.mark.parametrize("wrong", ["sqlite://shop.db", "sqlite://there/shop.db", "sqlite:///shop.db?mode=ro"])
def test_an_address_that_names_no_file_is_refused_with_the_right_one(wrong: str) -> None:
    with pytest.raises(InvalidParameter, match=r"names no SQLite file. Write sqlite:///file.db"):
        placed(wrong)


@holdfast.durable_execution
def greet(event: Any, context: Any) -> str:
    return "hello"


def test_it_is_understood_wherever_a_store_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = f"sqlite:///{tmp_path}/shop.db"
    with holdfast.open("sqlite:///shop.db", functions=[greet]) as engine:
        engine.start(greet, name="a").result()
    with holdfast.open(absolute, functions=[greet]) as engine:
        engine.start(greet, name="b").result()
    with holdfast.open(settings=Settings(store=absolute), functions=[greet]) as engine:
        engine.start(greet, name="c").result()
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///shop.db")
    open_store("sqlite:///shop.db", "me").close()
    open_maintenance(absolute, "me").migrate(after=False)
    for client in (Client.open(absolute), StorePlace.of("sqlite:///shop.db", None).client(), StorePlace.of(None, None).client()):
        with client:
            assert [found.name for found in client.list(Filter())] == ["c", "b", "a"]
    assert Settings(store=absolute).store == f"{tmp_path}/shop.db"
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"shop.db"}
