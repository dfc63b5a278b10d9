"""Functions that are deployed while a service runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.engine.registry import Function
from holdfast.lambda_api.functions.function_records import Config, DeployedFunction
from holdfast.lambda_api.operations.invoke import Invoke
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.runtime.runtime_description import PoolLimits
from holdfast.lambda_api.serving import Serving, open_serving
from holdfast.lambda_api.templates.descriptions import DescribedFunction, FolderCode, TextCode, ZipCode
from holdfast.model.clock import Clock, SystemClock, VirtualClock
from holdfast.model.execution import Execution, ExecutionStatus, Terms
from holdfast.model.history import EventType
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from tests.flow.harness import eventually


@contextlib.asynccontextmanager
async def served(folder: Path, clock: Clock | None = None, limits: PoolLimits | None = None) -> AsyncIterator[Serving]:
    settings = Settings(store=str(folder / "test.db"), clock=clock or SystemClock())
    async with open_serving((), settings=settings, private_app=make_app, limits=limits) as service:
        yield service


def described(code: str, *, durable: bool = True, aliases: tuple[str, ...] = ()) -> DescribedFunction:
    config = Config(handler="app.handler", runtime="python3", timeout=30, terms=Terms(600) if durable else None)
    return DescribedFunction(name="f", config=config, code=TextCode("app.py", code), aliases=aliases, publish=True)


async def test_old_versions_are_forgotten_unless_something_needs_them(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        for number in range(6):
            await service.deploy(described(f"x = {number}", aliases=("first",) if number == 0 else ()))
            if number == 1:
                registry = service.engine.registry
                registry.shut()  # so that it stays
                await service.engine.start("f", "null", version="2")
        await service.forget_old("f", 2)
        entry = service.deployed.needed("f")
        assert sorted(entry.versions) == ["1", "2", "5", "6"]
        assert sorted(target.version for target in service.engine.registry.targets()) == ["$LATEST", "1", "2", "5", "6"]
        await service.forget_old("f", 20)
        assert service.deployed.needed("f") == entry
        await service.forget_old("f", 0)
        assert sorted(service.deployed.needed("f").versions) == ["1", "2"]


async def test_code_of_forgotten_versions_goes_when_nothing_runs_it_any_more(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = (
        "import os\ndef handler(event, context):\n    while event and not os.path.exists(event): pass\n    import late\n    return late.x\n"
    )

    def codes() -> int:
        return sum(path.is_dir() for path in (tmp_path / "test.db.functions" / "code").iterdir())

    async with served(tmp_path) as service:
        folder = tmp_path / "code"
        folder.mkdir()
        (folder / "late.py").write_text("x = 1")
        (folder / "app.py").write_text(waits)
        wanted = msgspec.structs.replace(described("", durable=False), code=FolderCode(folder))
        await service.deploy(wanted)
        old = asyncio.create_task(service.api.invoke(Invoke(function="f", qualifier="1", payload=json.dumps(str(gate)).encode())))
        await eventually(lambda: not service._processes.idle())
        for number in range(2, 5):
            (folder / "late.py").write_text(f"x = {number}")
            await service.deploy(wanted)
        await service.forget_old("f", 1)
        assert sorted(service.deployed.needed("f").versions) == ["4"]
        assert codes() == 2, "the newest, and the one that runs"
        gate.touch()
        assert (await old).payload == b"1", "what it had not read yet was still there"
        await service.deploy(described("x = 5", durable=False))
        await eventually(lambda: len(service._processes.folders()) == 2)  # the old process is gone
        await service.forget_old("f", 1)
        assert codes() == 1


async def test_a_change_is_finished_also_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        begun, may_end = threading.Event(), threading.Event()
        wanted = described("x = 1")

        def verb() -> DeployedFunction:
            begun.set()
            may_end.wait()
            code = service.code_of(wanted.code)
            return service.deployed.deploy("f", wanted.config, code, tags={})

        caller = asyncio.create_task(service.change("f", verb))
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert service.deployed.entry("f") is None
        may_end.set()
        found: Function = await eventually(lambda: service.engine.registry.get("f", "$LATEST"))
        assert found.terms == Terms(600)


async def test_a_change_under_way_when_the_service_closes_is_finished_first(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()
    async with served(tmp_path) as service:
        wanted = described("x = 1")

        def verb() -> DeployedFunction:
            begun.set()
            may_end.wait()
            return service.deployed.deploy("f", wanted.config, service.code_of(wanted.code), tags={})

        caller = asyncio.create_task(service.change("f", verb))
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        asyncio.get_running_loop().call_later(0.05, may_end.set)
    async with served(tmp_path) as again:
        assert again.deployed.entry("f") is not None


CALLS = """
import json, os, urllib.request
from aws_durable_execution_sdk_python import durable_execution

def invoked(name, event):
    address = f"{os.environ['AWS_ENDPOINT_URL_LAMBDA']}/2015-03-31/functions/{name}/invocations"
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(event).encode())) as answer:
        return json.load(answer)

def handler(event, context):
    return ["plain", *(invoked(event[0], event[1:]) if event else [])]

@durable_execution
def durable(event, context):
    return context.step(lambda _: ["durable", *(invoked(event[0], event[1:]) if event else [])], name="call")
