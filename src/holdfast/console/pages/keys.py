"""Keys: the credentials of the server's callers. A new token is shown once, on the page that follows the form. A token is never part of an
address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages, missing_is_no_page, part_of_path
from holdfast.console.site import redirect
from holdfast.console.sources.keys import KeyNotFound, TokenAsked
from holdfast.console.tables import (
    MOST_ROWS,
    NOTHING,
    Actions,
    Age,
    Button,
    Cell,
    Chips,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Pile,
    StatusMark,
    Table,
    TextCell,
    Until,
)
from holdfast.model.credentials import Credential, Role
from holdfast.model.errors import InvalidParameter
from holdfast.web.auth.keys import Issued
from holdfast.web.identity import WITHOUT_CREDENTIAL
from holdfast.web.policy import Needs, Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = "Who may use this server. The console makes tokens; `holdfast keys create` also makes access keys for AWS's clients."
_HOLDS = "Who holds it. In approvals, all keys of one person count as one person."
_OPEN = "This server was started without credentials, so it asks for none until it is started again."
_ROLES: Final = {
    Role.VIEWER: "viewer: look",
    Role.OPERATOR: "operator: start and stop",
    Role.APPROVER: "approver: decide",
    Role.SETTLER: "settler: settle unknown calls",
    Role.ADMIN: "admin: everything",
}
_ID: Final = "keys/([^/]+)"


class KeysPages(TablePages):
    """The pages of credentials. Only callers who may administer all tenants can open them."""

    def routes(self) -> list[Route]:
        site = self._site
        who: dict[str, Any] = {"needs": Needs.ADMINISTER, "reach": Reach.NONE}
        return [
            site.page("keys", self.list, "ListKeysPage", **who),
            site.page(_ID, self.show, "ShowKeyPage", **who),
            *site.action("keys", self.make, "MakeKeyPage", **who),
            *site.action(f"{_ID}/revoke", self.revoke, "RevokeKeyPage", **who),
            *site.action(f"{_ID}/assign", self.assign, "AssignKeyPage", **who),
        ]

    def list(self, request: PageRequest) -> Reply:
        """The page with the credentials, at most MOST_ROWS, and with the form for a new token."""
        return self._page(request)

    def make(self, request: PageRequest) -> Reply:
        """Make a token and show it this one time. If a field is wrong, the form is shown again with what is wrong."""
        asked = TokenAsked(
            roles=request.chosen.get("role", ()),
            **{name: request.field(name) for name in ("tenant", "person", "note", "days")},
        )
        try:
            issued = request.source.keys.make(asked)
        except InvalidParameter as wrong:
            return self._page(request, asked, str(wrong))
        return self._tables(request, _made(request, issued))

    @missing_is_no_page(KeyNotFound)
    def show(self, request: PageRequest) -> Reply:
        """The page of one credential, with a form that assigns it to a person and a form that revokes it."""
        return self._credential(request)

    @missing_is_no_page(KeyNotFound)
    def revoke(self, request: PageRequest) -> Reply:
        """Remove a credential, and end the sessions that began with it."""
        request.source.keys.revoke(request.label)
        return redirect(request, "keys")

    @missing_is_no_page(KeyNotFound)
    def assign(self, request: PageRequest) -> Reply:
        """Record which person holds a credential. If the name of the person is not valid, nothing is recorded, and the page says what is
        wrong."""
        try:
            request.source.keys.assign(request.label, request.field("person"))
        except InvalidParameter as wrong:
            return self._credential(request, str(wrong))
        return redirect(request, "keys")

    def _credential(self, request: PageRequest, problem: str = "") -> Reply:
        found = request.source.keys.find(request.label)
        own = found.id == request.http.identity.name
        note = "The server refuses it within about a second, and every browser that logged in with it is logged out. This cannot be undone."
        person = ConsoleField(
            name="person", label="Person", value=request.field("person") or found.person or "", required=True, hint=_HOLDS
        )
        held = ConsoleForm(to=f"keys/{found.id}/assign", fields=(person,), submit="Assign", needs="administer", style="")
        gone = ConsoleForm(to=f"keys/{found.id}/revoke", submit="Revoke", needs="administer", style="danger", back="keys")
        page = ConsolePage(
            title=found.id,
            path=f"keys/{found.id}",
            above=(("Keys", "keys"),),
            notice="You are logged in with this credential: if you revoke it, you lose your access." if own else "",
            problem=problem,
            sections=(
                ConsoleSection(id="facts", facts=_facts(found, request.now)),
                ConsoleSection(id="held", title="Held by", form=held),
                ConsoleSection(id="revoke", title="Revoke", note=note, form=gone),
            ),
        )
        return self._tables(request, page)

    def _page(self, request: PageRequest, asked: TokenAsked | None = None, problem: str = "") -> Reply:
        found = request.source.keys.all()
        page = ConsolePage(
            title="Keys",
            path="keys",
            lead=_LEAD,
            notice=_OPEN if request.http.identity == WITHOUT_CREDENTIAL and found else "",
            problem=problem,
            sections=(ConsoleSection(id="keys", table=_table(found, request)), _new(asked or TokenAsked())),
        )
        return self._tables(request, page)


def _table(found: Sequence[Credential], request: PageRequest) -> Table:
    columns = ("Credential", "Kind", "Roles", "Tenant", "Person", "Note", "Made", "Expires", "")
    rows = tuple(
        (
            _named(one, request),
            TextCell(one.kind.value, muted=True),
            Chips(tuple(role.value for role in one.roles)),
            TextCell("all tenants", muted=True) if one.tenant is None else TextCell(one.tenant),
            NOTHING if one.person is None else TextCell(one.person),
            TextCell(one.note, muted=True),
            Age(one.created_at),
            _end(one, request.now),
            Actions((Button(label="Assign, revoke…", to=f"keys/{one.id}", needs="administer", is_link=True),)),
        )
        for one in found[:MOST_ROWS]
    )
    return Table(
        columns=tuple(map(Column, columns)),
        rows=rows,
        empty="There are no credentials.",
        hint="Without any, the server serves only users of its own machine.",
        cut=f"The first {MOST_ROWS} of {len(found):,}." if len(found) > MOST_ROWS else "",
    )


def _named(one: Credential, request: PageRequest) -> Cell:
    link = LinkCell(one.id, f"keys/{part_of_path(one.id)}", mono=True)
    return Pile((link, TextCell("you are logged in with it", muted=True))) if one.id == request.http.identity.name else link


def _end(one: Credential, now: int) -> Cell:
    if one.expires_at is None:
        return TextCell("never", muted=True)
    return StatusMark("failed", "expired") if one.is_expired(now) else Until(one.expires_at)


def _new(asked: TokenAsked) -> ConsoleSection:
    roles = ConsoleField(
        name="role", label="Roles", type="checks", options=tuple((role.value, text) for role, text in _ROLES.items()), chosen=asked.roles
    )
    texts = (
        ConsoleField(
            name="tenant", label="Tenant", value=asked.tenant, hint="It sees and starts only executions of this tenant. Empty: all tenants."
        ),
        ConsoleField(name="person", label="Person", value=asked.person, hint=_HOLDS),
        ConsoleField(name="days", label="Days", value=asked.days, type="number", hint="How long it is valid. Empty: until it is revoked."),
        ConsoleField(name="note", label="Note", value=asked.note, hint="For people, such as what it is for."),
    )
    form = ConsoleForm(to="keys", fields=(roles, *texts), submit="Make token", needs="administer")
    return ConsoleSection(id="new", title="New token", form=form)


def _made(request: PageRequest, issued: Issued) -> ConsolePage:
    note = "Copy it now: it is shown this once, and the store keeps only its hash."
    section = ConsoleSection(id="made", note=note, secret=issued.secret, facts=_facts(issued.credential, request.now))
    back = Button(label="To all keys", to="keys", is_link=True, style="")
    return ConsolePage(title="New token", path="keys", above=(("Keys", "keys"),), buttons=(back,), sections=(section,))


def _facts(one: Credential, now: int) -> tuple[tuple[str, Cell], ...]:
    return (
        ("Credential", TextCell(one.id, mono=True)),
        ("Roles", Chips(tuple(role.value for role in one.roles))),
        ("Tenant", TextCell(one.tenant or "all tenants")),
        ("Person", NOTHING if one.person is None else TextCell(one.person)),
        ("Expires", _end(one, now)),
        ("Note", TextCell(one.note) if one.note else NOTHING),
        ("What it did", LinkCell("Audit log", f"audit?who={part_of_path(one.id)}")),
    )
