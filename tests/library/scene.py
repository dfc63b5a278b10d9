"""Ready workers at work: a real engine in memory, real jails, real local servers."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.contract.checking import checker_of
from holdfast.contract.page_reader import read
from holdfast.contract.protocol import response_document
from holdfast.contract.terms import RateLimit
from holdfast.library import WORKERS, find
from holdfast.service.engines import OpenEngine
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy
from holdfast.workers.tools.cassettes import CassetteMode, CassetteSettings
from holdfast.workers.tools.fetch_url import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings
from tests.surface.cli_program import Program

OFTEN = {worker: RateLimit(1000, 60) for worker in WORKERS}


def file_of(worker: str) -> Path:
    """A ready worker's file."""
    file = find(worker)
    assert file is not None
    return file


def case_of(worker: str) -> dict[str, Any]:
    """Its example input."""
    case: dict[str, Any] = json.loads(file_of(worker).with_name("case.json").read_text())
    return case


def refuses(worker: str, inputs: dict[str, Any]) -> bool:
    """Whether its page refuses these inputs."""
    contract = read(file_of(worker).with_name("worker.md").read_text()).contract
    assert contract is not None
    return checker_of(contract.input_schema).problems(inputs) != ()


def copied(worker: str, folder: Path) -> Path:
    """Its file in a copy of its folder, as a user makes one to change it."""
    target = folder / file_of(worker).parent.name
    shutil.copytree(file_of(worker).parent, target, ignore=shutil.ignore_patterns("__*"))
    return target / file_of(worker).name


def local(**settings: Any) -> FetchSettings:
    """Fetching that may reach this machine."""
    return FetchSettings(allow_private=("127.0.0.1",), **settings)


def model_at(url: str, **settings: Any) -> ModelSettings:
    """A model on this machine."""
    return ModelSettings(base_url=url, model="m", api_key="key-of-the-model", **settings)


@asynccontextmanager
async def working(worker: str | Path, *, policy: dict[str, Any] | None = None, **worker_settings: Any) -> AsyncIterator[OpenEngine]:
    """An engine that serves a worker, by its id or by its file, each body in its jail."""
    settings = WorkerSettings(policy=Policy(rate_limits=OFTEN, **(policy or {})), **worker_settings)
    async with holdfast.open(":memory:", workers=[worker], worker_settings=settings) as engine:
        yield engine


async def ran(engine: OpenEngine, worker: str, inputs: dict[str, Any], **request: Any) -> dict[str, Any]:
    """The response as JSON says it; the body was locked in."""
    told = response_document(await engine.run(worker, inputs, **request))
    assert told["observability"]["isolation"] in ("all", None)
    return told


def recorded(worker: str) -> CassetteSettings:
    """The answers to its example, as its folder has them, so that it needs no key."""
    return CassetteSettings(mode=CassetteMode.REPLAY, path=str(file_of(worker).with_name("cassette.jsonl")))


async def as_written(worker: str) -> dict[str, Any]:
    """Its response to its example, without a key."""
    async with working(worker, cassette=recorded(worker)) as engine:
        return await ran(engine, worker, case_of(worker))


def from_the_command_line(worker: str, folder: Path) -> dict[str, Any]:
    """Its outputs for its example, when a copy of its folder runs from the command line."""
    ended = Program(copied(worker, folder).parent)("run", "worker.py", "--input", "@case.json", "--trust")
    assert ended.returncode == 0, ended.stderr
    outputs: dict[str, Any] = json.loads(ended.stdout)
    return outputs
