"""`holdfast executions list`: every filter, alone and together, over executions of known times, versions and parents."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.execution import OutcomeStatus
from holdfast.model.outside import Stop
from holdfast.model.summary import Summary
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.browse_reads import ends
from holdfast.testing.stores.writes import T0, started, written
from tests.surface.cli_program import Program

HOUR = 3_600_000  # T0 is 2026-01-01T00:00:00Z


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    """A program over a store that holds four executions, an hour apart."""
    with closing(SqliteStore(str(tmp_path / "holdfast.db"), "here")) as store:
        parent = started(store, "order-1", now=T0)
        started(store, "pay-1", now=T0 + HOUR, function="pay", parent=parent.id, parent_operation="op")
        child = started(store, "pay-2", now=T0 + 2 * HOUR, function="pay", version="2", parent=parent.id, parent_operation="op")
        started(store, "order-1", now=T0 + 3 * HOUR, function="refund")
        written(store, Stop(child.id), T0 + 4 * HOUR)
    return Program(tmp_path)


def listed(holdfast: Program, *options: str) -> list[str]:
    ended = holdfast("executions", "list", "--json", *options)
    assert ended.returncode == 0, ended.stderr
    return [f"{x['function']}/{x['name']}" for x in map(json.loads, ended.stdout.splitlines())]


def test_a_list_is_filtered_by_everything_a_filter_has(holdfast: Program) -> None:
    assert listed(holdfast) == ["refund/order-1", "pay/pay-2", "pay/pay-1", "order/order-1"]
    assert listed(holdfast, "--function", "pay", "--version", "2") == ["pay/pay-2"]
    assert listed(holdfast, "--version", "$LATEST", "--function", "pay") == ["pay/pay-1"]
    assert listed(holdfast, "--parent", "order/order-1") == ["pay/pay-2", "pay/pay-1"]
    assert listed(holdfast, "--parent", "order/order-1", "--status", "stopped") == ["pay/pay-2"]
    assert listed(holdfast, "--parent", "pay-1") == []
    assert listed(holdfast, "--name", "order-1", "--oldest-first") == ["order/order-1", "refund/order-1"]


@pytest.mark.parametrize("an_hour_later", ["2026-01-01T01:00:00Z", "2026-01-01T01:00", "2026-01-01T02:00:00.000+01:00"])
def test_times_are_iso_8601_and_utc_unless_they_say_otherwise(holdfast: Program, an_hour_later: str) -> None:
    assert listed(holdfast, "--started-after", an_hour_later) == ["refund/order-1", "pay/pay-2"]
    assert listed(holdfast, "--started-before", an_hour_later) == ["order/order-1"]
    assert listed(holdfast, "--started-after", "2025-12-31", "--started-before", an_hour_later) == ["order/order-1"]


@pytest.mark.parametrize(
    "options, says",
    [
        (("--started-after", "yesterday"), "--started-after: 'yesterday' is not a time. Write it like 2026-"),
        (("--started-before", "1767225600"), "--started-before: '1767225600' is not a time."),
        (("--parent", "nobody"), "There is no execution 'nobody'"),
        (("--parent", "order-1"), "Several executions are called 'order-1'"),
        (("--status", "DONE"), "There are RUNNING, SUCCEEDED"),
    ],
)
def test_a_filter_that_makes_no_sense_is_said_clearly(holdfast: Program, options: tuple[str, ...], says: str) -> None:
    ended = holdfast("executions", "list", *options)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert ended.stderr.startswith("error[")


def test_a_run_whose_response_is_an_error_is_not_listed_like_a_success(holdfast: Program) -> None:
    with closing(SqliteStore(str(holdfast.folder / "holdfast.db"), "here")) as store:
        for number, (name, outcome) in enumerate({"well": "ok", "in-part": "partial", "denied": "permanent_error"}.items()):
            header = started(store, name, now=T0 + number, function="fetch")
            ends(OutcomeStatus.SUCCEEDED, summary=Summary(outcome=outcome))(store, header)
    table = holdfast("executions", "list", "--function", "fetch", "--oldest-first").stdout.splitlines()
    assert [re.split(r" {2,}", line)[2] for line in table[1:]] == ["SUCCEEDED", "SUCCEEDED (run partial)", "SUCCEEDED (run failed)"]
    assert "SUCCEEDED (run failed)" in holdfast("executions", "show", "denied").stdout
    assert holdfast.document("executions", "show", "denied")["status"] == "SUCCEEDED", "the document for machines has the status as it was"
