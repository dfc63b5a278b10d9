"""Every page that shows something answers on both stores."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.store.backends import open_store
from holdfast.web.policy import Waits
from tests.console.scene import Scene, plain
from tests.console.test_safety import routes, sent
from tests.postgres import new_schema

NOT_THERE = {"ConsolePage", "ConsoleFile"}


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_every_page_answers_for_a_run_that_is_there(backend: str, tmp_path: Path) -> None:
    """What is not about this run (an approval, a queue of its name) is told as not being there; nothing fails."""
    where = new_schema() if backend == "postgres" else str(tmp_path / "console.db")
    clock = SystemClock()
    with contextlib.closing(open_store(where, id_at(clock.now()))) as store:
        scene = Scene(store, where, store.clock(clock))
        run = scene.start("order", {"n": 1}, name="first")
        told: dict[str, int] = {}
        async with scene.browser() as browser:
            for route in routes(scene):
                if route.method != "GET" or route.policy.waits is Waits.STREAM or route.policy.operation in NOT_THERE:
                    continue
                answer = await browser.client.get(
                    sent(route, run.id), params={"left": run.id, "right": run.id} if "compare" in route.path else {}
                )
                assert answer.status_code < 500, (route.path, plain(answer.text)[:500])
                told[route.path] = answer.status_code
        assert sum(status == 200 for status in told.values()) > len(told) / 2, told
        assert "first" in await _list(scene)


async def _list(scene: Scene) -> str:
    async with scene.browser() as browser:
        return await browser.text("runs")
