"""A run of the tests leaves nothing in the checkout."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.checkout import Checkout


@pytest.mark.parametrize("left", ["holdfast.db.workers", "holdfast.workers"])
def test_a_run_that_leaves_the_folder_of_a_store_in_the_checkout_fails_and_names_it(left: str, tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").touch()
    checkout, session, said = Checkout(tmp_path), SimpleNamespace(exitstatus=pytest.ExitCode.OK), list[str]()
    ended: Any = session
    checkout.pytest_sessionfinish(ended)
    assert session.exitstatus == pytest.ExitCode.OK, "the store was there before the run"
    (tmp_path / left).mkdir()
    checkout.pytest_sessionfinish(ended)
    terminal: Any = SimpleNamespace(write_line=lambda text, **_: said.append(text))
    checkout.pytest_terminal_summary(terminal)
    assert (session.exitstatus, len(said)) == (pytest.ExitCode.TESTS_FAILED, 1)
    assert said[0].startswith(f"A test has left {left} in {tmp_path}")
