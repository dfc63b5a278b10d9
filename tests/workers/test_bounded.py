"""What a body or a caller could make without end: each of these has a limit, and an error code when the limit is passed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.contract.protocol import WorkerRequest
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.codec import at_least
from holdfast.model.operations import Type
from holdfast.service.engines import BlockingEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.accept import checked_inputs
from holdfast.workers.approvals import Decision
from holdfast.workers.artifacts import Artifacts, HandedFile
from holdfast.workers.packages import Packages, WorkerChanged
from holdfast.workers.policy import Most, Policy
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Effect, ToolFailed
from tests.sandbox.scene import family
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write

MANY = """
import asyncio, os
from holdfast import worker

@worker("many.md")
async def many(inputs, ctx):
    do = inputs["do"]
    if do == "grow":
        file = open("growing", "w+b")
        file.write(b"x")
        file.flush()
        fd = os.dup(file.fileno())
        ctx._asking._link.send({"op": "artifact", "id": 7, "name": "grown", "media_type": "text/plain", "fd": True}, fd)
        while True:
            file.write(b"x" * 65536)
            file.flush()
            os.lseek(fd, 0, os.SEEK_SET)  # the runner's end has the same offset
            await asyncio.sleep(0)
    if do == "memory":
        held = bytearray(inputs["megabytes"] << 20)
        return {"held": len(held)}
    if do == "outputs":
        return {"x": "z" * (30 << 20)} if inputs["shape"] == "one text" else {"x": ["y" * 1000] * 1_000_000}
    return {}
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    folder = tmp_path_factory.mktemp("many")
    text = page("many", attempts=1, timeout_seconds=20, max_memory_mb=256)
    with holdfast.open(str(folder / "s.db"), workers=[write(folder / "worker", MANY, many=text)]) as engine:
        yield engine


# --- constraints


def test_requests_with_ever_other_constraints_share_one_stub(engine: BlockingEngine) -> None:
    """Fifty requests, fifty limits: one stub, one spare with its keeper, and at most one attempt that is being ended."""
    for number in range(50):
        constraints = {"max_memory_mb": 100 + number, "max_cpu_seconds": 1 + number / 10}
        response = engine.run("many", {"do": "memory", "megabytes": 1}, constraints=constraints, wait=15)
        assert response.status == "ok", response.error
    assert len(family(os.getpid())) <= 5


def test_a_constraint_holds_for_its_own_request_only(engine: BlockingEngine) -> None:
    ask = {"do": "memory", "megabytes": 150}
    tight = engine.run("many", ask, constraints={"max_memory_mb": 64}, wait=15)
    wide = engine.run("many", ask, wait=15)
    assert tight.error is not None
    assert (tight.error.error_code, wide.status) == ("memory_exceeded", "ok")


def test_no_request_gets_more_memory_than_the_operator_gives_where_the_page_does_not_say(tmp_path: Path) -> None:
    file = write(tmp_path / "worker", MANY, many=page("many", attempts=1, timeout_seconds=20))
    settings = WorkerSettings(policy=Policy(memory_mb=96))
    with holdfast.open(str(tmp_path / "s.db"), workers=[file], worker_settings=settings) as engine:
        response = engine.run("many", {"do": "memory", "megabytes": 200}, constraints={"max_memory_mb": 4096}, wait=15)
    assert response.error is not None
    assert response.error.error_code == "memory_exceeded"


# --- steps, calls, questions, notes, lines


