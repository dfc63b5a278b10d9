"""Who may decide a question, and whether a decision is allowed.

A person may have several names: the one that decisions are recorded under, and the ids of the person's credentials. Approvers are names of
persons, of groups, or of credentials.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.contract.checking import told_of
from holdfast.hosts.evaluator.schema_check import problems_now
from holdfast.model.credentials import Credential
from holdfast.workers.approvals import VERDICTS, Approval, ApprovalRefused, ApproverRefused, Decision, arguments_hash
from holdfast.workers.demands import persons_in
from holdfast.workers.run_lookup import Caller


class Person(msgspec.Struct, frozen=True):
    """A person who decides, with every name that the person has."""

    name: str
    """The name that the decision is recorded under."""
    names: frozenset[str]

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether one of these names belongs to the person."""
        return not self.names.isdisjoint(names)


def person_of(caller: Caller, decided_by: str, credentials: Iterable[Credential]) -> Person:
    """The person who decides. If the caller logged in, it is the person of the login, and `decided_by` is ignored. If not, it is
    `decided_by`. `credentials` are all credentials of the store; the ids of the person's own ones become further names of the person."""
    if not caller.logged_in:
        return Person(decided_by, frozenset({decided_by}))
    own = {one.id for one in credentials if one.person is not None and one.person == caller.principal}
    return Person(caller.principal, frozenset({caller.principal, *own, *([] if caller.credential is None else [caller.credential])}))


def may_decide(approval: Approval) -> frozenset[str] | None:
    """The names of the persons who may decide now: the approvers, and the members of the demanded group. None if no approvers are named,
    even if a group is demanded: every person whose role allows it may decide."""
    if not approval.approvers:
        return None
    return persons_in(_named(approval), approval.groups)


def _named(approval: Approval) -> list[str]:
    """The approvers and the demanded group, by the names with which the author and the operator name them."""
    return list(dict.fromkeys([*approval.approvers, *([] if approval.group is None else [approval.group])]))


def check_person(approval: Approval, person: Person, *, logged_in: bool) -> None:
    """Raise ApproverRefused if the person is not among those who may decide (`may_decide`). With `logged_in` (the person logged in), also
    raise it if the person made the request."""
    able = may_decide(approval)
    if able is not None and not person.is_among(able):
        raise ApproverRefused(f"{person.name} is not among those who may decide this: {', '.join(_named(approval))}.")
    if logged_in and person.is_among((approval.requested_by,)):
        raise ApproverRefused(f"{person.name} asked for this; another person must decide it.")


def checked(approval: Approval, decision: Decision, person: Person, *, logged_in: bool) -> Decision:
    """The decision in the form in which it is written. Raises ApprovalRefused if the decision is not allowed, or if its value does not fit
    the approval's schema. Raises CheckTooCostly if the check against the schema takes too long, and Overloaded if too many checks wait: the
    schema may come from a worker that is not trusted."""
    allowed = VERDICTS[approval.kind]
    if decision.verdict not in allowed:
        raise ApprovalRefused(f"The verdict on this approval must be {' or '.join(sorted(allowed))}, not {decision.verdict!r:.50}.")
    check_person(approval, person, logged_in=logged_in)
    edited = decision.edited_arguments
    if edited is not None and (approval.kind != "approve" or decision.verdict != "approve"):
        raise ApprovalRefused("Only the verdict `approve` can have edited arguments.")
    if edited is not None or decision.verdict == "answer":
        _check_fits(approval.schema, edited if edited is not None else decision.result, approval.requested_by)
    hashed = None if edited is None else arguments_hash(edited)
    own = person.is_among((approval.requested_by,))
    return msgspec.structs.replace(decision, decided_by=person.name, edited_sha256=hashed, own_request=own)


def _check_fits(schema: dict[str, Any] | None, value: Any, who: str) -> None:
    if schema is None:
        return
    problems = problems_now(schema, value, who)
    if problems:
        raise ApprovalRefused(f"The given value does not fit the schema: {told_of(problems)}.")
