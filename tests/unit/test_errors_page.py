"""Every error code is explained, and nothing is explained that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import holdfast.contract.refusals
import holdfast.durable.concurrency.models
import holdfast.durable.exceptions
import holdfast.hosts.evaluator.schema_check
import holdfast.hosts.sandbox.admitted_files
import holdfast.hosts.sandbox.jail
import holdfast.hosts.sandbox.server_limits
import holdfast.model.deploy_errors
import holdfast.operator.trust
import holdfast.pipelines.graph.refusals
import holdfast.queues.store_queues
import holdfast.testing.crashing
import holdfast.testing.replays
import holdfast.workers.links
import holdfast.workers.packages
import holdfast.workers.service
from holdfast.model.errors import HoldfastError
from holdfast.model.queue_errors import QueueFull


def family(root: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith("holdfast."):
            yield from family(child)


def explained(root: Path) -> list[str]:
    return re.findall(r"^## (\w+)$", (root / "docs/reference/errors.md").read_text(), re.M)


def test_every_error_code_has_a_heading_and_every_heading_a_code(root: Path) -> None:
    assert sorted(explained(root)) == sorted({cls.code for cls in family(HoldfastError)})


def test_no_two_errors_share_a_code() -> None:
    """One code is shared: `overloaded` is one row of the protocol's table, whatever has no room."""
    classes = {cls for cls in family(HoldfastError) if cls is not QueueFull}
    assert len({cls.code for cls in classes}) == len(classes)


def test_an_errors_docstring_is_its_default_message() -> None:
    assert str(holdfast.durable.exceptions.StepError()) == "The step failed."
    assert [cls for cls in family(HoldfastError) if not (cls.__doc__ or "").strip()] == []
