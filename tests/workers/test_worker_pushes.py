"""Pushes of runs, in Python: which worker a push means, and which runs its lines made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.service.pushes import PushedLine, PushOptions
from holdfast.service.worker_pushes import WorkerPush
from holdfast.service.worker_runtime import WorkerSettings
from tests.workers.pages import page, write

LINE = b'{"id": "a"}'
WORKERS = """
from holdfast import WorkerContext, worker


@worker("one.md")
async def one(inputs: dict, ctx: WorkerContext) -> dict:
    return {}
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
