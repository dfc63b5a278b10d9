"""library — ready workers, each in a folder with its page, its function and an example input.

Belongs: ready workers, and the pure code that they need. Does not: how workers run (holdfast.workers). May import: holdfast,
holdfast.workers, holdfast.contract, holdfast.model. Start reading at web_scrape/worker.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

WORKERS: Final[Mapping[str, str]] = {
    "aggregator-worker": "aggregator/worker.py",
    "aws-lambda-worker": "aws_lambda/worker.py",
    "code-review-worker": "code_review/worker.py",
    "data-validation-worker": "data_validation/worker.py",
    "email-summarization-worker": "email_summarization/worker.py",
    "queue-based-worker": "queue_based/worker.py",
    "refund-worker": "refund/refund.py",
    "router-worker": "router/worker.py",
    "supervisor-worker": "supervisor/worker.py",
    "validator-worker": "validator/worker.py",
    "web-scrape-worker": "web_scrape/worker.py",
}
"""The path of each ready worker's file, relative to this folder, by the worker's id."""


def find(worker_id: str) -> Path | None:
    """The Python file of the ready worker with this id; None if there is no such worker."""
    file = WORKERS.get(worker_id)
    return None if file is None else Path(__file__).parent / file
