"""What a person writes stays while the page keeps itself up to date."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.test_stories import ORDER
from tests.browser.watched_page import Pages
from tests.surface.serve_program import Programs


def test_an_answer_that_is_being_written_stays_when_the_page_refreshes_itself(serve: Programs, pages: Pages, tmp_path: Path) -> None:
    """Also when its field has lost the focus, or was made larger. The page asks for the operation again only while nothing is written."""
    (tmp_path / "orders.py").write_text(ORDER)
    server = serve("orders.py")
    server.invoke("order:$LATEST", {"order_id": "42"}, InvocationType="Event", DurableExecutionName="order-42")
    page = pages.open(f"{server.url}/console/runs")
    page.get_by_role("link", name="Answer…").click()
    page.wait_for_url(re.compile(r"\?op="))
    field = page.get_by_label("Result, as JSON")
    expect(field).to_be_visible()
    expect(page.locator("#timeline .tl-row[aria-selected=true]")).to_contain_text("awaiting-approval")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "part=panel" in request.url else None)
    ticked(page)
    assert asked
    field.fill('{"approved": true}')
    page.locator("#run-head h1").click()
    asked.clear()
    ticked(page)
    assert asked == []
    expect(field).to_have_value('{"approved": true}')
    field.fill("")
    field.evaluate("field => { field.style.height = '120px'; }")
    ticked(page)
    assert asked == []
    assert field.evaluate("field => field.offsetHeight") == 120


def ticked(page: Page) -> None:
    """Say that something has changed, and wait until the page has asked again for what it shows."""
    with page.expect_request(lambda request: "/timeline?" in request.url) as begun:
        page.evaluate("document.dispatchEvent(new CustomEvent('holdfast:tick'))")
    begun.value.response()
    page.wait_for_function("document.querySelectorAll('#panel .htmx-request').length === 0")
