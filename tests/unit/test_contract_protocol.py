"""The request and the response: clear about what does not fit, all of it at once, and the same after a journey."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.checking import checker_of
from holdfast.contract.protocol import (
    REQUEST_SCHEMA,
    ArtifactRef,
    Constraints,
    Observability,
    Response,
    ResponseError,
    ResponseStatus,
    ResponseUsage,
    Tokens,
    Trace,
    WorkerRequest,
    request_from,
    response_document,
    response_from,
    response_text,
)
from holdfast.contract.refusals import InvalidRequest

WHOLE = {
    "worker_id": "web-scrape-worker",
    "version": "1.0",
    "inputs": {"url": "https://shop.example/"},
    "constraints": {
        "timeout_seconds": 5,
        "max_tokens": 10,
        "max_cost_usd": 0.05,
        "tools_allowed": ["fetch_url"],
        "tool_quotas": {"fetch_url": 1},
    },
    "trace": {"trace_id": "t", "span_id": "s", "parent_span_id": "p", "upstream_request_id": "u"},
    "idempotency_key": "case-7",
    "run_timeout_seconds": 600,
    "user": "ada",
}


def test_a_whole_request_is_read() -> None:
    assert request_from(json.dumps(WHOLE)) == WorkerRequest(
        worker_id="web-scrape-worker",
        version="1.0",
        inputs={"url": "https://shop.example/"},
        constraints=Constraints(
            timeout_seconds=5, max_tokens=10, max_cost_usd=Decimal("0.05"), tools_allowed=("fetch_url",), tool_quotas={"fetch_url": 1}
        ),
        trace=Trace(trace_id="t", span_id="s", parent_span_id="p", upstream_request_id="u"),
        idempotency_key="case-7",
        run_timeout_seconds=600,
        user="ada",
    )


def test_text_bytes_and_a_document_are_the_same_request() -> None:
    text = json.dumps(WHOLE)
    assert request_from(text) == request_from(text.encode()) == request_from(WHOLE)


def test_little_is_enough() -> None:
    assert request_from({"worker_id": "w", "inputs": {}}) == WorkerRequest(worker_id="w", inputs={})


def refusal(document: Any, worker_id: str | None = None) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        request_from(document, worker_id=worker_id)
    assert refused.value.error_code == "schema_mismatch"
    return refused.value


@pytest.mark.parametrize(
    "change, path, told",
    [
        ({"version": 1.0}, "/version", '(write it as text, "1.0")'),
        ({"version": ""}, "/version", "/version: "),
        ({"inputs": []}, "/inputs", 'not of type "object"'),
        ({"tenant": "other"}, "", "'tenant' was unexpected"),
        ({"input": {}}, "", "'input' was unexpected"),
        ({"constraints": {"timeout": 5}}, "/constraints", "'timeout' was unexpected"),
        ({"constraints": {"timeout_seconds": "5"}}, "/constraints/timeout_seconds", 'not of type "number"'),
        ({"constraints": {"timeout_seconds": 0}}, "/constraints/timeout_seconds", "/constraints/timeout_seconds: "),
        ({"constraints": {"max_tokens": 1.5}}, "/constraints/max_tokens", 'not of type "integer"'),
        ({"constraints": {"tools_allowed": "all"}}, "/constraints/tools_allowed", 'not of type "array"'),
        ({"trace": {"trace_id": 5}}, "/trace/trace_id", 'not of type "string"'),
        ({"run_timeout_seconds": -1}, "/run_timeout_seconds", "/run_timeout_seconds: "),
        ({"idempotency_key": 7}, "/idempotency_key", 'not of type "string"'),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(change: dict[str, Any], path: str, told: str) -> None:
    refused = refusal({**WHOLE, **change})
    assert [detail["path"] for detail in refused.details] == [path]
    assert told in str(refused)


def test_all_that_does_not_fit_is_told_at_once() -> None:
    assert len(refusal({"version": 1, "inputs": 3, "foo": 1, "trace": []}).details) == 5


@pytest.mark.parametrize("text", ["", "{", "nonsense", b"\xff", '{"worker_id": "a", "inputs": {}} x', "[" * 100])
def test_what_is_no_json_is_a_mismatch_too(text: str | bytes) -> None:
    assert "not JSON" in str(refusal(text))


@pytest.mark.parametrize(
    "text, told",
    [
        ("[" * 100_000, "more than 20000 objects and lists"),
        ("[" + "[]," * 20_000 + "[]]", "more than 20000 objects and lists"),
        ("[" + "0," * 100_000 + "0]", "more than 100000 values"),
        ("[" * 500 + "]" * 500, "more than 200 levels deep"),
    ],
)
def test_a_request_that_holds_too_much_is_refused_before_it_is_read(text: str, told: str) -> None:
    assert told in str(refusal(text))


@pytest.mark.parametrize("text", ["[]", "null", "3", '"a"'])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    assert refusal(text).details[0]["path"] == ""


def test_the_address_names_the_worker_and_the_body_may_not_name_another() -> None:
    assert request_from({"inputs": {}}, worker_id="w").worker_id == "w"
    assert request_from({"worker_id": "w", "inputs": {}}, worker_id="w").worker_id == "w"
    assert 'was sent to "w"' in str(refusal({"worker_id": "v", "inputs": {}}, worker_id="w"))


def test_the_schema_of_requests_has_every_field_and_no_other() -> None:
    properties = REQUEST_SCHEMA["properties"]
    assert set(properties) == set(WorkerRequest.__struct_fields__)
    assert set(properties["constraints"]["properties"]) == set(Constraints.__struct_fields__)
    assert set(properties["trace"]["properties"]) == set(Trace.__struct_fields__)
    assert checker_of(REQUEST_SCHEMA).fits(WHOLE)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*WorkerRequest.__struct_fields__, "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda x: (
                st.lists(x, max_size=3) | st.dictionaries(st.sampled_from([*Constraints.__struct_fields__, "trace_id", "y"]), x, max_size=3)
            ),
            max_leaves=8,
        ),
    )
)
def test_any_document_is_a_request_or_is_refused(document: dict[str, Any]) -> None:
    try:
        assert request_from(document).inputs == document["inputs"]
    except InvalidRequest as refused:
        assert refused.details  # noqa: PT017


RESPONSE = Response(
    run_id="r_1",
    worker_id="w",
    version="1.0",
    status=ResponseStatus.RETRYABLE_ERROR,
    outputs={"data": {"a": 1}},
    error=ResponseError(error_code="rate_limited", message="Too fast.", retryable=True, retry_after_seconds=2.5),
    artifacts=(ArtifactRef(artifact_id="a_1", name="page", media_type="text/html", size_bytes=9, sha256="00", uri="holdfast:a_1"),),
    logs=({"level": "info", "message": "hello"},),
    observability=Observability(
        trace_id="t",
        span_id="s",
        attempt=2,
        duration_ms=17,
        usage=ResponseUsage(tokens=Tokens(3, 4), cost_usd=Decimal("0.0125"), tool_calls=1),
        isolation="all",
        partial=True,
        log_fields={"worker_id": "w"},
    ),
)


def test_a_response_looks_as_the_protocol_says() -> None:
    assert response_document(RESPONSE) == {
        "run_id": "r_1",
        "worker_id": "w",
        "version": "1.0",
        "status": "retryable_error",
        "outputs": {"data": {"a": 1}},
        "error": {"error_code": "rate_limited", "message": "Too fast.", "retryable": True, "retry_after_seconds": 2.5},
        "artifacts": [
            {"artifact_id": "a_1", "name": "page", "media_type": "text/html", "size_bytes": 9, "sha256": "00", "uri": "holdfast:a_1"}
        ],
        "approvals": [],
        "logs": [{"level": "info", "message": "hello"}],
        "observability": {
            "trace_id": "t",
            "span_id": "s",
            "attempt": 2,
            "duration_ms": 17,
            "usage": {"tokens": {"input": 3, "output": 4}, "cost_usd": 0.0125, "tool_calls": 1, "cached_tokens": 0, "reasoning_tokens": 0},
            "isolation": "all",
            "partial": True,
            "log_fields": {"worker_id": "w"},
        },
    }


def test_a_response_comes_back_the_same() -> None:
    assert response_from(response_text(RESPONSE)) == RESPONSE
