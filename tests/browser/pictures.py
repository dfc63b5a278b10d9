"""Pictures of every page of the console, for README and docs: light, dark and on a phone.

    make pictures        or        python -m tests.browser.pictures

They show the sample of `holdfast dev` in a store with queues, schedules and orders (pictured_store.py), so that they look the same wherever
they are made but for times and ids.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import console, sample
from tests.browser.pictured_store import fill, with_keys

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "pictures"
LOOKS = {"light": (1440, 900, "light"), "dark": (1440, 900, "dark"), "phone": (390, 844, "light")}
PAGES = {
    "home": "",
    "runs": "runs",
    "run": "runs/{run}",
    "restart": "runs/{run}/restart",
    "approvals": "approvals",
    "workers": "workers",
    "pipeline": "workers/vendor-research",
    "worker": "workers/web-scrape-worker",
    "compare": "compare?left={run}&right={other}",
    "test": "runs/{run}/test",
    "queues": "queues",
    "schedules": "schedules",
    "cost": "cost",
    "runners": "runners",
    "signals": "signals",
    "audit": "audit",
    "keys": "keys",
    "login": "login",
}


OVER = {"restart", "test"}
"""Pages of a run that is over. They are taken before it is restarted."""
KEYED = {"login", "keys"}
"""Pages of a server that has credentials."""


def main() -> None:
    """Take all pictures, or those of the pages that are named."""
    wanted = sys.argv[1:] or list(PAGES)
    path = shutil.which("chromium")
    assert path is not None, "make browser"
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as configuration, tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = configuration  # the sample's folder is trusted there
        _all(Path(folder), path, wanted)


def _all(folder: Path, path: str, wanted: list[str]) -> None:
    with sample(folder) as url, sync_playwright() as playwright:
        fill(folder / "holdfast.db")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        first = _approved(page, url)
        before = [name for name in wanted if name in OVER]
        _take(browser, url, before, run=first, other=first)
        second = _restarted(page, url, first)
        _take(browser, url, [name for name in wanted if name not in OVER | KEYED], run=second, other=first)
        _take_keyed(browser, folder / "keyed.db", [name for name in wanted if name in KEYED])
        browser.close()


def _take_keyed(browser: Browser, store: Path, names: list[str]) -> None:
    token = with_keys(store)
    with console(store) as url:
        _take(browser, url, [name for name in names if name == "login"])
        page = browser.new_page()
        page.goto(f"{url}/console/login")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(re.compile("/console/$"))
        _take(browser, url, [name for name in names if name != "login"], state=page.context.storage_state())


def _take(browser: Browser, url: str, names: list[str], *, run: str = "", other: str = "", state: Any = None) -> None:
    for name in names:
        for look, (width, height, scheme) in LOOKS.items():
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, storage_state=state)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{url}/console/{PAGES[name].format(run=run, other=other)}")
            page.wait_for_load_state("load")
            page.wait_for_timeout(900)  # parts that are asked for after the page, such as counts
            page.screenshot(path=str(FOLDER / f"{name}-{look}.png"))
            context.close()


def _approved(page: Page, url: str) -> str:
    """The run of the sample, which a person has approved and which is over."""
    first = _asked_for(page, url)
    page.goto(f"{url}/console/approvals")
    page.get_by_role("button", name="Approve").click()
    page.goto(f"{url}/console/runs/{first}")
    page.locator("#run-head .status", has_text=re.compile("ok|partial")).first.wait_for(timeout=60_000)
    return first


def _restarted(page: Page, url: str, first: str) -> str:
    """The same run again from a node: it waits for a person."""
    page.goto(f"{url}/console/runs/{first}/restart")
    page.locator("input[type=radio][value=facts]").check()
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_role("button", name=re.compile("^Restart")).click()
    page.wait_for_url(lambda address: "/runs/" in address and first not in address)
    page.locator("#run-head .status", has_text=re.compile("person|ok|partial")).first.wait_for(timeout=60_000)
    return page.url.partition("?")[0].rpartition("/")[2]


def _asked_for(page: Page, url: str) -> str:
    page.goto(f"{url}/console/approvals")
    link = page.get_by_role("link", name=re.compile("^[0-9a-f]{12}$")).first
    link.wait_for(timeout=60_000)
    found = (link.get_attribute("href") or "").partition("?")[0].rpartition("/")[2]
    assert found
    return found


if __name__ == "__main__":
    main()
