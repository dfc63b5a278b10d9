"""A request may make limits tighter, never wider; what is wider is named, all of it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.limits import tighten
from holdfast.contract.protocol import Constraints
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RunLimits, ToolGrant

LIMITS = RunLimits(
    timeout_seconds=60,
    idle_timeout_seconds=10,
    run_timeout_seconds=600,
    max_tokens=1500,
    max_cost_usd=Decimal("0.05"),
    tool_quotas={"fetch_url": 5},
    tools=(ToolGrant("fetch_url"), ToolGrant("parse_html"), ToolGrant("parameter_store", optional=True)),
)


def test_no_constraints_leave_the_contract_as_it_is() -> None:
    assert tighten(LIMITS, Constraints()) == LIMITS


def test_what_is_tighter_holds_and_the_rest_stays() -> None:
    tight = tighten(
        LIMITS,
        Constraints(timeout_seconds=5, max_tokens=1500, max_cost_usd=Decimal("0.01"), max_memory_mb=64, max_tool_calls=0),
        run_timeout_seconds=100,
    )
    assert (tight.timeout_seconds, tight.max_tokens, tight.max_cost_usd) == (5, 1500, Decimal("0.01"))
    assert (tight.max_memory_mb, tight.max_tool_calls) == (64, 0), "what the contract does not bound, a request may"
    assert (tight.run_timeout_seconds, tight.idle_timeout_seconds, tight.tools) == (100, 10, LIMITS.tools)


def test_tools_are_a_subset_and_keep_their_flags() -> None:
    assert tighten(LIMITS, Constraints(tools_allowed=("parameter_store", "fetch_url"))).tools == (
        ToolGrant("fetch_url"),
        ToolGrant("parameter_store", optional=True),
    )
    assert tighten(LIMITS, Constraints(tools_allowed=())).tools == ()


def test_quotas_are_tightened_tool_by_tool() -> None:
    assert tighten(LIMITS, Constraints(tool_quotas={"parse_html": 2})).tool_quotas == {"fetch_url": 5, "parse_html": 2}
    assert tighten(LIMITS, Constraints(tool_quotas={"fetch_url": 0})).tool_quotas == {"fetch_url": 0}


@pytest.mark.parametrize(
    "constraints, field, asked, allowed",
    [
        (Constraints(timeout_seconds=61), "timeout_seconds", 61, 60),
        (Constraints(idle_timeout_seconds=10.5), "idle_timeout_seconds", 10.5, 10),
        (Constraints(max_tokens=1501), "max_tokens", 1501, 1500),
        (Constraints(max_cost_usd=Decimal("0.051")), "max_cost_usd", "0.051", "0.05"),
        (Constraints(allow_subprocess=True), "allow_subprocess", True, False),
        (Constraints(tools_allowed=("fetch_url", "shell")), "tools_allowed", ["shell"], ["fetch_url", "parse_html", "parameter_store"]),
        (Constraints(tool_quotas={"fetch_url": 6}), "tool_quotas.fetch_url", 6, 5),
        (Constraints(tool_quotas={"shell": 1}), "tool_quotas.shell", 1, 0),
    ],
)
def test_what_is_wider_is_refused_by_name(constraints: Constraints, field: str, asked: object, allowed: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tighten(LIMITS, constraints)
    assert refused.value.error_code == "constraint_widened"
    assert refused.value.details == [{"field": field, "asked": asked, "allowed": allowed}]
    assert f"{field}: asked for " in str(refused.value)


def test_all_that_is_wider_is_told_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        tighten(LIMITS, Constraints(timeout_seconds=61, max_tokens=9999, tools_allowed=("shell",)), run_timeout_seconds=601)
    assert [detail["field"] for detail in refused.value.details] == [
        "timeout_seconds",
        "max_tokens",
        "tools_allowed",
        "run_timeout_seconds",
    ]


numbers = st.none() | st.integers(0, 100)


@given(numbers, numbers, st.floats(0.1, 100), st.floats(0.1, 100))
def test_the_result_is_never_wider_than_the_contract(allowed: int | None, asked: int | None, timeout: float, asked_timeout: float) -> None:
    limits = RunLimits(timeout_seconds=timeout, max_tokens=allowed)
    try:
        tight = tighten(limits, Constraints(timeout_seconds=asked_timeout, max_tokens=asked))
    except InvalidRequest:
        assert asked_timeout > timeout or (asked is not None and allowed is not None and asked > allowed)
        return
    assert tight.timeout_seconds <= timeout
    assert allowed is None or (tight.max_tokens is not None and tight.max_tokens <= allowed)
