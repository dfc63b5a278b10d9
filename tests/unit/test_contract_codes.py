"""One table of codes: it knows every code of the protocol, a contract adds its own after it, and an operator decides what is retried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.contract.codes import CODES, ENDINGS, Named, ResponseStatus, ending_of, meaning_of
from tests.drawings import codes as drawing

OF_THE_PROTOCOL = {
    ResponseStatus.INVALID_REQUEST: "schema_mismatch worker_not_found version_not_found idempotency_conflict constraint_widened "
    "missing_diff_context pipeline_invalid",
    ResponseStatus.INVALID_OUTPUT: "output_schema_mismatch edge_mismatch",
    ResponseStatus.RETRYABLE_ERROR: "timeout idle_timeout rate_limited overloaded worker_crashed tool_timeout tool_unavailable "
    "fetch_timeout",
    ResponseStatus.PERMANENT_ERROR: "budget_exceeded estimate_exceeded price_unknown "
    "tool_not_allowed tool_not_trusted tool_quota_exceeded tool_failed egress_denied "
    "access_denied memory_exceeded cpu_exceeded disk_exceeded process_limit limits_unreadable step_limit sandbox_unavailable cancelled "
    "artifact_not_found artifact_too_large artifact_changed package_changed approval_rejected approval_expired approval_impossible "
    "merge_conflict poison_message schema_too_costly depth_exceeded run_unavailable gate_blocked route_unknown "
    "supervise_unknown_choice supervise_invalid_answer supervise_turns until_not_reached expired",
    ResponseStatus.NEEDS_HUMAN: "unknown_outcome receipt_conflict approval_required undo_failed",
}


def test_the_table_holds_every_code_of_the_protocol_under_its_status() -> None:
    assert {code: meaning.status for code, meaning in CODES.items()} == {
        code: status for status, codes in OF_THE_PROTOCOL.items() for code in codes.split()
    }


def test_a_status_says_whether_to_try_again_and_how_a_script_ends() -> None:
    assert {status.value: (ending.retryable, ending.exit) for status, ending in ENDINGS.items()} == {
        "ok": (False, 0),
        "permanent_error": (False, 1),
        "invalid_request": (False, 2),
        "needs_human": (False, 4),
        "invalid_output": (True, 5),
        "retryable_error": (True, 75),
    }
    assert set(ENDINGS) == set(ResponseStatus)
    assert ending_of(ResponseStatus.OK).http == 200


def test_what_must_not_be_repeated_never_gets_an_answer_that_clients_repeat() -> None:
    assert [meaning.code for meaning in CODES.values() if not meaning.retryable and meaning.http in (429, 500, 502, 503, 504)] == []
    assert [meaning.code for meaning in CODES.values() if meaning.retryable and meaning.http not in (429, 502, 503, 504)] == []
    assert {meaning.code: meaning.http for meaning in CODES.values() if meaning.http == 202} == {
        "unknown_outcome": 202,
        "approval_required": 202,
    }


OWN = {
    "out_of_stock": Named("out_of_stock", retryable=False),
    "shop_closed": Named("shop_closed", retryable=True),
    "odd_price": Named("odd_price", status=ResponseStatus.NEEDS_HUMAN),
    "unruled": Named("unruled"),
    "timeout": Named("timeout", retryable=False),
    "access_denied": Named("access_denied", retryable=False, unless_policy=True),
}


@pytest.mark.parametrize(
    "code, status, retryable",
    [
        ("out_of_stock", ResponseStatus.PERMANENT_ERROR, False),
        ("shop_closed", ResponseStatus.RETRYABLE_ERROR, True),
        ("odd_price", ResponseStatus.NEEDS_HUMAN, False),
        ("unruled", ResponseStatus.PERMANENT_ERROR, False),
        ("never_heard_of", ResponseStatus.PERMANENT_ERROR, False),
        ("timeout", ResponseStatus.RETRYABLE_ERROR, True),
        ("access_denied", ResponseStatus.PERMANENT_ERROR, False),
    ],
)
def test_a_contracts_codes_are_looked_up_after_the_table(code: str, status: ResponseStatus, retryable: bool) -> None:
    meaning = meaning_of(code, deployed=OWN)
    assert (meaning.code, meaning.status, meaning.retryable) == (code, status, retryable)


@pytest.mark.parametrize("retryable, again, http", [(None, True, 502), (True, True, 502), (False, False, 422)])
def test_a_contract_says_whether_its_own_code_of_invalid_output_is_retried(retryable: bool | None, again: bool, http: int) -> None:
    own = {"odd_shape": Named("odd_shape", retryable=retryable, status=ResponseStatus.INVALID_OUTPUT)}
    meaning = meaning_of("odd_shape", deployed=own)
    assert (meaning.status, meaning.retryable, meaning.http, meaning.exit) == (ResponseStatus.INVALID_OUTPUT, again, http, 5)


def test_an_author_may_say_what_neither_table_nor_contract_does() -> None:
    assert meaning_of("new_code", retryable=True).status is ResponseStatus.RETRYABLE_ERROR
    assert meaning_of("new_code", needs_human=True).status is ResponseStatus.NEEDS_HUMAN
    assert meaning_of("new_code", needs_human=True).exit == 4
    assert meaning_of("out_of_stock", deployed=OWN, retryable=True).status is ResponseStatus.PERMANENT_ERROR


def test_an_operator_decides_what_is_retried_code_by_code() -> None:
    allowed = meaning_of("access_denied", deployed=OWN, retry_codes={"access_denied": True})
    assert (allowed.status, allowed.retryable, allowed.http, allowed.exit) == (ResponseStatus.RETRYABLE_ERROR, True, 503, 75)
    forbidden = meaning_of("timeout", retry_codes={"timeout": False})
    assert (forbidden.status, forbidden.retryable, forbidden.exit) == (ResponseStatus.PERMANENT_ERROR, False, 1)
    assert meaning_of("rate_limited", retry_codes={"timeout": False}) == CODES["rate_limited"]
    assert meaning_of("rate_limited", retry_codes={"rate_limited": True}) == CODES["rate_limited"]


def test_no_operator_makes_a_person_or_another_request_unnecessary() -> None:
    for code in ("unknown_outcome", "approval_required", "schema_mismatch", "idempotency_conflict"):
        assert meaning_of(code, retry_codes={code: True}) == CODES[code]
    output = meaning_of("output_schema_mismatch", retry_codes={"output_schema_mismatch": False})
    assert (output.status, output.retryable, output.http, output.exit) == (ResponseStatus.INVALID_OUTPUT, False, 422, 5), (
        "no client repeats a 422"
    )
    edge = meaning_of("edge_mismatch", retry_codes={"edge_mismatch": True})
    assert (edge.status, edge.retryable, edge.http, edge.exit) == (ResponseStatus.INVALID_OUTPUT, True, 502, 5)


def test_the_page_of_codes_is_what_the_table_says(root: Path) -> None:
    page = (root / "docs" / "reference" / "codes.md").read_text(encoding="utf-8")
    assert page == drawing.page(), "python -m tests.drawings.codes > docs/reference/codes.md"
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (yes|no) \| (\d+) \| (\d+) \|", page, re.M)
    assert rows == [(m.code, m.status, "yes" if m.retryable else "no", str(m.http), str(m.exit)) for m in CODES.values()]
    assert [status for status in ResponseStatus if f"| `{status}` |" not in page] == []
