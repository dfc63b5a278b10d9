"""Pushes of runs, in Python: which worker a push means, and which runs its lines made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.contract.refusals import InvalidRequest
from holdfast.queues.pushes import PushedLine, PushOptions
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.worker_pushes import WorkerPush
from holdfast.workers.packages import WorkerInvalid
from tests.workers.pages import page, write

LINE = b'{"id": "a"}'
WORKERS = """
from holdfast import WorkerContext, worker


@worker("one.md")
async def one(inputs: dict, ctx: WorkerContext) -> dict:
    return {}
"""
PIPELINES = """
from holdfast import Pipeline

ANY = {"type": "object"}
first = Pipeline("first", "1.0", inputs=ANY, outputs=ANY)
first.gives(first.step("s", dict, {"a": 1}).outputs)
second = Pipeline("second", "1.0", inputs=ANY, outputs=ANY)
second.gives(second.step("s", dict, {"a": 1}).outputs)
"""


def pushed(file: Path, lines: Sequence[bytes] | Iterator[bytes]) -> list[PushedLine]:
    """The results of a push of these lines, with their member `id` as key."""
    push = WorkerPush(
        store=str(file.parent / "runs.db"),
        file=file,
        worker=None,
        settings=WorkerSettings(),
        codec=None,
        options=PushOptions(queue="runs", key_field="id"),
    )
    return [one for batch in push.push(enumerate(lines, 1)) for one in batch]


def test_a_run_that_another_caller_makes_with_the_same_key_during_the_push_was_there_already(tmp_path: Path) -> None:
    file = write(tmp_path, WORKERS, one=page("one"))

    def lines() -> Iterator[bytes]:
        (other,) = pushed(file, [LINE])
        assert other.created
        yield LINE
        yield b'{"id": "b"}'
        yield b'{"id": "b"}'

    assert [one.created for one in pushed(file, lines())] == [False, True, False]


def test_a_push_to_a_file_with_several_workers_asks_for_one(tmp_path: Path) -> None:
    file = write(tmp_path, WORKERS + WORKERS.replace("one", "two"), one=page("one"), two=page("two"))
    with pytest.raises(InvalidRequest, match=r"The file has several workers: one, two. Name one, as FILE:ID."):
        pushed(file, [LINE])


def test_a_push_to_a_file_with_several_pipelines_asks_for_one(tmp_path: Path) -> None:
    file = write(tmp_path, PIPELINES)
    with pytest.raises(InvalidRequest, match=r"The file has several pipelines: first, second. Name one, as FILE:ID."):
        pushed(file, [LINE])


def test_a_push_to_a_file_without_a_worker_says_so(tmp_path: Path) -> None:
    file = tmp_path / "none.py"
    file.write_text("")
    with pytest.raises(WorkerInvalid, match="declares no worker"):
        pushed(file, [LINE])
