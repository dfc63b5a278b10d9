"""Every page of the console, judged by axe: no serious finding, light and dark, wide and on a phone."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.pictures import PAGES
from tests.browser.watched_page import Pages

WIDE = """[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'))
.slice(0, 5).map(e => e.tagName + '.' + e.className)"""
"""What is wider than the page, outside boxes that scroll by themselves."""
SERIOUS = {"serious", "critical"}


@pytest.mark.parametrize(
    "width, dark",
    [
        pytest.param(1440, False, id="light"),
        pytest.param(1440, True, id="dark", marks=pytest.mark.long),
        pytest.param(390, False, id="phone", marks=pytest.mark.long),
    ],
)
def test_axe_has_no_serious_finding_on_any_page(dev: str, pages: Pages, width: int, dark: bool) -> None:
    page = pages.open(f"{dev}/console/approvals", width=width, dark=dark)
    link = page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).first
    expect(link).to_be_visible(timeout=60_000)
    run = (link.get_attribute("href") or "").partition("?")[0].rpartition("/")[2]
    found: list[str] = []
    for name, path in PAGES.items():
        page.goto(f"{dev}/console/{path.format(run=run, other=run)}")
        page.wait_for_load_state("networkidle") if name == "login" else expect(page.locator("main")).to_be_visible()
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in SERIOUS:
                places = [" ".join(node["target"]) for node in violation["nodes"][:3]]
                found.append(f"{name}: {violation['id']}: {violation['help']}: {places}")
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            found.append(f"{name} scrolls sideways at {width}: {page.evaluate(WIDE)}")
    assert not found, "\n".join(found)
