"""How fast a warm process answers."""

from __future__ import annotations

import statistics

import pytest

from holdfast.model.clock import monotonic
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import hosting, plain


@pytest.mark.alone
async def test_a_warm_plain_function_answers_within_5_ms() -> None:
    async with hosting(plain("echo")) as (host, _):
        await host.call("echo", LATEST, b"{}")
        took = []
        for _ in range(300):
            began = monotonic()
            await host.call("echo", LATEST, b'{"a":1}')
            took.append(monotonic() - began)
        assert statistics.median(took) <= 0.005
