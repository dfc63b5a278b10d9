"""library — ready workers, a folder each: the page, the function, an example input.

Belongs: workers that many can use as they are, and the pure code they need. They are written as authors write: against the front door.
Does not: how workers run (holdfast.workers).   May import: holdfast.workers, holdfast.contract, holdfast.model.
Start reading at web_scrape/worker.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

WORKERS: Final[Mapping[str, str]] = {
    "aws-lambda-worker": "aws_lambda/worker.py",
    "refund-worker": "refund/refund.py",
    "web-scrape-worker": "web_scrape/worker.py",
}
"""Every ready worker, and its file below this folder."""


def find(worker_id: str) -> Path | None:
    """The file of a ready worker; None when none has that id."""
    file = WORKERS.get(worker_id)
    return None if file is None else Path(__file__).parent / file