async def stepping(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    for number in range(inputs["steps"]):
        await ctx.step(lambda: 1, name=f"step-{number}")
    return {}


async def test_steps_have_a_cap_and_the_run_ends_with_its_name(tmp_path: Path) -> None:
    policy = Policy(most=Most(steps=3))
    async with worker_service(InlineWorker(contract(), stepping), folder=tmp_path, policy=policy) as service:
        fits = await service.invoke(request(steps=3), LOCAL)
        over = await service.invoke(request(steps=10_000), LOCAL)
        written = [one for one in service.operations(over.run_id, LOCAL.tenant) or () if one.sub_type == "BodyStep"]
    assert fits.status == "ok"
    assert over.error is not None
    assert (over.status, over.error.error_code, over.error.retryable) == ("permanent_error", "step_limit", False)
    assert "policy.most.steps" in over.error.message
    assert len([one for one in written if one.type is Type.STEP]) == 3


async def calling(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    for _ in range(10):
        await ctx.tools.look()
    return {}


async def test_tool_calls_have_a_cap_where_the_contract_has_none(tmp_path: Path) -> None:
    look = Counted("look", Effect.READ)
    policy = Policy(most=Most(tool_calls=4))
    async with worker_service(InlineWorker(contract("look"), calling, look), folder=tmp_path, policy=policy) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert (response.error.error_code, len(look.calls)) == ("budget_exceeded", 4)


async def talking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    for number in range(20):
        ctx.progress({"at": number})
        ctx.log(f"line {number}")
    return {}


async def test_progress_and_lines_of_the_log_have_caps_and_what_is_missing_is_told(tmp_path: Path) -> None:
    policy = Policy(most=Most(progress=5, log_lines=10))
    async with worker_service(InlineWorker(contract(), talking), folder=tmp_path, policy=policy) as service:
        response = await service.invoke(request(), LOCAL)
    said = [line["message"] for line in response.logs]
    assert len(said) == 11
    assert any("policy.most.progress" in message for message in said)
    assert said[-1] == "11 more lines were not kept."


async def asking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"answer": await ctx.ask("Are you sure?")}


async def test_questions_to_people_have_a_cap(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), asking), folder=tmp_path, policy=Policy(most=Most(questions=0))) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert (response.error.error_code, response.approvals) == ("budget_exceeded", ())


# --- outputs


@pytest.mark.parametrize("shape", ["one text", "one text many times"])
def test_outputs_that_do_not_fit_into_memory_when_they_are_encoded_are_too_large_and_no_crash(engine: BlockingEngine, shape: str) -> None:
    response = engine.run("many", {"do": "outputs", "shape": shape}, constraints={"max_memory_mb": 64}, wait=15)
    assert response.error is not None
    assert response.error.error_code == "artifact_too_large"


def test_a_value_is_measured_without_being_encoded() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert at_least(circle, 1000) > 1000
    assert at_least({"a": ["bc", 1, None, {"d": "e" * 50}]}, 1000) <= len('{"a":["bc",1,null,{"d":"' + "e" * 50 + '"}]}')
    assert at_least(["x" * 100] * 10**6, 1000) > 1000


# --- artifacts


def handed(path: Path) -> HandedFile:
    return HandedFile(os.open(path, os.O_RDONLY), path.name)


@pytest.mark.parametrize("size", [0, 2, 100_000, 10])
def test_a_file_that_changes_its_size_while_it_is_read_is_no_artifact(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 70_000)
    file, read = handed(path), list[bytes]()

    def reading(most: int) -> bytes:
        read.append(file.read(most))
        os.truncate(path, size)
        return read[-1]

    kept = Artifacts(Folder(tmp_path / "kept"), 1 << 20)
    with pytest.raises(ToolFailed) as refused:
        kept.keep("t", "file", "text/plain", reading)
    assert refused.value.code == "artifact_changed"
    assert sum(map(len, read)) <= 70_000
    assert [entry for entry in (tmp_path / "kept").rglob("*") if entry.is_file()] == []


def test_a_file_is_read_by_position_whatever_its_offset_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    descriptor = os.open(path, os.O_RDONLY)
    file = HandedFile(descriptor, "file")
    found = b""
    while piece := file.read(4):
        found += piece
        os.lseek(descriptor, 0, os.SEEK_SET)
    os.close(descriptor)
    assert found == b"0123456789"


def test_a_body_that_keeps_writing_to_its_artifact_does_not_hold_its_reader(engine: BlockingEngine) -> None:
    response = engine.run("many", {"do": "grow"}, constraints={"timeout_seconds": 3}, wait=15)
    assert response.error is not None
    assert response.error.error_code in ("timeout", "disk_exceeded")
    assert all(kept.size_bytes <= 64 << 20 for kept in response.artifacts)