"""


async def test_functions_that_wait_for_each_other_do_so_with_one_place_for_all(tmp_path: Path) -> None:
    async with served(tmp_path, limits=PoolLimits(processes=1, per_function=1)) as service:
        plain, durable = described(CALLS, durable=False), described(CALLS)
        await service.deploy(msgspec.structs.replace(plain, name="plain"))
        config = msgspec.structs.replace(durable.config, handler="app.durable")
        await service.deploy(msgspec.structs.replace(durable, name="durable", config=config))
        then = b'["durable:1", "plain", "plain"]'
        answered = await service.api.invoke(Invoke(function="plain", payload=then))
        assert json.loads(answered.payload) == ["plain", "durable", "plain", "plain"]


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


FAILS = """
from pathlib import Path
def handler(event, context):
    with Path(event).open("a") as told:
        told.write("called ")
    raise ValueError("no luck")
"""


def tried_at(service: Serving) -> tuple[Execution, list[int]]:
    """The only execution, and when its invocations ended, in seconds since it began."""
    (header,) = service.engine.store.list(Filter())
    ends = [x.event.at for x in service.engine.store.history(header.id) if x.event.type is EventType.INVOCATION_COMPLETED]
    return header, [round((at - header.started_at) / 1000) for at in ends]


async def test_an_event_for_a_plain_function_that_fails_is_tried_twice_again(tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with served(tmp_path, VirtualClock()) as service:
        await service.deploy(described(FAILS, durable=False))
        await service.api.invoke(Invoke(function="f", kind="Event", payload=json.dumps(str(told)).encode()))
        await eventually(lambda: service.engine.store.list(Filter(statuses=(ExecutionStatus.FAILED,))))
        header, tried = tried_at(service)
        assert tried == [0, 60, 180]
        assert "no luck" in str(service.engine.store.result(header))
    assert told.read_text().split() == ["called"] * 3


async def test_the_tries_of_an_event_survive_a_restart(tmp_path: Path) -> None:
    told, clock = tmp_path / "told", VirtualClock(skipping=False)
    async with served(tmp_path, clock) as service:
        await service.deploy(described(FAILS, durable=False))
        await service.api.invoke(Invoke(function="f", kind="Event", payload=json.dumps(str(told)).encode()))
        await eventually(lambda: tried_at(service)[1] and service.engine.idle)
    for seconds in (60, 120):
        clock.move_to(clock.now() + seconds * 1000 - 1)
        async with served(tmp_path, clock) as service:
            before = tried_at(service)[1]
            clock.move_to(clock.now() + 1)
            await eventually(lambda before=before, service=service: tried_at(service)[1] != before)  # type: ignore[misc]
    async with served(tmp_path, clock) as service:
        header, tried = tried_at(service)
        assert (header.status, tried) == (ExecutionStatus.FAILED, [0, 60, 180])
    assert told.read_text().split() == ["called"] * 3


async def test_a_plain_function_that_a_durable_one_invokes_is_called_once(tmp_path: Path) -> None:
    parent = """
from holdfast.durable import durable_execution
@durable_execution
def handler(event, context):
    try:
        return context.invoke("f", event)
    except Exception as error:
        return str(error)
"""
    told = tmp_path / "told"
    async with served(tmp_path) as service:
        await service.deploy(described(FAILS, durable=False))
        await service.deploy(msgspec.structs.replace(described(parent), name="parent"))
        asked = Invoke(function="parent", qualifier="1", payload=json.dumps(str(told)).encode(), tenant="blue", trace="Root=1-2-3")
        assert b"no luck" in (await service.api.invoke(asked)).payload
        child = service.engine.store.list(Filter(function="f"))[0]
        assert (child.tenant, child.trace) == ("blue", "Root=1-2-3")
    assert told.read_text().split() == ["called"]


async def test_what_a_store_keeps_beside_its_file_is_nobodys_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1")
    async with served(tmp_path) as service:
        code = await asyncio.to_thread(service.code_of, FolderCode(tmp_path))
        kept = service.deployed.keeper.code_folder(code)
        assert [path.name for path in kept.iterdir()] == ["app.py"]
        await service.deploy(described("x = 2"))
        assert await asyncio.to_thread(service.code_of, FolderCode(tmp_path)) == code


@pytest.mark.parametrize("functions", [1, 12])
async def test_a_folder_that_functions_share_is_read_as_often_as_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: int
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "app.py").write_text("def handler(event, context): return event")
    (folder / "large.bin").write_bytes(b"x" * 100)
    opened: Counter[str] = Counter()
    own = Path.open

    def counted(path: Path, *how: Any, **more: Any) -> Any:
        opened["source" if path.parent == folder else "kept"] += path.name == "large.bin"
        return own(path, *how, **more)

    monkeypatch.setattr(Path, "open", counted)
    wanted = [msgspec.structs.replace(described(""), name=f"f{number}", code=FolderCode(folder)) for number in range(functions)]
    for start, reads in enumerate([{"source": 2, "kept": 1}, {"source": 1, "kept": 1}]):
        async with served(tmp_path) as service:
            for one in wanted:
                await service.deploy(one, service.first_look)
            assert opened == reads, f"start {start + 1}: hashed once, copied once, and the copy hashed once"
        opened.clear()


async def test_a_zip_file_that_functions_share_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "code.zip"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("app.py", "def handler(event, context): return event")
    reads: list[Path] = []
    own = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return own(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    async with served(tmp_path) as service:
        for name in ("a", "b", "c"):
            await service.deploy(msgspec.structs.replace(described(""), name=name, code=ZipCode(file)), service.first_look)
    assert reads.count(file) == 1


async def test_a_later_deployment_reads_a_folder_as_it_is_then(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    wanted = msgspec.structs.replace(described("", durable=False), code=FolderCode(folder))
    async with served(tmp_path) as service:
        for number in (1, 2):
            (folder / "app.py").write_text(f"def handler(event, context): return {number}")
            await service.deploy(wanted)
            assert (await service.api.invoke(Invoke(function="f"))).payload == b"%d" % number
