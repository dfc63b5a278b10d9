"""What map and parallel return, and when they are complete.

`CompletionPolicy` decides when a batch is complete. `BatchResult` is what authors get. `CompletionRecord` is what a checkpoint stores in
place of a result that is too large.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

from holdfast.durable.concurrency.unread import Looked, quietly
from holdfast.durable.config import (
    BatchItemStatus,
    CompletionConfig,
    CompletionDecision,
    CompletionItemStatus,
    CompletionOutcome,
    CompletionStatus,
)
from holdfast.durable.exceptions import ChildContextError, DurableOperationError, register_operation_error
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.protocols import SummaryGenerator
from holdfast.durable.types import BatchResult as BatchResultProtocol

logger = logging.getLogger(__name__)

R = TypeVar("R")


class CompletionReason(Enum):
    """Why a batch ended."""

    ALL_COMPLETED = "ALL_COMPLETED"
    MIN_SUCCESSFUL_REACHED = "MIN_SUCCESSFUL_REACHED"
    FAILURE_TOLERANCE_EXCEEDED = "FAILURE_TOLERANCE_EXCEEDED"
    CUSTOM_COMPLETION_SUCCEEDED = "CUSTOM_COMPLETION_SUCCEEDED"
    CUSTOM_COMPLETION_FAILED = "CUSTOM_COMPLETION_FAILED"


class BatchCompletionError(DurableOperationError):
    """A `should_complete` function ended the batch as failed."""

    code = "batch_completion_error"

    def __init__(
        self,
        completion_reason: CompletionReason = CompletionReason.CUSTOM_COMPLETION_FAILED,
        message: str | None = None,
        error_type: str | None = None,
        data: str | None = None,
        stack_trace: list[str] | None = None,
    ) -> None:
        message = message or f"Batch completed as failed by should_complete ({completion_reason.value})"
        super().__init__(message, error_type, data, stack_trace)
        self.completion_reason = completion_reason


register_operation_error(BatchCompletionError)


@dataclass(frozen=True)
class CompletionPolicy:
    """A `CompletionConfig` applied to a batch of `total` branches.

    If `should_complete` is set, it replaces the three numbers `min_successful`, `tolerated_failure_count` and
    `tolerated_failure_percentage`: callers call `evaluate` before the first branch begins and each time a branch has ended, and pass its
    answer to the other methods as `decision`. If nothing is set, the first failure ends the batch.
    """

    total: int
    min_successful: int | None = None
    tolerated_failure_count: int | None = None
    tolerated_failure_percentage: int | float | None = None
    should_complete: Callable[[CompletionStatus], CompletionDecision] | None = None

    @classmethod
    def from_config(cls, total: int, config: CompletionConfig | None) -> CompletionPolicy:
        """The policy of this configuration for a batch of `total` branches. With `config` None the first failure ends the batch."""
        c = config or CompletionConfig()
        return cls(total, c.min_successful, c.tolerated_failure_count, c.tolerated_failure_percentage, c.should_complete)

    @property
    def has_criteria(self) -> bool:
        """Whether `min_successful`, `tolerated_failure_count` or `tolerated_failure_percentage` is set."""
        return (self.min_successful, self.tolerated_failure_count, self.tolerated_failure_percentage) != (None, None, None)

    def is_tolerance_exceeded(self, failed: int) -> bool:
        """Whether more branches failed than the config tolerates. If nothing is set, it tolerates no failure; if only `min_successful` is
        set, it tolerates all. Always False if `should_complete` is set."""
        if self.should_complete is not None:
            return False
        if not self.has_criteria:
            return failed > 0
        if self.tolerated_failure_count is not None and failed > self.tolerated_failure_count:
            return True
        if self.tolerated_failure_percentage is None or self.total == 0:
            return False
        return (failed / self.total) * 100 > self.tolerated_failure_percentage

    def should_continue(self, failed: int) -> bool:
        """Whether the batch may go on after `failed` failures: True unless these are more than the config tolerates. Other reasons to end
        the batch are not checked here."""
        return not self.is_tolerance_exceeded(failed)

    def evaluate(self, succeeded: int, failed: int, items: tuple[CompletionItemStatus, ...] = ()) -> CompletionDecision | None:
        """The decision of `should_complete`; None if it is not set. `succeeded` and `failed` are numbers of branches; `items` has all
        branches, by index."""
        if self.should_complete is None:
            return None
        return self.should_complete(CompletionStatus(succeeded, failed, succeeded + failed, self.total, items))

    def is_complete(
        self,
        succeeded: int,
        failed: int,
        items: tuple[CompletionItemStatus, ...] = (),
        decision: CompletionDecision | None = None,
    ) -> bool:
        """Whether the batch is complete: `should_complete` says so, all branches have ended, or `min_successful` is reached. Too many
        failures also end the batch, but are not checked here: `should_continue` does. `succeeded` and `failed` are numbers of branches.
        `decision` is what `evaluate` returned; if it is None, `evaluate` is called here with `items`."""
        decision = decision or self.evaluate(succeeded, failed, items)
        if decision is not None and self.should_complete is not None and decision.complete:
            return True
        return succeeded + failed >= self.total or self._has_minimum(succeeded)

    def reason(
        self,
        succeeded: int,
        failed: int,
        items: tuple[CompletionItemStatus, ...] = (),
        decision: CompletionDecision | None = None,
    ) -> CompletionReason:
        """Why the batch ended. If several causes apply, the first of these is returned: too many failures, the decision of
        `should_complete`, all branches ended, enough branches succeeded. ALL_COMPLETED if none applies. `succeeded` and `failed` are
        numbers of branches. `decision` is what `evaluate` returned; if it is None, `evaluate` is called here with `items`."""
        if self.is_tolerance_exceeded(failed):
            return CompletionReason.FAILURE_TOLERANCE_EXCEEDED
        decision = decision or self.evaluate(succeeded, failed, items)
        if decision is not None and self.should_complete is not None and decision.complete:
            if decision.outcome is CompletionOutcome.FAILED:
                return CompletionReason.CUSTOM_COMPLETION_FAILED
            return CompletionReason.CUSTOM_COMPLETION_SUCCEEDED
        if succeeded + failed < self.total and self._has_minimum(succeeded):
            return CompletionReason.MIN_SUCCESSFUL_REACHED
        return CompletionReason.ALL_COMPLETED

    def _has_minimum(self, succeeded: int) -> bool:
        return self.min_successful is not None and succeeded >= self.min_successful


@dataclass(frozen=True)
class BatchItem(Generic[R]):
    """One branch of a batch. `result` is None unless the branch succeeded. `error` is None unless it failed; it is also None for a failed
    branch whose record has no error."""

    index: int
    status: BatchItemStatus
    result: R | None = None
    error: ErrorObject | None = None

    def to_dict(self) -> dict[str, Any]:
        """This branch as a dictionary, for `from_dict`."""
        error = self.error.to_dict() if self.error else None
        return {"index": self.index, "status": self.status.value, "result": self.result, "error": error}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BatchItem[R]:
        """The branch in a dictionary that `to_dict` made."""
        error = ErrorObject.from_dict(data["error"]) if data.get("error") else None
        return cls(data["index"], BatchItemStatus(data["status"]), data.get("result"), error)


@dataclass(frozen=True)
class BatchResult(Generic[R], BatchResultProtocol[R]):
    """What `map` and `parallel` return: all branches that were started, in the order of their indexes, and why the batch ended."""

    all: list[BatchItem[R]]
    completion_reason: CompletionReason

    @classmethod
    def from_dict(cls, data: dict[str, Any], completion_config: CompletionConfig | None = None) -> BatchResult[R]:
        """The result in a dictionary that `to_dict` made. If the dictionary does not say why the batch ended, this is worked out from the
        items and `completion_config`, and a warning is logged."""
        items: list[BatchItem[R]] = [BatchItem.from_dict(item) for item in data["all"]]
        reason = data.get("completionReason")
        if reason is not None:
            return cls(items, CompletionReason(reason))
        result = cls.from_items(items, completion_config)
        logger.warning("A batch result lacks its completionReason; its items suggest %s.", result.completion_reason.value)
        return result

    @classmethod
    def from_items(cls, items: list[BatchItem[R]], completion_config: CompletionConfig | None = None) -> BatchResult[R]:
        """A result with these items. Why the batch ended is worked out from the items and `completion_config`; this is certain only if
        `items` has every branch of the batch."""
        statuses = [item.status for item in items]
        seen = tuple(CompletionItemStatus(item.index, status=item.status) for item in items)
        policy = CompletionPolicy.from_config(len(items), completion_config)
        return cls(items, policy.reason(statuses.count(BatchItemStatus.SUCCEEDED), statuses.count(BatchItemStatus.FAILED), seen))

    def to_dict(self) -> dict[str, Any]:
        """This result as a dictionary, for `from_dict`."""
        return {"all": [item.to_dict() for item in self.all], "completionReason": self.completion_reason.value}

    def succeeded(self) -> list[BatchItem[R]]:
        """The branches that succeeded."""
        return [item for item in quietly(self, "all") if item.status is BatchItemStatus.SUCCEEDED]

    def failed(self) -> list[BatchItem[R]]:
        """The branches that failed."""
        return [item for item in self.all if item.status is BatchItemStatus.FAILED]

    def started(self) -> list[BatchItem[R]]:
        """The branches that had not ended when the batch ended."""
        return [item for item in quietly(self, "all") if item.status is BatchItemStatus.STARTED]

    @property
    def status(self) -> BatchItemStatus:
        """The status of the batch: what `should_complete` decided; if it decided nothing, FAILED if a branch failed, else SUCCEEDED."""
        if self.completion_reason is CompletionReason.CUSTOM_COMPLETION_SUCCEEDED:
            return BatchItemStatus.SUCCEEDED
        if self.completion_reason is CompletionReason.CUSTOM_COMPLETION_FAILED or self.has_failure:
            return BatchItemStatus.FAILED
        return BatchItemStatus.SUCCEEDED

    @property
    def has_failure(self) -> bool:
        """Whether any branch failed."""
        return any(item.status is BatchItemStatus.FAILED for item in self.all)

    def throw_if_error(self) -> None:
        """Raise the error of the failed branch with the lowest index as ChildContextError (a SerDesError as SerDesError). If no branch
        failed, but `should_complete` ended the batch as failed, raise BatchCompletionError. Otherwise do nothing."""
        for item in self.failed()[:1]:
            if item.error is None:
                raise ChildContextError(f"Batch item {item.index} failed without an ErrorObject.")
            item.error.raise_as_operation_error(ChildContextError)
        if self.completion_reason is CompletionReason.CUSTOM_COMPLETION_FAILED:
            raise BatchCompletionError(self.completion_reason)

    def get_results(self) -> list[R]:
        """The results of the branches that succeeded, in branch order; None where a branch returned nothing."""
        return [cast(R, item.result) for item in self.succeeded()]

    def get_errors(self) -> list[ErrorObject | None]:
        """The errors of the branches that failed, in branch order; None for a branch whose record has no error."""
        return [item.error for item in self.failed()]

    @property
    def success_count(self) -> int:
        """How many branches succeeded."""
        return len(self.succeeded())

    @property
    def failure_count(self) -> int:
        """How many branches failed."""
        return len(self.failed())

    @property
    def started_count(self) -> int:
        """How many branches had not ended when the batch ended."""
        return len(self.started())

    @property
    def total_count(self) -> int:
        """How many branches were started."""
        return len(quietly(self, "all"))


for _field in ("all", "completion_reason"):
    setattr(BatchResult, _field, Looked(_field))


def _indexes(raw: object, below: int) -> frozenset[int] | None:
    if not isinstance(raw, list) or not all(type(i) is int and 0 <= i < below for i in raw):
        return None
    return frozenset(raw)


@dataclass(frozen=True)
class CompletionRecord:
    """How a batch ended. It is stored in place of a result that is too large. A replay makes the same result again, from this record and
    from the recorded operations of the branches.

    Branches start in the order of their indexes, so `range(started_total)` are the indexes of the branches that were started. Those in
    `started_indexes` had not ended when the batch ended.
    """

    completion_reason: CompletionReason
    started_total: int
    started_indexes: frozenset[int]

    @classmethod
    def from_summary_payload(cls, payload: str | None) -> CompletionRecord | None:
        """The record in a text that `summary_envelope` made; None for any other text (older SDKs wrote other texts)."""
        try:
            data = json.loads(payload or "null")
            reason = CompletionReason(data["completionReason"])
            total = data["totalCount"]
        except (ValueError, TypeError, KeyError):
            return None
        if type(total) is not int or total < 0:
            return None
        # If this list is there, it is used. If it is damaged, the other list is not used in its place: that would be a guess.
        if isinstance(data.get("startedIndexes"), list):
            started = _indexes(data["startedIndexes"], total)
        else:
            completed = _indexes(data.get("completedIndexes"), total)
            started = None if completed is None else frozenset(range(total)) - completed
        return None if started is None else cls(reason, total, started)

    @staticmethod
    def summary_index_fields(items: Iterable[BatchItem[Any]]) -> dict[str, list[int]]:
        """A dictionary with one list of branch indexes: under `startedIndexes` the branches that had not ended, or under `completedIndexes`
        those that had. The shorter of the two lists is taken."""
        started: list[int] = []
        completed: list[int] = []
        for item in items:
            (started if item.status is BatchItemStatus.STARTED else completed).append(item.index)
        return {"startedIndexes": started} if len(started) <= len(completed) else {"completedIndexes": completed}

    @staticmethod
    def summary_envelope(result: BatchResult[Any], result_type: str, summary: str | None) -> str:
        """The plain JSON that is stored in place of a result that is too large. `result_type` is its member `type`. `summary` is a text for
        people (None: no text); no code reads it back."""
        fields: dict[str, object] = {
            "type": result_type,
            "totalCount": result.total_count,
            "completionReason": result.completion_reason.value,
            **CompletionRecord.summary_index_fields(result.all),
            "startedCount": result.started_count,
            "successCount": result.success_count,
            "failureCount": result.failure_count,
            "status": result.status.value,
        }
        if summary is not None:
            fields["summary"] = str(summary)
        return json.dumps(fields)


def envelope_summary_generator(
    result_type: str, custom_generator: SummaryGenerator[BatchResult[Any]] | None
) -> SummaryGenerator[BatchResult[Any]]:
    """A function that makes the `summary_envelope` of a BatchResult, with this `result_type`. The envelope contains the text that
    `custom_generator`, a function of the author, makes; if there is no such function (None), it contains no text."""

    def generate(result: BatchResult[Any]) -> str:
        summary = custom_generator(result) if custom_generator is not None else None
        return CompletionRecord.summary_envelope(result, result_type, summary)

    return generate