async def test_opening_artifacts_again_and_again_has_a_bound(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for _ in range(5):
            with await ctx.open({"artifact_id": inputs["id"]}):
                pass
        return {}

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, policy=Policy(most=Most(artifacts=3))) as service:
        kept = service.artifacts.keep(LOCAL.tenant, "a", "text/plain", handed(_file(tmp_path / "a", b"a")).read)
        response = await service.invoke(request(id=kept.artifact_id), LOCAL)
    assert response.error is not None
    assert response.error.error_code == "artifact_too_large"


def _file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# --- code that is loaded again

ONE = 'from holdfast import worker\n@worker("one.md")\ndef one(inputs, ctx):\n    return {}\n'


@pytest.mark.parametrize("change", ["content", "another file", "a file less", "bytecode"])
def test_a_snapshot_that_was_changed_is_not_loaded(tmp_path: Path, change: str) -> None:
    file = write(tmp_path / "files", ONE, one=page("one"))
    (file.parent / "beside.py").write_text("VALUE = 1")
    packages = Packages(tmp_path / "kept")
    (package,) = packages.add(file)
    for path in (package.folder, *package.folder.rglob("*")):
        path.chmod(0o755)
    if change == "content":
        (package.folder / "beside.py").write_text("VALUE = 2")
    elif change == "another file":
        (package.folder / "json.py").write_text("")
    elif change == "a file less":
        (package.folder / "beside.py").unlink()
    else:
        (package.folder / "__pycache__").mkdir()
        (package.folder / "__pycache__" / "beside.cpython-311.pyc").write_bytes(b"not what was compiled")
        assert packages.load(package.name, "one") == msgspec.structs.replace(package, source=None)
        assert not (package.folder / "__pycache__").exists()
        return
    with pytest.raises(WorkerChanged, match="was changed after the run began"):
        packages.load(package.name, "one")


async def test_a_run_whose_code_was_changed_meanwhile_is_refused_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    waits = 'from holdfast import worker\n@worker("one.md")\nasync def one(inputs, ctx):\n    return {"said": await ctx.ask("Well?")}\n'
    file = write(tmp_path / "files", waits, one=page("one"))
    async with holdfast.open(str(tmp_path / "s.db"), workers=[file]) as engine:
        waiting_run = await engine.run("one", {}, wait=15)
        (approval,) = engine.worker_service.approvals(LOCAL)
    (kept,) = (tmp_path / "s.db.workers" / "packages").iterdir()
    (kept / "worker.py").chmod(0o644)
    (kept / "worker.py").write_text(waits.replace('"Well?"', '"Changed?"'))
    file.write_text(waits + "# a new version\n")
    async with holdfast.open(str(tmp_path / "s.db"), workers=[file]) as engine:
        await engine.worker_service.decide(
            approval.approval_id, Decision(verdict="answer", decided_by="ann", decided_at=0, result="yes"), LOCAL
        )
        response = await engine.worker_service.response(waiting_run.run_id, LOCAL, wait=15)
    assert response.error is not None
    assert response.error.error_code == "package_changed"
    assert "package_changed" in caplog.text


async def test_the_artifacts_that_a_request_names_are_together_no_larger_than_one_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was brought into memory as often as it was named: one of 25 MB, named forty times, took a gigabyte."""
    artifacts = Artifacts(Folder(tmp_path), 1000)
    kept = artifacts.keep("default", "a", "application/json", io.BytesIO(b'"' + b"a" * 498 + b'"').read)
    opened: list[str] = []
    really = artifacts.open

    def noted(tenant: str, identity: str) -> int:
        opened.append(identity)
        return really(tenant, identity)

    monkeypatch.setattr(artifacts, "open", noted)

    def naming(times: int) -> WorkerRequest:
        return request(**{f"x{number}": {"$artifact": {"artifact_id": kept.artifact_id}} for number in range(times)})

    await checked_inputs(naming(2), contract(), "default", artifacts)
    assert len(opened) == 2
    with pytest.raises(InvalidRequest, match="1000 bytes together") as refused:
        await checked_inputs(naming(3), contract(), "default", artifacts)
    assert (refused.value.error_code, len(opened)) == ("artifact_too_large", 2)
