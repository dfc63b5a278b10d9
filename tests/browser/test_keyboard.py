"""The timeline and the search by keyboard, in a real browser."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from playwright.sync_api import expect

from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.model.operations import SubType
from holdfast.store.backends import open_store
from tests.browser.conftest import console
from tests.browser.watched_page import Pages
from tests.console.histories import History


def stored(store: Path) -> str:
    """A run with a map of three items, of which one failed; its id."""
    run = History("order-17", SystemClock().now() - 60_000)
    run.step("charge", result='"receipt-42"')
    pages = run.context("pages", SubType.MAP)
    for number in range(3):
        item = run.context(f"item-{number}", SubType.MAP_ITERATION, pages)
        run.step(f"fetch-{number}", parent=item, error="gone" if number == 1 else None)
    with closing(open_store(str(store), id_at(SystemClock().now()))) as opened:
        return run.kept(opened).id


def test_a_run_is_read_and_found_without_a_mouse(pages: Pages, tmp_path: Path) -> None:
    """Arrows, expand and collapse, errors only, search, the list of keys, and a link to an operation; then the search of the list."""
    run = stored(tmp_path / "one.db")
    with console(tmp_path / "one.db") as url, closing(pages):
        page = pages.open(f"{url}/console/runs/{run}")
        rows, chosen = page.locator("#timeline .tl-row:visible"), page.locator("#timeline .tl-row[aria-selected=true]")
        expect(rows).to_have_count(2)
        page.keyboard.press("ArrowDown")
        expect(chosen).to_contain_text("receipt-42")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        expect(rows).to_have_count(5)
        page.keyboard.press("ArrowLeft")
        expect(rows).to_have_count(2)
        page.keyboard.press("e")
        expect(rows).to_have_count(3)
        page.keyboard.press("End")
        expect(chosen).to_contain_text("ValueError: gone")
        page.keyboard.press("Enter")
        expect(page.locator("#panel")).to_contain_text("fetch-1")
        expect(page).to_have_url(re.compile(r"\?op=[0-9a-f]{64}$"))
        linked = page.url
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        page.keyboard.press("e")
        expect(rows).to_have_count(2)
        page.keyboard.press("/")
        page.keyboard.type("fetch-2")
        expect(rows).to_have_count(3)
        page.keyboard.press("Escape")
        expect(rows).to_have_count(2)
        page.keyboard.press("?")
        expect(page.get_by_role("heading", name="Keys of the timeline")).to_be_visible()
        page.keyboard.press("Escape")
        page.goto(linked)
        expect(chosen).to_contain_text("fetch-1")
        expect(page.locator("#panel")).to_contain_text("gone")
        page.goto(f"{url}/console/runs")
        page.get_by_role("combobox", name="Search runs").focus()
        page.keyboard.type("stat")
        page.get_by_role("option", name="status:", exact=True).wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.get_by_role("option", name="status:ok").wait_for()
        page.keyboard.type("o")
        expect(page.get_by_role("option")).to_have_count(1)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("q=status%3Aok"))
        expect(page.locator("#rows tbody tr")).to_have_count(1)


def test_on_a_phone_no_time_of_a_row_is_cut(pages: Pages, tmp_path: Path) -> None:
    run = stored(tmp_path / "one.db")
    with console(tmp_path / "one.db") as url, closing(pages):
        page = pages.open(f"{url}/console/runs/{run}", width=390)
        expect(page.locator("#timeline .tl-row:visible")).to_have_count(2)
        cut = "[...document.querySelectorAll('.tl-row:not([hidden]) .tl-took')].filter(cell => cell.scrollWidth > cell.clientWidth).length"
        assert page.evaluate(cut) == 0
