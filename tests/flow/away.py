"""What the tests of our SDK away from our engine share: the cases in both colours, and the comparison with how they end at home."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.cases import CASES, OURS, Case, Sdk
from tests.flow.official.running import Ending
from tests.flow.test_official_sdk import assert_same_history, by_ours, run
from tests.parts import one_of_each

Coloured = list[tuple[Case, str]]

COLOURED: Coloured = [(case, colour) for case in CASES.values() for colour in ("def", "async") if colour == "def" or case.twin is not None]

_endings: dict[str, Ending] = {}


def coloured(cases: Coloured) -> pytest.MarkDecorator:
    """A test for each case and colour; the first of each section and colour is quick."""
    named = one_of_each(cases, kind=lambda one: (one[0].section, one[1]), name=lambda one: f"{one[0].name}-{one[1]}", several=True)
    return pytest.mark.parametrize("case, colour", named)


def handler(case: Case, sdk: Sdk, colour: str) -> Any:
    """A case's handler in one colour."""
    make = case.make if colour == "def" else case.twin
    assert make is not None
    return make(sdk)


async def at_home(case: Case) -> Ending:
    """How a case ends on our engine, with the engine's own host; run once for each case."""
    if case.name not in _endings:
        sdk = Sdk(OURS)
        _endings[case.name] = await run(case, sdk, by_ours(case, sdk))
    return _endings[case.name]


def assert_same(case: Case, ending: Ending, expected: Ending) -> None:
    """The same end and the same history, as far as that is decided."""
    assert (ending.status, ending.payload) == (expected.status, expected.payload)
    assert_same_history(case, ending, expected)
