"""Which error a response shows if a run failed first, and then had no budget left for another attempt or call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.contract.codes import ResponseStatus, meaning_of
from holdfast.workers.attempt_retries import is_day_cap
from holdfast.workers.calls import Try
from holdfast.workers.frames import BodyError
from holdfast.workers.tools.seam import Usage

_NO_BUDGET = frozenset({"budget_exceeded", "tool_quota_exceeded"})


def error_shown(first: BodyError | None, last: BodyError | None, tries: Iterable[Try], attempt: int) -> BodyError | None:
    """The error that the response shows. Usually it is `last`, the error of the last attempt. But if `last` only says that a budget or a
    daily cap is spent, and an error with another reason came before, the response shows that earlier error, with `last` in its details. The
    earlier error is `first`, the error of the first attempt; or, if only one attempt was made, the error of a failed call of it
    (`_lost_call`)."""
    if last is None or not (last.error_code in _NO_BUDGET or is_day_cap(last)):
        return last
    cause = first or _lost_call(tries, attempt)
    if cause is None or cause.error_code in _NO_BUDGET or is_day_cap(cause):
        return last
    then = {"error_code": last.error_code, "message": last.message}
    details = {**cause.details, "then": then} if isinstance(cause.details, Mapping) else {"then": then}
    return msgspec.structs.replace(
        cause,
        message=f"{cause.message} After that: {last.error_code}: {last.message}",
        retry_after_seconds=last.retry_after_seconds or cause.retry_after_seconds,
        partial=cause.partial if last.partial is None else last.partial,
        details=details,
    )


def _lost_call(tries: Iterable[Try], attempt: int) -> BodyError | None:
    """The error of the first call of this attempt that failed with a retryable error although it used tokens or money; None if there is
    none."""
    for attempted in tries:
        receipt = attempted.receipt
        if attempted.inherited or attempted.intent.attempt != attempt or receipt is None or receipt.error is None:
            continue
        if receipt.usage != Usage() and meaning_of(receipt.error.error_code).status is ResponseStatus.RETRYABLE_ERROR:
            return BodyError(**msgspec.structs.asdict(receipt.error))
    return None
