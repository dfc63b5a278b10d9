"""Functions that are deployed while a service runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engine.registry import Function
from holdfast.model.execution import ExecutionStatus, Terms
from holdfast.server.app import make_app
from holdfast.service.catalogue.records import Config, Entry
from holdfast.service.lambda_api.invoking import Invoke
from holdfast.service.serving import Serving, open_serving
from holdfast.service.settings import Settings
from holdfast.service.targets.descriptions import Described, FolderCode, TextCode
from holdfast.store.seam import Filter
from tests.flow.harness import eventually


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Serving]:
    async with open_serving((), settings=Settings(store=str(folder / "test.db")), private_app=make_app) as service:
        yield service


def described(code: str, *, durable: bool = True, aliases: tuple[str, ...] = ()) -> Described:
    config = Config(handler="app.handler", runtime="python3", timeout=30, terms=Terms(600) if durable else None)
    return Described(name="f", config=config, code=TextCode("app.py", code), aliases=aliases, publish=True)


async def test_old_versions_are_forgotten_unless_something_needs_them(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        for number in range(6):
            await service.deploy(described(f"x = {number}", aliases=("first",) if number == 0 else ()))
            if number == 1:
                registry = service.engine.registry
                registry.shut()  # so that it stays
                await service.engine.start("f", "null", version="2")
        await service.forget_old("f", 2)
        entry = service.catalogue.needed("f")
        assert sorted(entry.versions) == ["1", "2", "5", "6"]
        assert sorted(target.version for target in service.engine.registry.targets()) == ["$LATEST", "1", "2", "5", "6"]
        await service.forget_old("f", 20)
        assert service.catalogue.needed("f") == entry


async def test_a_change_is_finished_also_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        begun, may_end = threading.Event(), threading.Event()
        wanted = described("x = 1")

        def verb() -> Entry:
            begun.set()
            may_end.wait()
            code = service.code_of(wanted.code)
            return service.catalogue.deploy("f", wanted.config, code, tags={})

        caller = asyncio.create_task(service.change("f", verb))
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert service.catalogue.entry("f") is None
        may_end.set()
        found: Function = await eventually(lambda: service.engine.registry.get("f", "$LATEST"))
        assert found.terms == Terms(600)


async def test_an_event_for_a_plain_function_is_a_promise_that_is_kept_on_disk(tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = f"from pathlib import Path\ndef handler(event, context): Path({str(told)!r}).write_text(event)"
    async with served(tmp_path) as service:
        await service.deploy(described(code, durable=False))
        service.engine.registry.shut()  # nothing runs before the service is gone
        invoked = await service.api.invoke(Invoke(function="f", kind="Event", payload=b'"hello"'))
        assert invoked.status == 202
    assert not told.exists()
    async with served(tmp_path) as service:
        await eventually(lambda: service.engine.store.list(Filter(statuses=(ExecutionStatus.SUCCEEDED,))))
    assert told.read_text() == "hello"


async def test_what_a_store_keeps_beside_its_file_is_nobodys_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1")
    async with served(tmp_path) as service:
        code = await asyncio.to_thread(service.code_of, FolderCode(tmp_path))
        kept = service.catalogue.keeper.code_folder(code)
        assert [path.name for path in kept.iterdir()] == ["app.py"]
        await service.deploy(described("x = 2"))
        assert await asyncio.to_thread(service.code_of, FolderCode(tmp_path)) == code
