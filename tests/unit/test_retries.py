"""Retry and wait strategies answer as the official ones do; chance is an argument, so every answer can be known."""

import re
from random import Random
from typing import Any

import aws_durable_execution_sdk_python.config as official_config
import aws_durable_execution_sdk_python.exceptions as official_exceptions
import aws_durable_execution_sdk_python.retries as official
import aws_durable_execution_sdk_python.waits as official_waits
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable import retries
from holdfast.durable.config import Duration, JitterStrategy
from holdfast.durable.delays import CHANCE
from holdfast.durable.exceptions import WaitForConditionError
from holdfast.durable.retries import (
    LinearRetryStrategyConfig,
    RetryDecision,
    RetryPresets,
    RetryStrategyConfig,
    create_linear_retry_strategy,
    create_retry_strategy,
)
from holdfast.durable.waits import WaitForConditionDecision, WaitStrategyConfig, create_wait_strategy

NO_RETRY = RetryDecision.no_retry()


class Chance(Random):
    """Always the same draw."""

    def __init__(self, draw: float) -> None:
        super().__init__()
        self.draw = draw

    def random(self) -> float:
        return self.draw


def delays(strategy: Any, attempts: int = 12) -> list[int | None]:
    """The seconds after each attempt; None where it gives up."""
    decisions = [strategy(ValueError("x"), attempt) for attempt in range(1, attempts + 1)]
    return [d.delay_seconds if d.should_retry else None for d in decisions]


# --- jitter ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [0.0, 0.25, 0.999])
@pytest.mark.parametrize("jitter", list(JitterStrategy))
@pytest.mark.parametrize("delay", [0, 0.3, 1, 10, 60.5])
def test_jitter_is_the_official_one_for_the_same_draw(
    jitter: JitterStrategy, delay: float, draw: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: draw)
    theirs = official_config.JitterStrategy(jitter.value)
    assert jitter.apply_jitter(delay, random=Chance(draw)) == theirs.apply_jitter(delay)
    assert jitter.finalize_delay(delay, random=Chance(draw)) == theirs.finalize_delay(delay)


@given(st.sampled_from(list(JitterStrategy)), st.floats(0, 1e6), st.integers())
def test_a_delay_with_jitter_is_whole_seconds_between_one_and_the_delay(jitter: JitterStrategy, delay: float, seed: int) -> None:
    seconds = jitter.finalize_delay(delay, random=Random(seed))
    least = {JitterStrategy.NONE: delay, JitterStrategy.HALF: delay / 2, JitterStrategy.FULL: 0}[jitter]
    assert isinstance(seconds, int)
    assert max(1, least) <= seconds < max(1, delay) + 1


def test_without_an_argument_the_draws_differ() -> None:
    strategy = create_retry_strategy(RetryStrategyConfig(initial_delay=Duration(10**9), max_delay=Duration(10**9)))
    assert len({strategy(ValueError(), 1).delay_seconds for _ in range(8)}) > 1


# --- growth and its end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "default", "transient", "resource_availability", "critical", "linear", "fixed"])
@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_the_presets_are_the_official_ones(name: str, draw: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: draw)
    monkeypatch.setattr(CHANCE, "random", lambda: draw)
    assert delays(getattr(RetryPresets, name)()) == delays(getattr(official.RetryPresets, name)())


def test_a_fixed_interval_is_kept() -> None:
    assert delays(RetryPresets.fixed(Duration(7)), 5) == [7, 7, 7, 7, None]
    assert delays(RetryPresets.fixed(Duration(0)), 2) == [1, 1]


def test_exponential_delays_grow_to_their_top() -> None:
    config = RetryStrategyConfig(
        max_attempts=6, initial_delay=Duration(3), max_delay=Duration(20), backoff_rate=2, jitter_strategy=JitterStrategy.NONE
    )
    assert delays(create_retry_strategy(config), 6) == [3, 6, 12, 20, 20, None]


def test_linear_delays_grow_to_their_top() -> None:
    config = LinearRetryStrategyConfig(
        max_attempts=5, initial_delay=Duration(1), increment=Duration(4), max_delay=Duration(10), jitter_strategy=JitterStrategy.NONE
    )
    assert delays(create_linear_retry_strategy(config), 5) == [1, 5, 9, 10, None]


