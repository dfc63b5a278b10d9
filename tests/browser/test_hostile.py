"""Hostile data in every page, in a real browser: nothing of it runs, and every page still says what it must."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import CDPSession, expect

from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.store.backends import open_store
from tests.browser.conftest import console
from tests.browser.watched_page import Pages
from tests.console.histories import History
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
    context.step(echo(event["text"]), name=event["text"].replace("\\0", "")[:200])  # no name of an operation may have that one
    context.step(echo("x" * 1_000_000), name="a million")
    context.step(echo({f"k{n}": n for n in range(event.get("keys", 10))}), name="many keys")
    if event.get("surrogate"):
        context.step(echo("\\\\ud800"), name="surrogate")
    raise ValueError(event["text"])
"""


@pytest.mark.parametrize("kind", ["html", *(pytest.param(kind, marks=pytest.mark.long) for kind in HOSTILE if kind != "html")])
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


def test_forty_thousand_rows_are_scrolled_with_few_elements_and_short_tasks(pages: Pages, tmp_path: Path) -> None:
    """Rows are a pool that is pointed at other rows. No task of the page takes more than 50 ms of CPU time."""
    store, run = tmp_path / "many.db", History("many", SystemClock().now() - 10_000_000)
    for number in range(200):
        batch = run.context(f"batch-{number}")
        for item in range(199):
            run.step(f"step-{number}-{item}", parent=batch)
    with closing(open_store(str(store), id_at(SystemClock().now()))) as opened:
        header = run.kept(opened)
    with console(store) as url, closing(pages):
        page = pages.open(f"{url}/console/runs/{header.id}")
        expect(page.locator("#timeline")).to_contain_text("40,000 operations", timeout=60_000)
        page.keyboard.press("Escape")
        tracing = page.context.new_cdp_session(page)
        tracing.send("Tracing.start", {"categories": "disabled-by-default-devtools.timeline,toplevel", "transferMode": "ReturnAsStream"})
        most = 0
        page.mouse.move(900, 600)
        for _ in range(60):
            page.mouse.wheel(0, 30_000)
            most = max(most, page.locator("#timeline .tl-row").count())
        assert 0 < most <= 60
        assert page.evaluate("Math.max(...[...document.querySelectorAll('*')].map(e => e.scrollHeight))") < 200_000
        assert longest_task_ms(tracing) <= 50


def longest_task_ms(tracing: CDPSession) -> float:
    """The most CPU time that one task of the page took. The time by the clock also counts what other processes did meanwhile."""
    done: list[dict[str, Any]] = []
    tracing.on("Tracing.tracingComplete", lambda event: done.append(event))
    tracing.send("Tracing.end")
    while not done:
        tracing.send("Runtime.evaluate", {"expression": "1"})
    text = ""
    while True:
        part = tracing.send("IO.read", {"handle": done[0]["stream"]})
        text += part["data"]
        if part["eof"]:
            break
    events = json.loads(text)["traceEvents"]
    page = {
        event["pid"]
        for event in events
        if event.get("name") == "EvaluateScript" or "renderer" in str(event.get("args", {}).get("name", "")).lower()
    }
    return max((event.get("tdur", 0) / 1000 for event in events if event.get("name") == "RunTask" and event["pid"] in page), default=0.0)


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


def test_a_script_that_is_slow_to_arrive_does_not_break_the_parts_of_a_page(pages: Pages, tmp_path: Path) -> None:
    """The script that allows other scripts to change the page is the last file to arrive."""
    store = tmp_path / "slow.db"
    open_store(str(store), "test", None).close()
    with console(store) as url, closing(pages):
        page = pages.open(f"{url}/console/runs", last="hx-csp")
        expect(page.locator("#facets")).to_contain_text("0 matches")
