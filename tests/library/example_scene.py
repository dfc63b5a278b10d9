"""Examples at work: a server of an example in a thread, and the real command, killed at the worst moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import new_schema
from tests.surface.cli_program import PATIENCE_SECONDS, Program


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """A server of an example, in a thread of its own."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


STORES = [pytest.param(None, id="sqlite"), pytest.param(new_schema, id="postgres")]
"""Where an example keeps its runs: a file in its folder, or a database."""


def trusted_program(folder: Path, store: Callable[[], str] | None) -> Program:
    """The real command in the folder of an example, which is trusted."""
    program = Program(folder)
    if store is not None:
        program.environment["HOLDFAST_STORE"] = store()
    program.trust()
    return program


def killed_while(program: Program, command: Sequence[str], server: Any, hook: str) -> None:
    """Run the real command, and kill it when the server is at this hook: it has a call, and has not answered it."""
    reached, killed = threading.Event(), threading.Event()

    def hold() -> None:
        setattr(server, hook, lambda: None)
        reached.set()
        killed.wait(PATIENCE_SECONDS)

    setattr(server, hook, hold)
    process = program.begin(*command)
    assert reached.wait(PATIENCE_SECONDS)
    process.kill()
    process.communicate()
    killed.set()
