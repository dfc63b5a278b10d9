"""Nothing that a page says is cut off, and what stands in one line stands at one height."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.conftest import console
from tests.browser.pictured_store import fill
from tests.browser.watched_page import Pages

_HALF = 0.6


def box(of: Locator) -> FloatRect:
    found = of.bounding_box()
    assert found is not None
    return found


def whole(of: Locator) -> bool:
    """Whether nothing of an element is outside of its box, or behind an ellipsis."""
    return bool(of.evaluate("at => at.scrollWidth <= at.clientWidth && at.scrollHeight <= at.clientHeight"))


def baseline(of: Locator) -> float:
    """The height on the page at which the first line of an element stands."""
    script = """at => {
        const mark = document.createElement("span");
        mark.style.display = "inline-block";
        at.prepend(mark);
        const bottom = mark.getBoundingClientRect().bottom;
        mark.remove();
        return bottom;
    }"""
    return float(of.evaluate(script))


@pytest.mark.parametrize("width", [1280, 1440])
def test_the_pages_of_a_run_and_of_its_pipeline_cut_nothing(dev: str, pages: Pages, width: int) -> None:
    page = pages.open(f"{dev}/console/approvals", width=width)
    page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).first.click()
    page.wait_for_url(re.compile(r"/console/runs/"))
    run = page.url
    _folds(page)
    page.goto(f"{dev}/console/approvals")
    page.get_by_role("button", name="Approve").click()
    page.goto(run)
    expect(page.locator("#run-head .status").first).to_have_text("partial", timeout=60_000)
    facts = page.locator(".run-facts .fact")
    assert len({round(box(facts.nth(at))["y"]) for at in range(facts.count())}) == 1, "all facts stand in one line"
    page.goto(f"{dev}/console/workers/vendor-research")
    expect(page.locator("table.gate")).to_be_visible()
    assert whole(page.locator("div.scroll", has=page.locator("table.gate")))
    assert whole(page.locator("div.graph"))
    row = page.locator("table.runs tbody tr").first
    heights = [baseline(row.locator(part).first) for part in (".status > span", ".r-name .name", ".r-took > *", "td.why")]
    assert max(heights) - min(heights) <= _HALF, heights


def _folds(page: Page) -> None:
    """The run waits for a person, so its timeline ends with a fold as soon as it has waited for some seconds."""
    fold = page.locator(".tl-axis .tl-idle").last
    expect(fold).to_be_visible()
    edge = box(page.locator(".tl-axis"))
    assert box(fold)["x"] + box(fold)["width"] <= edge["x"] + edge["width"] + _HALF
    assert whole(fold)
    for label in ("12 m", "365 d", "2.5 h"):
        fold.evaluate("(at, label) => { at.textContent = label }", label)
        assert whole(fold)
        assert box(fold)["x"] + box(fold)["width"] <= edge["x"] + edge["width"] + _HALF


def test_the_meaning_of_each_setting_of_a_queue_can_be_read(pages: Pages, tmp_path: Path) -> None:
    store = tmp_path / "holdfast.db"
    fill(store)
    with console(store) as url:
        page = pages.open(f"{url}/console/queues/emails", width=1280)
        meaning = page.get_by_text("A new run is refused while the waiting runs together may cost this much, in dollars")
        assert whole(meaning)
        pages.close()
