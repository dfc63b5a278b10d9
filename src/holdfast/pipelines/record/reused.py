"""Reused results: what an earlier run of a restarted pipeline gave, recorded in the new run.

The record is complete: a later restart and a replay do not read the earlier run, which retention may have removed.
"""

from __future__ import annotations

import msgspec

from holdfast.contract.protocol import Response, response_from
from holdfast.model import json_structs
from holdfast.model.operations import Operation
from holdfast.workers.approvals import Decision
from holdfast.workers.run import text_of


class Reused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result of an earlier run: a response, a person's decision, or a wait that is over."""

    of: str
    """The id of the pipeline's run from which it was taken."""
    run_id: str = ""
    """The child run that gave the response."""
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
    """The index of a map's item."""
    round: int = 1
    response: msgspec.Raw = msgspec.Raw(b"null")
    asked: str | None = None
    """The hash of what a person was asked, and of who had to decide it."""
    decision: Decision | None = None
    voters: tuple[str, ...] = ()
    """The persons who voted, if several had to decide."""

    def is_own(self, requester: str) -> bool:
        """Whether the person who requests the new run made this decision, about a request that was another person's then. On a server
        without logins a person may decide about their own request, so the result is False there."""
        decision = self.decision
        return decision is not None and not decision.own_request and requester in (decision.decided_by, *self.voters)

    @property
    def answer(self) -> Response:
        """The response of the child run."""
        return response_from(bytes(self.response))


def raw_of(response: Response) -> msgspec.Raw:
    """A response as a record holds it."""
    return msgspec.Raw(text_of(response).encode())


def reused_text(reused: Reused) -> str:
    """A reused result as the text that the journal keeps."""
    return msgspec.json.encode(reused).decode()


def reused_in(operation: Operation) -> Reused:
    """The record that an operation of sub-type `Reused` holds."""
    found = _decoder.decode(operation.result or "{}")
    return msgspec.structs.replace(found, response=found.response.copy())  # a Raw is a view of the whole text


_decoder = json_structs.decoder(Reused)
