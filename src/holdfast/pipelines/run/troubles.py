"""Troubles of the runtime that may pass: they end an invocation of a pipeline's run, and the engine invokes the run again."""

from __future__ import annotations

from holdfast.hosts.sandbox.jail import SandboxUnavailable
from holdfast.model.errors import Fatal, HoldfastError, Retryable


def passes(trouble: HoldfastError) -> bool:
    """Whether another invocation, perhaps by another runner, may succeed after this error."""
    return isinstance(trouble, Retryable | Fatal | SandboxUnavailable)
