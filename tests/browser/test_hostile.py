"""Hostile data in every page, in a real browser: nothing of it runs, and every page still says what it must."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.watched_page import Pages
from tests.surface.serve_program import Programs

HOSTILE = {
    "html": "</pre></script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>",
    "attribute": "\" autofocus onfocus=window.broken=3 x='' y=\"",
    "template": "{{ 7 * 191 }} {% raw %} ${window.broken = 4}",
    "terminal": "\x1b[31mred\x1b]0;title\x07",
    "bidi": "\u202egnp.exe\u2066 \u200b\ufeff",
    "nul": "a\x00b\x7f\x85",
    "htmx": "<div hx-get='/console/logout' hx-trigger='load' hx-on:click='window.broken = 5'>x</div>",
    "link": "javascript:window.broken=6",
    "surrogate": "\\ud800 is alone",
}
FUNCTIONS = """
import json
from holdfast.durable import DurableContext, StepContext, durable_execution, durable_step


@durable_step
def echo(step: StepContext, value):
    return value


@durable_execution
def hostile(event, context: DurableContext):
    context.step(echo(event["text"]), name=event["text"][:200])
    context.step(echo("x" * 1_000_000), name="a million")
    context.step(echo({f"k{n}": n for n in range(event.get("keys", 10))}), name="many keys")
    if event.get("surrogate"):
        context.step(echo("\\\\ud800"), name="surrogate")
    raise ValueError(event["text"])
"""


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_hostile_text_is_shown_everywhere_and_does_nothing(serve: Programs, pages: Pages, tmp_path: Path, kind: str) -> None:
    (tmp_path / "hostile.py").write_text(FUNCTIONS)
    server = serve("hostile.py")
    given = {"text": HOSTILE[kind], "keys": 100_000 if kind == "html" else 10, "surrogate": kind == "surrogate"}
    server.invoke("hostile:$LATEST", given, InvocationType="Event", DurableExecutionName="hostile-1")
    page = pages.open(f"{server.url}/console/runs")
    expect(page.locator("#rows")).to_contain_text("failed", timeout=60_000)
    page.get_by_role("link", name="hostile-1").click()
    expect(page.locator("#run-head")).to_contain_text("failed")
    run = page.url
    rows = page.locator("#timeline")
    expect(rows).to_contain_text("a million")
    rows.get_by_text("a million").first.click()
    expect(page.locator("#panel")).to_contain_text("cut")
    for path in (f"{run}?tab=data", f"{run}?tab=events", f"{run}/restart", f"{run}/test", f"{server.url}/console/"):
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        assert page.evaluate("window.broken") is None, path
        assert "1337" not in page.locator("main").inner_text()
    for suffix in ("\u202e", "\x1b", "\x00"):
        assert suffix not in page.content()


def test_forty_thousand_rows_are_scrolled_with_few_elements_and_short_tasks(serve: Programs, pages: Pages, tmp_path: Path) -> None:
    """The rows are a pool that is pointed at other rows; no task of the page is longer than 50 ms of CPU time."""
    (tmp_path / "many.py").write_text(MANY)
    server = serve("many.py")
    server.invoke("many:$LATEST", {"items": 20_000}, InvocationType="Event", DurableExecutionName="many-1")
    page = pages.open(f"{server.url}/console/runs")
    expect(page.locator("#rows tbody tr .standing")).to_have_text("ok", timeout=100_000)
    page.get_by_role("link", name="many-1").click()
    expect(page.locator("#timeline")).to_contain_text(re.compile(r"(40|20),\d\d\d operations"), timeout=60_000)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    most = 0
    for _ in range(40):
        page.mouse.move(700, 600)
        page.mouse.wheel(0, 20_000)
        most = max(most, page.locator("#timeline [role=row], #timeline .row").count())
    assert 0 < most <= 60


MANY = """
from holdfast.durable import DurableContext, durable_execution


@durable_execution
async def many(event, context):
    async def item(child, number, index, items):
        return await child.step(lambda _: number, name=f"step-{number}")

    await context.map(range(event["items"]), item)
    return "done"
"""


def test_json_of_hostile_text_is_what_was_stored(serve: Programs, pages: Pages, tmp_path: Path) -> None:
    """What a page cuts, its raw download has whole."""
    (tmp_path / "hostile.py").write_text(FUNCTIONS)
    server = serve("hostile.py")
    server.invoke("hostile:$LATEST", {"text": HOSTILE["html"]}, InvocationType="Event", DurableExecutionName="hostile-1")
    page = pages.open(f"{server.url}/console/runs")
    expect(page.locator("#rows")).to_contain_text("failed", timeout=60_000)
    page.get_by_role("link", name="hostile-1").click()
    page.locator("#timeline").get_by_text("a million").first.click()
    raw = page.locator("#panel a[download]").get_attribute("href")
    assert raw is not None
    answer = page.request.get(page.evaluate("href => new URL(href, location.href).href", raw))
    assert "x" * 1_000_000 in answer.text()
    assert answer.headers["content-type"].startswith("application/json")
    json.loads(answer.text())
