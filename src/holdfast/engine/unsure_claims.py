"""Unsure claims: claims that may be on disk although the write that contained them failed.

If such a claim is on disk, this runner holds the execution and does not run it, and no other runner may run it. So a second after the
failure this runner looks in the store for executions that it holds and does not run, and gives them back. Everything here runs on the
engine's loop.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Mapping
from typing import Final, Protocol

from holdfast.engine.agenda import Agenda
from holdfast.engine.health import readable
from holdfast.engine.live_parents import LiveInvocation
from holdfast.engine.outcomes import giving_back
from holdfast.engine.writer import Writer
from holdfast.model.errors import HoldfastError, LeaseLost, Rejected, Retryable
from holdfast.model.execution import State
from holdfast.model.verbs import Answer
from holdfast.store.seam import ExecutionStore, RunnerStore

log = logging.getLogger("holdfast.engine")
_AGAIN_SECONDS: Final = 1.0


class ClaimsStore(ExecutionStore, RunnerStore, Protocol):
    """The part of a store that says which executions runners hold and may claim."""


class UnsureClaims:
    """Gives back what one runner may have claimed without knowing it."""

    def __init__(
        self,
        store: ClaimsStore,
        writer: Writer,
        live: Mapping[str, LiveInvocation],
        agenda: Agenda,
        loop: AbstractEventLoop,
        runner: str,
    ) -> None:
        self._store, self._writer, self._live, self._agenda, self._loop, self._runner = store, writer, live, agenda, loop, runner

    def answered(self, answer: Answer | HoldfastError) -> None:
        """Called with the answer to a write that may contain a claim. If the write failed, `let_go` runs a second later. Nothing happens if
        the write was made or refused."""
        if isinstance(answer, HoldfastError) and not isinstance(answer, LeaseLost | Rejected):
            self._loop.call_later(_AGAIN_SECONDS, self.let_go)

    def let_go(self) -> None:
        """Give back the executions that this runner holds in the store and that are not live here. Any runner may claim them again. If the
        invocation of such an execution is just beginning here, the execution is given back, too, and begins again. If the store cannot be
        read now, this is tried again a second later. Does nothing after the engine began to close."""
        if not self._writer.open:
            return
        try:
            held = list(readable(self._store, set(self._store.held(self._runner)) - self._live.keys(), Retryable))
        except HoldfastError as trouble:  # if it could not be read now, it is read a second later
            self.answered(trouble)
            return
        for header in held:
            if header.state is State.RUNNING and header.runner == self._runner:
                log.warning("%s was claimed by a write that failed; it begins again", header.name)
                self._writer.submit(giving_back(header), self.answered)
                self._agenda.backlog = True
                self._agenda.ring()
