"""Live parents: invocations that stay live while they wait for an execution that they invoked and that is live in this process.

    waits ──▶ a child that it waits for is live here? ──no──▶ rests: its invocation ends as PENDING, as that of any handler that waits
      ▲            │ yes
      │            ▼
      │        stays live: the parent learns of the child's end with the commit of that end, and this costs no write
      │            │
      └────────────┴─ a child rests, ends, or runs elsewhere; or the room that the parent takes is needed

No timeout decides: a parent stays live as long as such a child is live, and a child that only waits for its own children is live for the
same reason. So in every such family at least one execution does more than wait for a child. When none does, all of them rest.

A parent that waits takes room and does nothing. It gives the room up as soon as a ready execution needs it (`make_room`): so a family that
is deeper than there is room reaches its end, and no parent keeps the room that a child needs. Everything here runs on the engine's loop.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from holdfast.engine.agenda import Agenda
from holdfast.engine.registry import Capacity, Function
from holdfast.model.execution import Execution
from holdfast.model.operations import Operation
from holdfast.model.ports import Host


class LiveInvocation(NamedTuple):
    """An invocation that runs here: the execution's header as the claim wrote it, and the function whose room the invocation takes."""

    header: Execution
    function: Function


class LiveParents:
    """Knows which children of each invocation are live in this runner, and decides which parents stay live while they wait."""

    def __init__(self, live: Mapping[str, LiveInvocation], host: Host, agenda: Agenda, loop: AbstractEventLoop) -> None:
        self._live, self._host, self._agenda, self._loop = live, host, agenda, loop
        self._children: dict[str, dict[str, str]] = {}
        """By the parent's id: the ids of its children, each with the parent's operation that waits for it. A child is here while it is live
        in this process, and also before that, while the write that makes and claims it is not on disk yet."""
        self._waiting: dict[str, bool] = {}
        """The parents that stay live and only wait, in the order in which they began to wait. The value says whether the parent also waits
        for something else than its children."""
        self._leaving: set[str] = set()
        """The parents whose room is needed: they rest when they next have nothing to do."""
        self._planned: set[str] = set()

    def __len__(self) -> int:
        """How many live invocations may have something to write: all but the parents that only wait."""
        return len(self._live) - len(self._waiting)

    # --- what the invocation itself says

    def stays(self, execution: str, awaited: Callable[[], Collection[Operation]]) -> bool:
        """Whether an invocation that only waits shall stay live. It shall if it waits for a child that is live here or is just being
        started here, unless `make_room` has told it to rest. `awaited` returns the operations that its code waits for."""
        children = self._children.get(execution)
        waits = () if not children or execution in self._leaving else awaited()
        own = set() if children is None else set(children.values())
        if not any(operation.id in own for operation in waits):
            self._waiting.pop(execution, None)
            return False
        others = [operation for operation in waits if operation.id not in own]
        self._waiting[execution] = bool(others)
        for operation in others:
            if operation.due_at is not None:
                self._agenda.plan(operation.due_at)
        live = self._live.get(execution)
        if live is not None and live.function.capacity.free <= 0 and self._agenda.backlog:
            self.ask_for_room()
        return True

    def writes(self, execution: str) -> None:
        """Note that an invocation writes something. From now on it does not count as a parent that only waits."""
        self._waiting.pop(execution, None)

    # --- what happens to it and to its children

    def detach(self, execution: str) -> None:
        """Note that an invocation has ended."""
        self._waiting.pop(execution, None)
        self._leaving.discard(execution)

    def add(self, child: Execution) -> None:
        """Note a child that is live here, or that will be live here when the write that is being made is on disk. Does nothing for an
        execution that no other one invoked."""
        if child.parent is not None and child.parent_operation is not None:
            self._children.setdefault(child.parent, {})[child.id] = child.parent_operation

    def remove(self, child: Execution) -> None:
        """Note that an execution is not live here any more. If its parent only waits, the parent first learns what the same commit changed,
        and then asks again whether it may stay live."""
        children = self._children.get(child.parent or "")
        if children is None or children.pop(child.id, None) is None:
            return
        if not children:
            del self._children[child.parent or ""]
        if child.parent in self._waiting:
            self._plan_recheck(child.parent)

    def others_wrote(self, read: Callable[[Sequence[str]], Sequence[Execution]]) -> None:
        """After a write of another process: let each parent that also waits for something else than its children read what changed. `read`
        is called with the ids of these parents, and returns their headers."""
        for header in read([execution for execution, others in self._waiting.items() if others]):
            self._host.learn(header, ())

    # --- room

    def ask_for_room(self) -> None:
        """Let the scheduler check whether a parent must give up its room. Called when a new execution is ready and was not claimed by the
        write that made it, and when a parent begins to wait while no room is free and other executions may be ready. Does nothing if no
        parent waits."""
        if self._waiting:
            self._agenda.ring()

    def waits_in(self, capacity: Capacity) -> int:
        """How many parents take room of this capacity and only wait. Parents that `make_room` already told to rest are not counted."""
        return len(self._idle_in(capacity))

    def make_room(self, capacity: Capacity, count: int) -> None:
        """Tell at most `count` parents that take room of this capacity to rest, because other executions need the room. Those that have
        waited longest are told first."""
        for execution in self._idle_in(capacity)[:count]:
            self._leaving.add(execution)
            self._plan_recheck(execution)

    def _idle_in(self, capacity: Capacity) -> list[str]:
        known = ((execution, self._live.get(execution)) for execution in self._waiting if execution not in self._leaving)
        return [execution for execution, live in known if live is not None and live.function.capacity is capacity]

    def _plan_recheck(self, execution: str) -> None:
        if execution not in self._planned:
            self._planned.add(execution)
            self._loop.call_soon(self._recheck, execution)

    def _recheck(self, execution: str) -> None:
        self._planned.discard(execution)
        self._host.recheck(execution)
