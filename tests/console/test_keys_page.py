"""Keys: a token is shown once and in no address, revoking one ends its sessions, and only an admin of all tenants gets there."""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.audit import NoteFilter
from holdfast.model.credentials import Role
from tests.console.scene import Browser, Scene, client_of, plain
from tests.surface.auth_server import token

_TOKEN = re.compile(r"hf_[A-Za-z0-9_-]{20,}")


async def test_a_new_token_is_on_the_page_that_answers_and_nowhere_else(scene: Scene) -> None:
    async with scene.browser("admin") as browser:
        fields: dict[str, Any] = {"role": ["viewer", "operator"], "tenant": "acme", "person": "bob", "days": "30", "note": "rota"}
        answer = await browser.post("keys", **fields, expect=200)
        assert answer.headers["cache-control"] == "no-store"
        assert "location" not in answer.headers
        (secret,) = set(_TOKEN.findall(answer.text))
        assert secret not in str(answer.url)
        (made,) = [one for one in scene.store.credentials() if one.tenant == "acme"]
        assert (made.roles, made.person, made.note) == ((Role.OPERATOR, Role.VIEWER), "bob", "rota")
        assert made.expires_at == made.created_at + 30 * 86_400_000
        page = (await browser.get("keys")).text
        assert made.id in page
        assert secret not in page
        assert made.secret not in page
        notes = [one.note.outcome for one in scene.store.audit(NoteFilter(what="create key"))]
        assert notes == ["made: operator, viewer of tenant acme, for bob"]
    async with scene.app() as app, client_of(app) as client:
        await (await Browser(client).log_in(secret)).get("queues")


async def test_a_form_with_a_mistake_is_shown_again_and_makes_nothing(scene: Scene) -> None:
    async with scene.browser("admin") as browser:
        before = scene.store.credentials()
        for fields, told in (
            ({}, "needs a role"),
            ({"role": "king"}, "no role"),
            ({"role": "viewer", "days": "0"}, "1 to 36500 days"),
            ({"role": "viewer", "days": "soon"}, "not a whole number"),
            ({"role": "viewer", "person": "hft-x"}, "Person"),
            ({"role": "viewer", "tenant": '"><script>'}, "Tenant"),
        ):
            answer = await browser.post("keys", **fields, expect=422)
            assert told in plain(answer.text)
            assert "<script>" not in answer.text
        assert scene.store.credentials() == before


async def test_revoking_asks_first_removes_the_sessions_and_is_noted(scene: Scene) -> None:
    issued = token(scene.store, "viewer", now=scene.clock.now())
    name = issued.credential.id
    async with scene.browser("admin") as browser, scene.app() as app, client_of(app) as client:
        other = await Browser(client).log_in(issued.secret)
        await other.get("queues")
        assert "cannot be undone" in await browser.text(f"keys/{name}")
        assert name in {one.id for one in scene.store.credentials()}
        await browser.post(f"keys/{name}/revoke")
        assert name not in {one.id for one in scene.store.credentials()}
        assert scene.store.remove_sessions(name) == 0
        assert [one.note.on for one in scene.store.audit(NoteFilter(what="revoke key"))] == [name]
        await browser.post(f"keys/{name}/revoke", expect=404)
        await browser.get(f"keys/{name}", expect=404)


async def test_a_person_is_assigned(scene: Scene) -> None:
    issued = token(scene.store, "viewer", now=scene.clock.now())
    async with scene.browser("admin") as browser:
        await browser.post(f"keys/{issued.credential.id}/assign", person="carol")
        assert "carol" in await browser.text("keys")
        answer = await browser.post(f"keys/{issued.credential.id}/assign", person="hft-x", expect=422)
        assert "is not allowed" in plain(answer.text)
        assert [one.note.outcome for one in scene.store.audit(NoteFilter(what="assign key"))] == [
            "held by carol, before by no named person"
        ]


async def test_only_an_admin_of_all_tenants_sees_keys(scene: Scene) -> None:
    for roles, tenant in ((["operator", "approver", "settler"], None), (["admin"], "acme")):
        async with scene.browser(*roles, tenant=tenant) as browser:
            before = scene.store.credentials()
            await browser.get("keys", expect=403)
            await browser.post("keys", role="admin", expect=403)
            assert scene.store.credentials() == before


async def test_a_server_without_credentials_says_that_it_asks_for_none(scene: Scene) -> None:
    async with scene.browser() as browser:
        assert "There are no credentials" in await browser.text("keys")
        await browser.post("keys", role="admin", expect=200)
        assert "was started without credentials" in await browser.text("keys")
