"""Suspects: executions under which two or more runners in a row have died. A suspect may be what kills them: it runs alone here if it can.

    waits ──nothing else is live here──────────────────────▶ claimed: nothing else is claimed until it ends, makes progress,
      │                                                        ▲      or has had ten seconds
      │ ten seconds                                            │
      ▼                                                        │
    nothing else is claimed ──nothing else is live any more────┤
      │                                                        │
      └─ ten seconds ──▶ its function has room here? ──yes─────┘ (beside what is still live)
                           └──no──▶ left alone for a minute

So a runner that always has work becomes free for a suspect if what runs there ends within ten seconds. Neither side waits for ever: work
that runs longer gets the suspect beside it, and other executions wait at most twenty seconds in a row because of one suspect. If a suspect
is claimed beside others and the runner dies, the suspect is blamed nevertheless.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from holdfast.engine.agenda import Agenda
from holdfast.engine.health import readable
from holdfast.engine.registry import Function, Registry
from holdfast.engine.unsure_claims import ClaimsStore
from holdfast.model.clock import Clock, monotonic
from holdfast.model.life import SUSPECT_DEATHS

_ALONE_SECONDS: Final = 10.0
"""How long each of the three lasts at most: a suspect waits while others are claimed, it waits while none is, it has the runner for
itself."""
_NO_ROOM_SECONDS: Final = 60.0
"""How long a suspect is left alone for which there was no room."""


class Suspects:
    """Chooses when one runner claims a suspect, and keeps other executions away from it meanwhile."""

    def __init__(self, store: ClaimsStore, registry: Registry, agenda: Agenda, clock: Clock, runner: str) -> None:
        self._store, self._registry, self._agenda, self._clock, self._runner = store, registry, agenda, clock, runner
        self._claimed: str | None = None
        """The suspect that this runner has claimed and that keeps others away. None: there is none."""
        self._claimed_until = 0.0
        self._asked_at: float | None = None
        """When the suspect that waits began to wait. None: none waits."""
        self._keeps_clear = False
        """Whether others are kept away because a suspect waits for them to end."""

    def chosen(self, left_alone: MutableMapping[str, float]) -> tuple[str, Function] | None:
        """The suspect that the caller must claim now, and its function; None if there is none, or if it must wait. Its room is reserved,
        and other executions get none until `look` finds that it needs that no more. `left_alone`: the executions that this runner leaves
        alone, and until when; a suspect for which there is no room is added."""
        if self._claimed is not None:
            return None
        if self._keeps_clear:
            self._registry.open()  # others have no turn before this function returns
        was_clear, self._keeps_clear = self._keeps_clear, False
        found = self._found(left_alone)
        if found is None:
            self._asked_at = None
        else:
            self._agenda.backlog = True  # so that any invocation that ends here rings
            if self._claims(*found, left_alone):
                return found
        if was_clear and not self._keeps_clear:
            self._agenda.backlog = True
            self._agenda.ring()  # for the others that had to wait
        return None

    def _found(self, left_alone: MutableMapping[str, float]) -> tuple[str, Function] | None:
        for targets in self._registry.by_capacity().values():
            found, function = self._store.suspect(targets, self._clock.now()), self._registry.get(targets[0].function, targets[0].version)
            if found is not None and function is not None and found not in left_alone:
                return found, function
        return None

    def _claims(self, suspect: str, function: Function, left_alone: MutableMapping[str, float]) -> bool:
        """Whether the suspect is claimed now. If not, decide whether others are kept away until then."""
        now = monotonic()
        self._asked_at = now if self._asked_at is None else self._asked_at
        has_waited = now - self._asked_at
        is_over = has_waited >= 2 * _ALONE_SECONDS
        if self._registry.is_unused() or (is_over and function.capacity.free > 0):
            function.capacity.free -= 1
            self._registry.shut()
            self._claimed, self._claimed_until, self._asked_at = suspect, now + _ALONE_SECONDS, None
            return True
        if is_over:
            left_alone[suspect], self._asked_at = now + _NO_ROOM_SECONDS, None
        elif has_waited >= _ALONE_SECONDS:
            self._registry.shut()
            self._keeps_clear = True
        return False

    def look(self) -> None:
        """If this runner has claimed a suspect: let others be claimed again if it has ended, has made progress, or has had ten seconds."""
        if self._claimed is None:
            return
        header = next(readable(self._store, [self._claimed]), None)
        ours = header is not None and header.runner == self._runner and header.deaths >= SUSPECT_DEATHS
        if not ours or monotonic() >= self._claimed_until:
            self._claimed = None
            self._registry.open()
            self._agenda.ring()
