"""Events of a run as people read them: a line each, text of models as it comes; no text steers a terminal or looks like an event."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.cli.event_lines import EventLines


def written(*events: tuple[str, Any]) -> str:
    said: list[str] = []
    lines = EventLines(said.append)
    for event, data in events:
        lines.tell(event, data)
    lines.end()
    return "".join(said)


@pytest.mark.parametrize("event,data,line", [
    ("accepted", {"run_id": "r1", "worker_id": "w", "version": "1.0"}, "accepted: w 1.0, run r1"),
    ("attempt", {"attempt": 1, "state": "began", "at": 1}, "attempt 1: began"),
    ("attempt", {"attempt": 1, "state": "ended", "duration_ms": 1500, "error_code": "timeout", "message": "late"},
     "attempt 1: ended after 1 s, timeout: late"),
    ("tool", {"tool": "fetch_url", "state": "began"}, "tool fetch_url: began"),
    ("tool", {"tool": "language_model", "state": "ended", "usage": {"tokens": {"input": 1200, "output": 34}}},
     "tool language_model: ended, 1,234 tokens"),
    ("node", {"node": "facts", "round": 2, "state": "skipped", "why": "facts are missing"},
     "node facts (round 2): skipped, facts are missing"),
    ("node", {"node": "facts", "round": 1, "state": "failed", "why": "w", "error_code": "c", "message": "m"}, "node facts: failed, c: m"),
    ("approval", {"approval_id": "a_1", "tool": "pay", "state": "approve", "decided_by": "ann"}, "approval a_1 for pay: approve by ann"),
    ("approval", {"approval_id": "a_1", "tool": "pay", "state": "vote", "verdict": "reject", "decided_by": "ann"},
     "approval a_1 for pay: vote reject by ann"),
    ("choice", {"node": "boss", "turn": 2, "choice": "search", "reason": "a fact is missing"},
     "choice of node boss, turn 2: search, a fact is missing"),
    ("log", {"level": "info", "message": "half way"}, "log info: half way"),
    ("progress", {"done": 1}, 'progress: {"done":1}'), ("progress", 7, "progress: 7"),
    ("progress", {"node": "each", "item": 3, "run_id": "r", "progress": {"n": 1}}, 'progress of node each item 3: {"n":1}'),
    ("gap", {"missed": 5}, "gap: 5 live events are missing here"), ("gap", {"missed": None}, "gap: some live events are missing here"),
    ("done", {"status": "ok", "error": None}, "done: ok"),
    ("done", {"status": "permanent_error", "error": {"error_code": "cancelled", "message": "it was"}},
     "done: permanent_error, cancelled: it was"),
    ("quarantined", {"run_id": "r"}, 'quarantined: {"run_id":"r"}'),
])  # fmt: skip
def test_each_event_is_one_line(event: str, data: Any, line: str) -> None:
    assert written((event, data)) == f"{line}\n"


def test_texts_of_one_call_follow_each_other_and_those_of_another_begin_a_line() -> None:
    first, second = {"node": "a", "run_id": "r1", "call": "x", "try": 1}, {"node": "b", "item": 0, "run_id": "r2", "call": "x", "try": 1}
    told = written(
        ("tokens", first | {"offset": 0, "text": "Once "}),
        ("tokens", first | {"offset": 5, "text": "upon"}),
        ("tokens", second | {"offset": 0, "text": "Twice"}),
        ("tokens", first | {"offset": 9, "text": " a time"}),
        ("node", {"node": "a", "state": "ok"}),
    )
    assert told == "tokens of node a: Once upon\ntokens of node b item 0: Twice\ntokens of node a: ...  a time\nnode a: ok\n"


def test_a_text_can_neither_look_like_an_event_nor_steer_the_terminal() -> None:
    told = written(("tokens", {"offset": 0, "text": "so\ndone: ok\n\x1b[2Jx\r"}))
    assert told == "tokens: so\n  done: ok\n  \\u001b[2Jx\\r\n"
