"""Who may see and do what: every route of the console, for every role, for another tenant, and for a stranger."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.console.console import Console
from holdfast.console.page_errors import PAGES
from holdfast.model.credentials import Role
from holdfast.model.ids import id_at
from holdfast.web.auth.gate import open_gate
from holdfast.web.policy import Needs, Reach, Waits, may
from holdfast.web.routing import Route
from tests.console.scene import Browser, Scene, client_of, plain
from tests.surface.auth_server import BASE, bearer, token

SECRET = "only-acme-may-read-this"
_GROUP = re.compile(r"\((?:\[\^/\]\+|\.\+|\[[^\]]+\][+*](?:\{\d+,\d+\})?)\)")
PUBLIC = {"ConsoleFile", "ConsolePlace", "ShowLogin", "LogIn", "LogOut"}
"""The routes that need no login. They tell nothing of any execution."""


def routes(scene: Scene, *, read_only: bool = False) -> list[Route]:
    """All routes of the console."""
    gate = open_gate(scene.store, host="127.0.0.1", clock=scene.clock)
    return list(Console(scene.store, scene.where, gate, clock=scene.clock, ids=id_at, read_only=read_only).routes())


def sent(route: Route, run: str) -> str:
    """The path of a route, with a run of the tenant acme wherever the route takes a name."""
    path = _GROUP.sub(run, route.path).replace(".*", "no-such-page")
    assert "(" not in path, f"{route.path}: this test does not know how to fill it in"
    return path


def test_only_the_login_and_the_files_need_no_role_and_every_page_takes_the_session(scene: Scene) -> None:
    assert {route.policy.operation for route in routes(scene) if route.policy.needs is Needs.NOTHING} == PUBLIC
    assert {route.policy.operation for route in routes(scene) if not route.policy.session} == PUBLIC


def test_every_error_of_the_console_is_a_page(scene: Scene) -> None:
    assert {route.group for route in routes(scene)} == {PAGES}


def test_what_changes_something_is_a_post_and_a_console_that_is_read_only_has_none(scene: Scene) -> None:
    acting = {route.policy.operation for route in routes(scene) if route.method != "GET"}
    assert acting - PUBLIC
    assert {route.policy.operation for route in routes(scene, read_only=True) if route.method != "GET"} <= PUBLIC


def test_what_is_for_all_tenants_is_refused_to_a_tenant(scene: Scene) -> None:
    wide = {route.policy.operation for route in routes(scene) if route.policy.needs in (Needs.ADMINISTER, Needs.DEPLOY)}
    assert {route.policy.reach for route in routes(scene) if route.policy.operation in wide} <= {Reach.NONE}


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(scene.app())
        yield await stack.enter_async_context(client_of(app))


async def asked(client: httpx.AsyncClient, route: Route, path: str, headers: dict[str, str]) -> httpx.Response:
    if route.method == "GET":
        return await client.get(path, headers=headers)
    return await client.post(path, headers={**headers, "Origin": BASE}, content=b"")


async def test_a_stranger_sees_the_login_and_nothing_else(scene: Scene) -> None:
    run = scene.start("order", {"secret": SECRET}, tenant="acme", name=SECRET)
    token(scene.store, "admin", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        for route in routes(scene):
            if route.policy.operation in PUBLIC:
                continue
            answer = await asked(client, route, sent(route, run.id), {})
            told = (route.method, route.path, answer.status_code)
            assert answer.status_code == (303 if route.method == "GET" else 401), told
            assert "login" in answer.headers.get("location", "login"), told
            assert SECRET not in answer.text, told


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_reaches_what_its_policy_says_and_no_more(scene: Scene, role: Role) -> None:
    run = scene.start("order", {"secret": SECRET}, tenant="acme", name=SECRET)
    admitted = bearer(token(scene.store, role.value, now=scene.clock.now()))
    async with scene.app() as app, client_of(app) as client:
        for route in routes(scene):
            if route.policy.operation in PUBLIC or route.policy.waits is Waits.STREAM:
                continue
            answer = await asked(client, route, sent(route, run.id), admitted)
            refused = answer.status_code == 403 and "needs the role" in plain(answer.text)
            assert refused is not may([role], route.policy.needs), (route.method, route.path, answer.status_code, plain(answer.text)[:300])
            assert answer.status_code != 500, (route.method, route.path, plain(answer.text)[:300])


@pytest.mark.parametrize("role", list(Role))
async def test_another_tenant_learns_nothing_whatever_its_role(scene: Scene, role: Role) -> None:
    run = scene.start("order", {"secret": SECRET}, tenant="acme", name=SECRET)
    admitted = bearer(token(scene.store, role.value, now=scene.clock.now(), tenant="rival"))
    before = scene.store.find(run.id)
    async with scene.app() as app, client_of(app) as client:
        for route in routes(scene):
            if route.policy.waits is Waits.STREAM:
                continue
            answer = await asked(client, route, sent(route, run.id), admitted)
            assert SECRET not in answer.text, (route.method, route.path)
            assert answer.status_code != 500, (route.method, route.path, plain(answer.text)[:300])
            if sent(route, run.id).startswith((f"/console/runs/{run.id}", f"/console/approvals/{run.id}")) and route.method == "GET":
                assert answer.status_code in (403, 404), (route.method, route.path, answer.status_code, plain(answer.text)[:300])
    assert scene.store.find(run.id) == before


# --- forms


async def test_a_form_without_the_token_of_its_session_changes_nothing(scene: Scene) -> None:
    async with scene.browser("admin") as browser:
        for wrong in ("", "x", "ü"):
            answer = await browser.post("runs/-/views", csrf=wrong, name="mine", q="status:failed", expect=403)
            assert "too old" in plain(answer.text)
        assert "mine" not in await browser.text("runs")
        await browser.post("runs/-/views", name="mine", q="status:failed")
        assert "mine" in await browser.text("runs")


async def test_a_form_of_another_site_is_refused_even_with_the_token(scene: Scene) -> None:
    async with scene.browser("admin") as browser:
        fields = {"csrf": await browser.csrf(), "name": "mine", "q": ""}
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = await browser.client.post("/console/runs/-/views", data=fields, headers=headers)
            assert answer.status_code == 403


async def test_without_credentials_forms_need_a_token_of_this_server_too(scene: Scene) -> None:
    async with scene.browser() as browser:
        await browser.post("runs/-/views", csrf="x", name="mine", q="", expect=403)
        await browser.post("runs/-/views", name="mine", q="")


# --- headers


async def test_no_page_can_be_framed_cached_or_run_scripts_of_others(scene: Scene) -> None:
    async with scene.browser("admin") as browser:
        nonces = set()
        for path in ("runs", "login", "no-such-page"):
            answer = await browser.client.get(f"/console/{path}")
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            nonces.update(re.findall(r"'nonce-([^']+)'", policy))
        again = await browser.get("runs")
        assert not nonces & set(re.findall(r"'nonce-([^']+)'", again.headers["content-security-policy"]))


async def test_no_answer_of_any_route_can_be_framed_guessed_or_kept(scene: Scene) -> None:
    run = scene.start("order", {"text": "<script>"}, name="first")
    async with scene.browser("admin") as browser:
        for route in routes(scene):
            if route.method != "GET" or route.policy.waits is Waits.STREAM or route.policy.operation in ("ConsoleFile", "ConsolePlace"):
                continue
            answer = await browser.client.get(sent(route, run.id))
            told = (route.path, answer.status_code)
            assert answer.headers["x-content-type-options"] == "nosniff", told
            assert answer.headers["cache-control"] == "no-store", told
            policy = answer.headers.get("content-security-policy", "")
            assert "frame-ancestors 'none'" in policy or answer.headers.get("x-frame-options") == "DENY", told


async def test_no_template_has_a_style_attribute_or_an_inline_script(root: object) -> None:
    from pathlib import Path

    folder = Path(str(root)) / "src/holdfast/console/templates"
    for template in folder.glob("**/*.html"):
        text = template.read_text()
        assert not re.search(r"\sstyle\s*=", text), template.name
        assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>", text), template.name
        assert not re.search(r"\s(on\w+|hx-on[^=\s]*)\s*=", text), template.name
        assert "|safe" not in text.replace(" ", ""), template.name


# --- sessions


async def test_a_session_begins_with_a_token_and_ends_with_the_log_out(scene: Scene) -> None:
    async with scene.browser("viewer") as browser:
        cookie = browser.client.cookies["holdfast_session"]
        assert cookie not in scene.where
        await browser.get("runs")
        await browser.client.post("/console/logout", headers={"Origin": BASE})
        browser.client.cookies.set("holdfast_session", cookie)
        await browser.get("runs", expect=303)


async def test_a_session_ends_with_its_credential(scene: Scene) -> None:
    issued = token(scene.store, "viewer", now=scene.clock.now())
    token(scene.store, "admin", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        browser = await Browser(client).log_in(issued.secret)
        await browser.get("runs")
        scene.store.remove_credential(issued.credential.id)
    async with scene.app() as app, client_of(app) as again:  # a server reads its credentials again after a second; a new one reads now
        again.cookies.set("holdfast_session", client.cookies["holdfast_session"])
        answer = await again.get("/console/runs")
        assert answer.status_code == 303


async def test_the_cookie_is_out_of_reach_for_scripts_and_for_other_sites(scene: Scene) -> None:
    issued = token(scene.store, "viewer", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        answer = await client.post("/console/login", data={"token": issued.secret}, headers={"Origin": BASE})
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert issued.secret not in cookie


async def test_a_wrong_token_is_told_and_too_many_tries_are_refused(scene: Scene) -> None:
    token(scene.store, "viewer", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        said = [await client.post("/console/login", data={"token": "hf_wrong"}, headers={"Origin": BASE}) for _ in range(11)]
        assert [answer.status_code for answer in said] == [401] * 10 + [429]
        assert "This server does not know the token" in plain(said[0].text)
        assert "hf_wrong" not in said[0].text


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "\\\\evil.example", "../../v1/workers", "javascript:alert(1)", "/etc"]
)
async def test_after_the_login_a_person_comes_to_a_page_of_the_console_only(scene: Scene, to: str) -> None:
    issued = token(scene.store, "viewer", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        answer = await client.post("/console/login", data={"token": issued.secret, "next": to}, headers={"Origin": BASE})
        assert answer.headers["location"] == "./"


async def test_behind_a_proxy_with_a_path_of_its_own_all_addresses_still_fit(scene: Scene) -> None:
    """All addresses are relative, so nothing needs to know the path that the proxy adds."""
    run = scene.start("order", name="first")
    async with scene.browser() as browser:
        for path in ("runs", "", f"runs/{run.id}"):
            page = (await browser.get(path)).text
            assert not re.findall(r'(?:href|src|action|hx-get|hx-post)="(/[^"]*)"', page), path


@pytest.mark.parametrize(
    "shown, root",
    [
        (f"{BASE}/console/runs?q=", "./"),
        ("https://ops.example/holdfast/console/runs/x", "../"),
        ("https://ops.example/" + "a/" * 10_000, "../../"),
        ("http://[", "../../"),
    ],
)
async def test_links_in_a_part_of_a_page_begin_at_the_page_that_the_browser_shows(scene: Scene, shown: str, root: str) -> None:
    run = scene.start("order", name="first")
    async with scene.browser() as browser:
        part = await browser.get("runs/-/rows", headers={"HX-Request": "true", "HX-Current-URL": shown})
        assert f'href="{root}runs/{run.id}"' in part.text