def test_the_draw_reaches_the_delay() -> None:
    assert create_retry_strategy(random=Chance(0.5))(ValueError(), 2) == RetryDecision.retry(Duration(5))
    assert create_linear_retry_strategy(random=Chance(0.5))(ValueError(), 5) == RetryDecision.retry(Duration(3))


@pytest.mark.parametrize("initial, seconds", [(5, 300), (0, 1)])
def test_very_many_attempts_stay_at_the_top(initial: int, seconds: int) -> None:
    """The official strategy ends in an OverflowError near attempt 1024, in place of a retry."""
    config = RetryStrategyConfig(max_attempts=10**6, initial_delay=Duration(initial), jitter_strategy=JitterStrategy.NONE)
    assert create_retry_strategy(config)(ValueError(), 5000) == RetryDecision.retry(Duration(seconds))


# --- which errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patterns, types, retried",
    [
        (None, None, True),
        ([], None, False),
        (None, [], False),
        (["time"], None, True),
        (["Time"], None, False),
        ([re.compile("^time.*t$")], None, True),
        ([re.compile("^out")], None, False),
        (None, [LookupError], True),
        (None, [OSError], False),
        (["no"], [KeyError], True),
        (["no"], [OSError], False),
    ],
)
def test_an_error_is_retried_by_its_text_or_its_type(patterns: Any, types: Any, retried: bool) -> None:
    class Late(KeyError):
        def __str__(self) -> str:
            return "timed out"

    for module, config, create in [
        (retries, "RetryStrategyConfig", "create_retry_strategy"),
        (retries, "LinearRetryStrategyConfig", "create_linear_retry_strategy"),
        (official, "RetryStrategyConfig", "create_retry_strategy"),
    ]:
        strategy = getattr(module, create)(getattr(module, config)(retryable_errors=patterns, retryable_error_types=types))
        assert strategy(Late(), 1).should_retry is retried


def test_no_retry_means_no_delay() -> None:
    assert (NO_RETRY.should_retry, NO_RETRY.delay_seconds) == (False, 0)


# --- waiting for a condition -------------------------------------------------------------------------------------------------


def test_polling_waits_as_long_as_the_official_strategy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    ours = create_wait_strategy(WaitStrategyConfig[int](lambda _: True), random=Chance(0.5))
    theirs = official_waits.create_wait_strategy(official_waits.WaitStrategyConfig[int](lambda _: True))
    found = [ours(0, attempt).delay_seconds for attempt in range(1, 60)]
    assert found == [theirs(0, attempt).delay_seconds for attempt in range(1, 60)]
    assert (found[0], found[-1]) == (3, 150)


def test_polling_stops_when_the_condition_is_met_even_at_the_last_attempt() -> None:
    strategy = create_wait_strategy(WaitStrategyConfig[int](lambda state: state < 3, max_attempts=2))
    assert strategy(2, 1).should_continue is True
    assert strategy(3, 2) == WaitForConditionDecision.stop_polling()


def test_polling_fails_when_its_attempts_are_used_up() -> None:
    with pytest.raises(WaitForConditionError) as ours:
        create_wait_strategy(WaitStrategyConfig[int](lambda _: True, max_attempts=2))(0, 2)
    with pytest.raises(official_exceptions.WaitForConditionError) as theirs:
        official_waits.create_wait_strategy(official_waits.WaitStrategyConfig[int](lambda _: True, max_attempts=2))(0, 2)
    assert str(ours.value) == str(theirs.value)


def test_polling_very_often_stays_at_the_longest_delay() -> None:
    config = WaitStrategyConfig[int](lambda _: True, max_attempts=10**6, jitter_strategy=JitterStrategy.NONE)
    assert create_wait_strategy(config)(0, 5000).delay == Duration(300)


@pytest.mark.parametrize(
    "config, seconds",
    [
        (RetryStrategyConfig(), (5, 300)),
        (LinearRetryStrategyConfig(), (1, 300)),
        (WaitStrategyConfig[int](lambda _: True), (5, 300)),
    ],
)
def test_configurations_give_their_delays_in_seconds(config: Any, seconds: tuple[int, int]) -> None:
    assert (config.initial_delay_seconds, config.max_delay_seconds) == seconds
    assert getattr(config, "increment_seconds", 1) == 1
