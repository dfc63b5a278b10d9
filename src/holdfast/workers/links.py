"""Signed links: each lets one person decide one approval, once, until it expires. A link is a permission, so it is never logged.

The token of a link is signed with a key that is derived from the store's own key. So every process that uses the store can check a token,
and no other program can make one. The store does not keep links. A link cannot be used any more when its person has decided or voted, or
when the approval is closed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import blake2b
from typing import Final

import msgspec

from holdfast.model import json_structs
from holdfast.model.credentials import checked_person
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.seal import Seal
from holdfast.workers.approvals import Approval, ApprovalRefused
from holdfast.workers.deciders import check_person, person_of
from holdfast.workers.decisions import DecisionStore
from holdfast.workers.run_lookup import Caller, find_approval

PATH: Final = "/v1/links/"
"""The beginning of the path at which a server shows the page of a link. The token is the rest of the path."""
DEFAULT_SECONDS: Final = 2 * 86_400
MOST_SECONDS: Final = 30 * 86_400
_PURPOSE: Final = b"approval-link"
_PREFIX: Final = "hf_"
"""Tokens of links have the same beginning as tokens of callers, so that the audit log removes both (model.audit.bounded)."""
_MAC_BYTES: Final = 24
_LONGEST: Final = 1024


class LinkInvalid(Rejected):
    """The link was not made by this store, or it was changed."""

    code = "link_invalid"


class LinkExpired(Rejected):
    """The link has expired."""

    code = "link_expired"


class Link(msgspec.Struct, frozen=True, array_like=True):
    """The content of a link."""

    approval_id: str
    person: str
    expires_at: int
    made_by: str
    """Who made the link: a person, a credential, or a user of the machine."""


class MadeLink(msgspec.Struct, frozen=True, kw_only=True):
    """A new link."""

    approval_id: str
    person: str
    expires_at: int
    path: str
    """The path with the token. It is secret: anyone who opens it may decide."""


_links = json_structs.decoder(Link)


def token_of(seal: Seal, link: Link) -> str:
    """The signed token of a link."""
    raw = msgspec.json.encode(link)
    return _PREFIX + _text(_mac(seal, raw) + raw)


def link_of(seal: Seal, token: str, now: int) -> Link:
    """The link in a token. Raises LinkInvalid if this store did not sign the token, and LinkExpired if the link has expired."""
    given = token.removeprefix(_PREFIX)
    try:
        sealed = base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True) if len(token) <= _LONGEST else b""
    except (binascii.Error, ValueError):
        sealed = b""
    mac, raw = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
    if not raw or _PREFIX + _text(sealed) != token or not hmac.compare_digest(mac, _mac(seal, raw)):
        raise LinkInvalid("This link is not valid. Open it exactly as you got it, or ask for a new one.")
    link = _links.decode(raw)
    if link.expires_at <= now:
        raise LinkExpired("This link has expired. Ask for a new one.")
    return link


def make_link(store: DecisionStore, approval_id: str, person: str, caller: Caller, now: int, seconds: int = DEFAULT_SECONDS) -> MadeLink:
    """Make a link for a person who may decide the approval. The link expires after `seconds`, or when the approval expires, if that is
    earlier. The audit log records who made the link and for whom (not if `caller.actor` is None). Raises ApprovalRefused if no link may be
    made for this approval, or if this person may not decide it. Raises InvalidParameter if `person` is not a valid name, or if `seconds` is
    too small or too large. Raises ApprovalNotFound if the caller can see no such approval."""
    name = checked_person(person) or ""
    if not 1 <= seconds <= MOST_SECONDS:
        raise InvalidParameter(f"A link may be valid for 1 second to {MOST_SECONDS // 86_400} days, not for {seconds} seconds.")
    approval = find_approval(store, approval_id, caller)
    check_linkable(approval)
    check_person(approval, person_of(holder(name), name, store.credentials()), logged_in=True)
    expires_at = min(now + seconds * 1000, approval.expires_at or now + seconds * 1000)
    who = caller.principal if caller.actor is None else caller.actor.who
    token = token_of(store.seal, Link(approval_id, name, expires_at, who))
    store.note(caller.did("link", approval_id, f"made for {name}", now))
    return MadeLink(approval_id=approval_id, person=name, expires_at=expires_at, path=f"{PATH}{token}")


def check_linkable(approval: Approval) -> None:
    """Raise ApprovalRefused if no link may be made for the approval: it is closed, it is about a call of unknown outcome, or the operator
    allows no links for its risk."""
    if approval.state != "open":
        raise ApprovalRefused(f"{approval.approval_id} is closed already: {approval.state}.")
    if approval.kind == "unknown_outcome":
        raise ApprovalRefused("A link cannot settle a call of unknown outcome; that needs the role settler.")
    if not approval.links:
        raise ApprovalRefused(f"{approval.approval_id} has the risk {approval.risk}, for which the operator allows no links.")


def holder(person: str) -> Caller:
    """The person of a link as an Caller that counts as logged in: the signature of the link replaces a login. The caller of this function
    must check that the link is used only for its own approval."""
    return Caller(principal=person, logged_in=True, everywhere=True)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _mac(seal: Seal, raw: bytes) -> bytes:
    return blake2b(raw, digest_size=_MAC_BYTES, key=seal.derived(_PURPOSE)).digest()
