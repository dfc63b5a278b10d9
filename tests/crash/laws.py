"""What must hold for every execution, whatever was killed. The laws of histories and of what was invoked are holdfast.testing's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.simulation.laws import Events, Family, check_history, details, died

__all__ = ["Family", "check_bodies", "check_history", "died"]


def check_bodies(name: str, history: Events, bodies: Sequence[dict[str, Any]]) -> None:
    """No attempt runs after its end was recorded, nor more often than its process died; what must run at most once does."""
    takeovers = died(history)
    runs = Counter((body["step"], body["attempt"]) for body in bodies)
    once = {body["step"] for body in bodies if body.get("once")}
    for (step, attempt), count in runs.items():
        most = 1 if step in once else 1 + takeovers
        assert count <= most, f"{name}: attempt {attempt} of {step} ran {count} times, with {takeovers} takeovers"
    for event in history:
        if event["EventType"] in ("StepSucceeded", "StepFailed"):
            step, attempt, at = event["Name"], details(event)["RetryDetails"]["CurrentAttempt"], event["EventTimestamp"] * 1000
            late = [body for body in bodies if body["step"] == step and body["attempt"] <= attempt and body["at"] > at + 1]
            assert late == [], f"{name}: {step} ran again after attempt {attempt} was recorded at {at}"
            if event["EventType"] == "StepSucceeded":
                assert runs[step, attempt] >= 1, f"{name}: {step} is recorded and never ran"
