"""How an execution stands: one word for each combination of status, state and outcome, and one look for each word."""

import itertools
import re

import msgspec
import pytest

from holdfast.model.execution import ExecutionStatus, State
from holdfast.model.shown_status import STATUS_STYLES, ShownStatus, shown_status
from holdfast.model.summary import Summary, begun, ended, error_word
from holdfast.testing.stores.writes import wanted

HEADER = wanted("a").header
RUNNING = ExecutionStatus.RUNNING
PAGES = {"light": ("#ffffff", "#f6f7f9"), "dark": ("#0f1216", "#171b21")}
"""The surfaces on which a colour must be readable."""


def stands(*, undecided: bool = False, **set_to: object) -> ShownStatus:
    return shown_status(msgspec.structs.replace(HEADER, **set_to), undecided=undecided)


@pytest.mark.parametrize(
    "state, failures, undecided, shown",
    [
        (State.QUARANTINED, 0, False, ShownStatus.QUARANTINED),
        (State.QUARANTINED, 3, True, ShownStatus.QUARANTINED),
        (State.RUNNING, 0, False, ShownStatus.RUNNING),
        (State.RUNNING, 1, False, ShownStatus.RETRYING),
        (State.READY, 0, False, ShownStatus.WAITING),
        (State.READY, 2, False, ShownStatus.RETRYING),
        (State.SUSPENDED, 0, False, ShownStatus.WAITING),
        (State.SUSPENDED, 0, True, ShownStatus.PERSON),
        (State.QUEUED, 0, False, ShownStatus.WAITING),
        (State.DELAYED, 0, False, ShownStatus.WAITING),
        (State.IMPORTED, 0, False, ShownStatus.WAITING),
    ],
)
def test_an_open_execution_stands_as_its_state_says(state: State, failures: int, undecided: bool, shown: ShownStatus) -> None:
    assert stands(status=RUNNING, state=state, failures=failures, undecided=undecided) is shown


@pytest.mark.parametrize(
    "status, summary, shown",
    [
        (ExecutionStatus.SUCCEEDED, None, ShownStatus.OK),
        (ExecutionStatus.SUCCEEDED, begun("flow"), ShownStatus.OK),
        (ExecutionStatus.SUCCEEDED, Summary(outcome="ok"), ShownStatus.OK),
        (ExecutionStatus.SUCCEEDED, Summary(outcome="partial"), ShownStatus.PARTIAL),
        (ExecutionStatus.SUCCEEDED, Summary(outcome="needs_human"), ShownStatus.FAILED),
        (ExecutionStatus.STOPPED, Summary(error_code="stopped"), ShownStatus.STOPPED),
        (ExecutionStatus.FAILED, None, ShownStatus.FAILED),
        (ExecutionStatus.TIMED_OUT, None, ShownStatus.FAILED),
    ],
)
def test_a_closed_execution_stands_as_its_end_says(status: ExecutionStatus, summary: Summary | None, shown: ShownStatus) -> None:
    for state, undecided in itertools.product((State.CLOSED, State.CLOSING, State.IMPORTED), (True, False)):
        assert stands(status=status, state=state, summary=summary, undecided=undecided) is shown


def test_every_combination_has_a_shown_status() -> None:
    for status, state, failures in itertools.product(ExecutionStatus, State, (0, 1)):
        assert stands(status=status, state=state, failures=failures) in STATUS_STYLES


def test_every_shown_status_has_a_shape_a_glyph_and_two_colours_of_its_own() -> None:
    assert list(STATUS_STYLES) == list(ShownStatus)
    for member in ("shape", "glyph", "light", "dark"):
        assert len({getattr(look, member) for look in STATUS_STYLES.values()}) == len(ShownStatus)
    assert {len(look.glyph) for look in STATUS_STYLES.values()} == {1}


@pytest.mark.parametrize("side", PAGES)
def test_every_colour_can_be_read_on_its_pages(side: str) -> None:
    for look in STATUS_STYLES.values():
        assert min(contrast(getattr(look, side), page) for page in PAGES[side]) >= 5.5, look


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part, 16) / 255 for part in re.findall("[0-9a-f]{2}", colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_summary_keeps_the_pipeline_of_its_start() -> None:
    assert ended(None, Summary(error_code="x")) == Summary(error_code="x")
    assert ended(begun("flow"), Summary(outcome="ok")) == Summary(outcome="ok", pipeline="flow")
    assert begun(None) is None


def test_an_error_word_is_printable_and_short() -> None:
    assert (error_word(None), error_word(""), error_word("NoSuchOrder")) == (None, None, "NoSuchOrder")
    assert error_word("a\0b\n\ud800") == "a\ufffdb\ufffd\ufffd"
    assert len(error_word("é" * 5000) or "") == 128
