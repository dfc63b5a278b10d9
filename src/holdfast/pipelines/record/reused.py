"""Reused results: results of earlier runs of a restarted pipeline, recorded in the new run.

The record has the whole result, so that a replay and a later restart can use it after retention has removed the earlier run.
"""

from __future__ import annotations

import msgspec

from holdfast.contract.protocol import Response, response_from
from holdfast.model import json_structs
from holdfast.model.operations import Operation
from holdfast.workers.approvals import Decision


class Reused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result of an earlier run: the response of a child run, the decision of a person, or a wait that has ended."""

    of: str
    """The id of the earlier execution from which the result was taken: an earlier run of the pipeline, or a shard of such a run."""
    run_id: str = ""
    """The id of the child run that gave the response; empty for a decision and for a wait."""
    node: str = ""
    part: str = ""
    work: str = ""
    """The hash of the work that the child run did (workers.accepted_request.work_of)."""
    worker: str = ""
    version: str = ""
    package: str = ""
    family: str = ""
    link: int = 1
    before: tuple[str, ...] = ()
    item: int | None = None
    """The index of the item, if the child run was for an item of a map."""
    round: int = 1
    response: msgspec.Raw = msgspec.Raw(b"null")
    asked: str | None = None
    """The hash of what a person was asked, and of who had to decide it; None if this is not a decision."""
    decision: Decision | None = None
    voters: tuple[str, ...] = ()
    """The names of the persons who voted, if the decision was made by votes (several persons, or a group); else empty."""

    def is_own(self, requester: str) -> bool:
        """Whether `requester`, the person who requests the new run, made this decision or voted on it. But False if the person who made
        this decision had also requested the earlier run, which is possible only where callers do not log in."""
        decision = self.decision
        return decision is not None and not decision.own_request and requester in (decision.decided_by, *self.voters)

    @property
    def answer(self) -> Response:
        """The response of the child run, read from `response`."""
        return response_from(bytes(self.response))


def reused_in(operation: Operation) -> Reused:
    """The reused result that a step of sub-type `Reused` has recorded."""
    found = _decoder.decode(operation.result or "{}")
    return msgspec.structs.replace(found, response=found.response.copy())  # copied, because a Raw keeps the whole text in memory


_decoder = json_structs.decoder(Reused)
