"""How the order workflow is tested: the real engine in memory, an approval by name, and a crash at every point."""

from random import Random

import order_workflow
import pytest

from holdfast import ExecutionStatus
from holdfast.testing import Runner, crash_everywhere

ORDER = {"order_id": "42"}


class Service(Random):
    """Stands in for chance: the service fails this often, then it works."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures = failures

    def random(self) -> float:
        self._failures -= 1
        return 0.9 if self._failures >= 0 else 0.1


def test_an_approved_order_is_processed_though_the_service_fails_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_workflow, "random", Service(failures=2))
    with Runner(order_workflow.lambda_handler) as runner:
        arn = runner.run_async(ORDER)
        runner.send_callback_success(runner.wait_for_callback(arn, "awaiting-approval"), b"approved")
        result = runner.wait_for_result(arn)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.get_step("process_order").attempt == 3


def test_a_crash_at_any_point_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_workflow, "random", Service(failures=0))
    assert crash_everywhere(order_workflow.lambda_handler, ORDER, answers={"awaiting-approval": "approved"}) > 6
