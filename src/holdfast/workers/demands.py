"""Who must decide a question: what the author demands, and what the operator demands in addition. Nothing here reads or writes a store.

The members of a group are copied into the question when it is asked. A later change of the group does not change that question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.workers.approvals import ChainPart
from holdfast.workers.policy import Policy, Risk

MOST_VOTES: Final = 20
"""The most approving votes that a question may need."""


def persons_in(names: Iterable[str], groups: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """The persons whom these names stand for: the name of a group in `groups` stands for its members, any other name for one person."""
    return frozenset(person for name in names for person in groups.get(name, (name,)))


def members_in(policy: Policy, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Those of these names that are groups, each with the members that the operator's settings give it now."""
    return {name: tuple(policy.groups[name]) for name in names if name in policy.groups}


def demands_of(
    policy: Policy, *, approvers: tuple[str, ...] = (), votes: int = 1, risk: Risk | None = None, then: tuple[ChainPart, ...] = ()
) -> dict[str, Any]:
    """The fields of a `Requested` that say who must decide: the author's demands (the other arguments), and those that the operator's
    `policy` adds for this risk. Without `approvers`, the operator's approvers are used."""
    rule = None if risk is None else policy.risks.get(risk)
    named = approvers or policy.approvers
    group = None if rule is None else rule.group
    demands: dict[str, Any] = {"approvers": named, "votes": votes, "risk": risk, "then": then, "group": group}
    demands["groups"] = members_in(policy, [*named, *([] if group is None else [group])])
    if rule is not None:
        demands |= {"votes": max(votes, rule.votes), "batch": rule.batch, "links": rule.links}
    return demands


def shortage(policy: Policy, demands: Mapping[str, Any], requested_by: str, holders: Mapping[str, str]) -> str | None:
    """Why a question with these demands (`demands_of`) can never be approved; None if no reason is found.

    A caller who logged in and asked for the run does not count as an approver. `holders` has the person of each credential, by the
    credential's id: a person who is listed both by name and by a credential counts once.
    """
    members = [] if demands["group"] is None else [demands["group"]]
    later = [name for part in demands["then"] for name in part.approvers]
    groups = demands["groups"] | members_in(policy, later)
    caller = None if _is_local(requested_by) else holders.get(requested_by, requested_by)
    own = f" {caller} asked for it, and may not decide it."

    def able(names: Iterable[str]) -> tuple[set[str], str]:
        persons = {holders.get(name, name) for name in persons_in(names, groups)}
        return persons - {caller}, own if caller in persons else ""

    if members and not (counted := able(members))[0]:
        return f"A member of {demands['group']} must approve, and no member may decide.{counted[1]}"
    if not demands["approvers"]:
        return None
    persons, left_out = able([*demands["approvers"], *later, *members])
    if len(persons) >= demands["votes"]:
        return None
    must = "1 person" if demands["votes"] == 1 else f"{demands['votes']} persons"
    many = "1 person" if len(persons) == 1 else f"{len(persons)} persons"
    return f"{must} must approve, and only {many} may decide: {', '.join(sorted(persons)) or 'none'}.{left_out}"


def _is_local(requested_by: str) -> bool:
    """Whether the run was asked for without a login (by `local` or `local:USER`). Such a caller may also decide the run's questions."""
    return requested_by.partition(":")[0] == "local"
