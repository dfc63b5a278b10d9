"""Stories that people live in the console, in a real browser against real servers."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.watched_page import Pages
from tests.surface.serve_program import Programs

ORDER = """
from holdfast.durable import DurableContext, StepContext, durable_execution, durable_step
from holdfast.durable.config import CallbackConfig, Duration


@durable_step
def validate_order(step: StepContext, order_id: str) -> dict:
    step.logger.info("everything is there")
    return {"order_id": order_id, "status": "validated"}


@durable_execution
def order(event: dict, context: DurableContext) -> dict:
    context.step(validate_order(event["order_id"]))
    callback = context.create_callback(name="awaiting-approval", config=CallbackConfig(timeout=Duration.from_minutes(30)))
    return {"order_id": event["order_id"], "approval": callback.result()}
"""


def test_an_order_is_started_watched_answered_and_finished_in_the_console(serve: Programs, pages: Pages, tmp_path: Path) -> None:
    """Seed 003's story: start, watch, CallbackStarted and then suspended, send success, finished."""
    (tmp_path / "orders.py").write_text(ORDER)
    server = serve("orders.py")
    page = pages.open(f"{server.url}/console/workers/order")
    page.get_by_label("Input JSON").fill('{"order_id": "42"}')
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/console/runs/[0-9a-f-]{36}"))
    expect(page.locator("#run-head")).to_contain_text("waiting")
    expect(page.locator("#run-head")).to_contain_text("It waits for an answer to its callback 'awaiting-approval'")
    expect(page.locator("#timeline")).to_contain_text("validate_order")
    expect(page.locator("#timeline .tl-log")).to_contain_text("everything is there")
    run = page.url
    page.locator("#timeline").get_by_text("validate_order").first.click()
    expect(page.locator("#panel")).to_contain_text("everything is there")
    page.goto(f"{run}?tab=data")
    expect(page.locator("main")).to_contain_text("everything is there")
    page.get_by_role("link", name="Events").click()
    expect(page.locator("main")).to_contain_text("CallbackStarted")
    page.goto(run)
    page.get_by_role("link", name="Answer…").click()
    page.get_by_label("Result, as JSON").fill('{"approved": true}')
    page.get_by_role("button", name="Send success").click()
    expect(page.locator("#run-head .status").first).to_have_text("ok")
    page.get_by_role("link", name="Input and result").click()
    expect(page.locator("main")).to_contain_text("approved")
    page.goto(f"{server.url}/console/runs?q=status:ok")
    expect(page.locator("#rows")).to_contain_text("order")


def test_a_pipeline_is_watched_revised_approved_by_keyboard_compared_and_restarted(dev: str, pages: Pages) -> None:
    """The graph is live, the gate asks for a revision, a person approves by keyboard, a node is run again, two runs are compared."""
    page = pages.open(f"{dev}/console/runs?q=pipeline:vendor-research is:any")
    expect(page.locator("#rows")).to_contain_text("vendor-research")
    page.goto(f"{dev}/console/approvals")
    expect(page.locator("main")).to_contain_text("Publish this report?")
    page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).first.click()
    page.wait_for_url(re.compile(r"/console/runs/"))
    first = page.url.partition("?")[0]
    graph = page.locator("svg.hf-graph")
    expect(graph.locator('[data-node="sign-off"]')).to_contain_text("person")
    expect(graph.locator('[data-node="publish"]')).to_contain_text("waiting")
    expect(page.locator("#timeline")).to_contain_text("round 2")
    watching = pages.open(first)
    page.goto(f"{dev}/console/approvals")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("a")
    if page.get_by_role("button", name="Approve").is_visible():
        page.keyboard.press("Enter")
    expect(watching.locator('svg.hf-graph [data-node="publish"]')).to_contain_text("ok", timeout=60_000)
    expect(watching.locator("#run-head .status").first).to_have_text("partial", timeout=60_000)
    second = _restarted(watching, first)
    page.goto(f"{dev}/console/compare?left={first.rpartition('/')[2]}&right={second.rpartition('/')[2]}")
    expect(page.locator("main")).to_contain_text("vendor-research")


def _restarted(page: Page, run: str) -> str:
    """Restart a run in the console; answers the address of the new run."""
    page.goto(f"{run}/restart")
    page.locator("input[type=radio][value=report]").check()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("main")).to_contain_text("reused")
    page.get_by_role("button", name=re.compile("^Restart")).click()
    page.wait_for_url(lambda url: "/runs/" in url and not url.startswith(run))
    expect(page.locator("#run-head")).to_contain_text("vendor-research")
    return page.url.partition("?")[0]


def test_two_tenants_share_a_server_and_see_nothing_of_each_other(serve: Programs, pages: Pages, tmp_path: Path) -> None:
    from tests.surface.test_events_serve import keys

    (tmp_path / "orders.py").write_text(ORDER)
    tokens = {name: keys(tmp_path, "--token", "--role", "operator", "--tenant", name)["HOLDFAST_TOKEN"] for name in ("acme", "rival")}
    server = serve("orders.py", "--store", "orders.db")
    opened = {}
    for name, token in tokens.items():
        page = opened[name] = pages.open(f"{server.url}/console/workers/order")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(re.compile("/console/workers/order"))
        page.get_by_label("Input JSON").fill(f'{{"order_id": "of-{name}"}}')
        page.get_by_role("button", name="Start").click()
        page.wait_for_url(re.compile(r"/console/runs/"))
    theirs = opened["rival"].url
    page = opened["acme"]
    page.goto(f"{server.url}/console/runs")
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    answer = page.request.get(theirs)
    assert answer.status == 404
    assert "of-rival" not in answer.text()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(re.compile("/console/login"))
    page.goto(f"{server.url}/console/runs")
    expect(page.get_by_label("Token")).to_be_visible()
