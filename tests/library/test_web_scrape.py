"""web-scrape-worker against real servers: what a page gives, and what is told when it does not."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.testing import worker_kit
from holdfast.workers.tools.seam import ToolFailed
from tests.library.scene import local, ran, working
from tests.tools.servers import Asked, Site, head, site

WORKER = "web-scrape-worker"
PRODUCT = """<!doctype html><html lang=de><title>Tee</title><h1>Sencha</h1><p class=price>1.234,50 €</p>
<ul><li><a href="/a">A</a><li><a href="b">B</a></ul>"""
SPEC = {
    "fields": {
        "name": {"css": "h1", "required": True},
        "price": {"css": ".price", "type": "price", "required": True},
        "links": {"css": "li", "list": True, "fields": {"to": {"css": "a", "attribute": "href", "type": "url"}}},
        "stock": {"css": ".stock"},
    }
}


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as here:
        yield here


async def scraped(
    web: Site, path: str, spec: dict[str, Any] | None = None, *, more: dict[str, Any] | None = None, **fetch: Any
) -> dict[str, Any]:
    """One run, its body in a jail."""
    async with working(WORKER, fetch=local(**fetch)) as engine:
        return await ran(engine, WORKER, {"url": web.url + path, "extraction_spec": spec or SPEC, **(more or {})})


def code(told: dict[str, Any]) -> tuple[str, str | None, int]:
    return told["status"], told["error"] and told["error"]["error_code"], told["observability"]["attempt"]


# --- a page ------------------------------------------------------------------------------------------------------------------


async def test_a_page_gives_data_its_source_and_warnings(web: Site) -> None:
    web.page("/old", status=302, location="/shop/tea")
    web.page("/shop/tea", PRODUCT)
    told = await scraped(web, "/old")
    assert code(told) == ("ok", None, 1)
    assert told["outputs"]["data"] == {
        "name": "Sencha",
        "price": {"amount": "1234.50", "currency": "EUR"},
        "links": [{"to": f"{web.url}/a"}, {"to": f"{web.url}/shop/b"}],
        "stock": None,
    }
    source = told["outputs"]["source"]
    assert (source["url"], source["status"], source["redirects"]) == (f"{web.url}/shop/tea", 200, [f"{web.url}/shop/tea"])
    assert source["sha256"] == hashlib.sha256(PRODUCT.encode()).hexdigest()
    assert source["fetched_at"].startswith("2") and source["fetched_at"].endswith("Z")  # noqa: PT018 - one fact: it is a time
    assert [(warning["code"], warning["field"]) for warning in told["outputs"]["warnings"]] == [("missing_optional_field", "stock")]
    assert told["observability"]["log_fields"].keys() == {"worker_id", "attempt", "duration_ms"}


async def test_the_user_agent_is_sent_and_robots_are_asked_about_it(web: Site) -> None:
    web.page("/robots.txt", "User-agent: ours\nDisallow: /\n\nUser-agent: *\nAllow: /\n", content_type="text/plain")
    web.page("/tea", PRODUCT)
    assert code(await scraped(web, "/tea", more={"user_agent": "theirs/2.0"})) == ("ok", None, 1)
    assert web.asked[-1].headers["user-agent"] == "theirs/2.0"
    assert code(await scraped(web, "/tea", more={"user_agent": "ours/1.0"})) == ("permanent_error", "access_denied", 1)


async def test_a_page_that_is_no_html_is_read_with_a_warning(web: Site) -> None:
    web.page("/tea.json", '{"name": "Sencha"}', content_type="application/json")
    told = await scraped(web, "/tea.json", {"name": {"regex": '"name": "(\\w+)"', "in": "html"}})
    assert told["outputs"]["data"] == {"name": "Sencha"}
    assert [warning["code"] for warning in told["outputs"]["warnings"]] == ["not_html"]


async def test_a_large_result_is_moved_out_and_referred_to(web: Site) -> None:
    web.page("/list", "".join(f"<li>{'x' * 200} {number}" for number in range(900)))
    told = await scraped(web, "/list", {"items": {"css": "li", "list": True}})
    (artifact,) = told["artifacts"]
    assert told["outputs"]["data"] == {"$artifact": artifact}
    assert artifact["size_bytes"] > 64 * 1024
    assert told["outputs"]["source"]["status"] == 200


# --- what goes wrong ---------------------------------------------------------------------------------------------------------


async def test_a_page_that_changed_gives_what_is_left_of_it_with_a_code(web: Site) -> None:
    web.page("/tea", PRODUCT.replace("class=price", "class=cost"))
    told = await scraped(web, "/tea")
    assert code(told) == ("permanent_error", "page_changed", 1)
    assert told["error"]["details"] == {"missing": ["price"]}
    assert told["observability"]["partial"]
    assert (told["outputs"]["data"]["name"], told["outputs"]["data"]["price"]) == ("Sencha", None)
    assert told["outputs"]["source"]["status"] == 200
    assert ("missing_field", "price") in [(warning["code"], warning["field"]) for warning in told["outputs"]["warnings"]]


async def test_robots_and_refusals_are_access_denied_and_not_tried_again(web: Site) -> None:
    web.page("/robots.txt", "User-agent: *\nDisallow: /private\n", content_type="text/plain")
    web.page("/private/tea", PRODUCT)
    web.page("/members", "keep out", status=403)
    assert code(await scraped(web, "/private/tea")) == ("permanent_error", "access_denied", 1)
    assert "/private/tea" not in web.paths()
    assert code(await scraped(web, "/members")) == ("permanent_error", "access_denied", 1)
    assert web.paths().count("/members") == 1


async def test_a_page_that_never_answers_is_a_fetch_timeout_after_two_attempts(web: Site) -> None:
    async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    web.pages["/slow"] = never
    told = await scraped(web, "/slow", silence_seconds=1.0)
    assert code(told) == ("retryable_error", "fetch_timeout", 2)
    assert told["error"]["retryable"]
    assert web.paths().count("/slow") == 2


async def test_a_page_that_drips_is_a_fetch_timeout_too(web: Site) -> None:
    async def drip(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"content-type": "text/html"}))
        while not writer.is_closing():
            writer.write(b"<p>")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.05)

    web.pages["/drip"] = drip
    assert code(await scraped(web, "/drip", timeout_seconds=0.5)) == ("retryable_error", "fetch_timeout", 2)


async def test_a_page_that_answers_the_second_time_is_found_in_the_second_attempt(web: Site) -> None:
    async def moody(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if web.paths().count("/moody") == 1:
            writer.write(head(503, {"retry-after": "1", "content-length": "0"}))
        else:
            writer.write(head(200, {"content-type": "text/html", "content-length": str(len(PRODUCT.encode()))}) + PRODUCT.encode())

    web.pages["/moody"] = moody
    told = await scraped(web, "/moody")
    assert code(told) == ("ok", None, 2)
    assert told["outputs"]["data"]["name"] == "Sencha"


async def test_no_page_is_told_from_a_changed_page(web: Site) -> None:
    web.page("/gone", "<h1>Gone</h1>", status=410)
    for path, status in (("/nothing", 404), ("/gone", 410)):
        told = await scraped(web, path, {"name": "h1"})
        assert code(told) == ("permanent_error", "page_not_found", 1)
        assert (told["outputs"], told["error"]["details"]["source"]["status"]) == (None, status)


async def test_a_spec_that_cannot_be_used_is_an_invalid_request_with_every_place_and_nobody_is_asked(web: Site) -> None:
    spec = {"fields": {"a": "h1[", "b/c": {"any": [{"css": "h1"}, {"regex": "("}]}, "d": {"css": "p", "fields": {"e": {"type": "colour"}}}}}
    told = await scraped(web, "/tea", spec)
    assert code(told) == ("invalid_request", "schema_mismatch", 1)
    assert [problem["path"] for problem in told["error"]["details"]] == [
        "/extraction_spec/fields/a",
        "/extraction_spec/fields/b~1c/any/1",
        "/extraction_spec/fields/d/fields/e",
    ]
    assert all(problem["reason"] for problem in told["error"]["details"])
    assert web.asked == []


async def test_addresses_inside_are_refused_unless_the_operator_opens_them(web: Site) -> None:
    web.page("/tea", PRODUCT)
    web.page("/away", status=302, location="http://169.254.169.254/latest")
    async with working(WORKER) as engine:
        refused = await ran(engine, WORKER, {"url": f"{web.url}/tea", "extraction_spec": SPEC})
    assert code(refused) == ("permanent_error", "egress_denied", 1)
    assert web.asked == []
    assert code(await scraped(web, "/away")) == ("permanent_error", "egress_denied", 1)


# --- hostile pages -----------------------------------------------------------------------------------------------------------

DEEP = "<div>" * 200_000 + "<h1>deep</h1>"
HOSTILE = {
    "deep": DEEP,
    "broken": "<h1>x</h2><table><tr><td><h1>y<![CDATA[</style><p class=price>12 €<svg><math><h1>" + "</b>" * 5000,
    "nul and lone surrogates": "<h1>a\0b&#xD800;&#0;</h1>" + "\ufffe" * 1000,
    "attributes": "<h1 " + " ".join(f"a{number}='{number}'" for number in range(50_000)) + ">x",
    "json-ld": '<script type="application/ld+json">' + "[" * 100_000 + "</script><h1>x",
    "entities": "<h1>" + "&amp;" * 100_000 + "</h1>",
    "one tag": "<" + "a" * 1_000_000,
    "scripts": "<script>" * 200_000,
    "quotes": "<a b='\"" * 200_000,
    "empty": "",
}
HUNGRY = {
    "fields": {
        "one": "h1",
        "all": {"css": "div div", "list": True},
        "path": {"path": "//div//div[last()]//h1/text()"},
        "regex": {"regex": "(a+)+$", "in": "html"},
        "linked": {"json_ld": "*.name"},
        "price": {"css": ".price", "type": "price"},
    }
}


async def test_hostile_pages_end_well_within_their_time(web: Site) -> None:
    async with working(WORKER, fetch=local()) as engine:
        for name, text in HOSTILE.items():
            web.page("/hostile", text.encode("utf-8", errors="replace"))
            told = await ran(engine, WORKER, {"url": f"{web.url}/hostile", "extraction_spec": HUNGRY})
            assert code(told) == ("ok", None, 1), (name, told["error"])
            assert told["outputs"]["data"].keys() == HUNGRY["fields"].keys() or "$artifact" in told["outputs"]["data"], name


@pytest.mark.long
async def test_a_huge_page_is_read_up_to_the_cap_and_refused_beyond_it_also_when_packed(web: Site) -> None:
    text = "<h1>Sencha</h1><p class=price>3 €</p>" + "<p>tea</p>" * 350_000
    web.page("/large", text)
    web.page("/too-large", text + "x" * 1_000_000)
    web.page("/bomb", gzip.compress(b"x" * 50_000_000), content_encoding="gzip")
    told = await scraped(web, "/large")
    assert code(told) == ("ok", None, 1)
    assert told["outputs"]["source"]["size_bytes"] == len(text.encode())
    for path in ("/too-large", "/bomb"):
        told = await scraped(web, path)
        assert code(told) == ("permanent_error", "tool_failed", 1)
        assert told["error"]["details"] == {"reason": "too_large"}


# --- with the testing kit ----------------------------------------------------------------------------------------------------

FETCHED = {
    "url": "https://shop.example/", "status": 200, "text": PRODUCT, "headers": {"content-type": "text/html"}, "sha256": "0",
    "fetched_at": "2026-01-01T00:00:00.000Z", "size_bytes": 12, "redirects": [],
}  # fmt: skip
INPUTS = {"url": "https://shop.example/", "extraction_spec": SPEC}


@pytest.mark.parametrize(
    "answer",
    [FETCHED, {**FETCHED, "text": "<h1>"}, ToolFailed("fetch_timeout", "slow"), ToolFailed("access_denied", "no")],
    ids=["found", "changed", "late", "denied"],
)
def test_a_crash_at_any_point_changes_nothing(answer: Any) -> None:
    assert worker_kit.crash_everywhere(WORKER, INPUTS, tools={"fetch_url": answer}) > 0


def test_the_required_fields_that_are_missing_are_named_but_not_without_end() -> None:
    spec = {f"f{number}": {"css": "h6", "required": True} for number in range(30)}
    told = worker_kit.run(WORKER, {"url": "https://shop.example/", "extraction_spec": spec}, tools={"fetch_url": FETCHED})
    assert "f9, …" in told.error.message
    assert "f10" not in told.error.message
    assert told.error.details == {"missing": list(spec)}
