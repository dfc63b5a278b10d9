"""Tests of the console in a real browser: Debian's Chromium, which `make browser` installs. Without it they are skipped, and say so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.watched_page import PATIENCE_MS, Pages
from tests.surface.serve_program import Programs, programs

_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]

expect.set_options(timeout=PATIENCE_MS)  # Playwright's own 5 seconds are not longer than an open page's pause between two questions


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: `make browser` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def pages(chromium: Browser) -> Iterator[Pages]:
    """Pages that fail the test if they say an error, break the policy of their server, or ask another host for anything."""
    opened = Pages(chromium)
    yield opened
    opened.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as made:
        yield made


@contextmanager
def started(*words: str, cwd: Path, until: str, mark: str) -> Iterator[str]:
    """A command of `holdfast` that serves, and the address that it prints after `mark`."""
    command = [sys.executable, "-m", "holdfast.cli", *words]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said: list[str] = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if until in line:
                    break
            found = [line.partition(mark)[2].split()[0] for line in said if line.startswith(mark)]
            assert found, said
            yield found[0].removesuffix("/console/")
        finally:
            process.terminate()
            process.communicate(timeout=60)


def console(store: Path) -> AbstractContextManager[str]:
    """`holdfast console` of a store."""
    words = ("console", "--store", str(store), "--port", "0")
    return started(*words, cwd=store.parent, until="credentials", mark="console: ")


def sample(folder: Path) -> AbstractContextManager[str]:
    """`holdfast dev` with its sample, whose run waits for a person."""
    return started("dev", "--no-open", "--port", "0", cwd=folder, until="The sample runs", mark="serving on ")


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[str]:
    """The address of the sample."""
    with sample(tmp_path) as url:
        yield url
