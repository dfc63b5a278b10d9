"""One execution in memory: what a store does for a verb, without a store.

Every accepted write is checked here against the rules that hold for all of them (`_check`), so each test of a verb tests these too.
"""

from collections.abc import Iterable

import msgspec

from holdfast.model.draft import is_pending
from holdfast.model.execution import Change, Execution, State, Terms
from holdfast.model.history import TERMINAL, Event, EventType
from holdfast.model.ids import Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Operation, Status, Type, Update
from holdfast.model.seal import Seal
from holdfast.model.verbs import Answer, Checkpoint, Checkpointed, Claim, Start, Write

SEAL = Seal(b"a key that only the tests know")
ID = "019b7a2c-0000-7000-8000-000000000001"
T0 = 1_767_225_600_000
SECOND = 1_000
HOUR = 3_600 * SECOND


def header(**set_to: object) -> Execution:
    """The header a start asks for."""
    asked: dict[str, object] = {
        "id": ID, "function": "order", "version": "$LATEST", "name": "order-1", "input_hash": "hash", "terms": Terms(3600),
        "started_at": T0, "deadline": 0,
    }  # fmt: skip
    return Execution(**(asked | set_to))  # type: ignore[arg-type]


class Lone:
    """A view of one execution, and the writes that change it."""

    def __init__(self, change: Change) -> None:
        self.header = change.header
        self.operations: dict[str, Operation] = {}
        self.rows: dict[int, Event] = {event.number: event for event in change.events}

    @classmethod
    def begun(cls, by: Claimant | None = None, now: int = T0, **set_to: object) -> "Lone":
        """A new execution, claimed if a claimant is given."""
        change, _ = Start(header(**set_to), '{"order": 1}', by).create(now)
        return cls(change)

    # --- what a decision may ask

    def get(self, operation_id: str) -> Operation | None:
        return self.operations.get(operation_id)

    def newer(self, revision: int) -> Iterable[Operation]:
        return sorted((op for op in self.operations.values() if op.revision > revision), key=lambda op: op.place)

    def due(self, now: int) -> Iterable[Operation]:
        ripe = [op for op in self.operations.values() if op.due_at is not None and op.due_at <= now]
        return sorted(ripe, key=lambda op: (op.due_at, op.place))

    def has_ready(self, since: int) -> bool:
        return any(op.status is Status.READY and op.revision > since for op in self.operations.values())

    def next_due(self, after: int) -> int | None:
        return min((op.due_at for op in self.operations.values() if op.due_at is not None and op.due_at > after), default=None)

    # --- what a test does

    def do(self, write: Write, now: int) -> Answer:
        """Decide, and keep the change; a refused write changes nothing."""
        before = self._all()
        change, answer = write.decide(self, now, SEAL)
        assert self._all() == before, "deciding must not change what it looks at"
        if change is not None:
            self._check(change)
            self.header = change.header
            self.operations.update(change.operations)
            self.rows.update((event.number, event) for event in change.events)
            assert self.header.pending == (sum(map(is_pending, self.operations.values())) if self.is_open else 0)
        return answer

    def _all(self) -> tuple[Execution, dict[str, Operation], dict[int, Event]]:
        return self.header, dict(self.operations), dict(self.rows)

    def _check(self, change: Change) -> None:
        old, new = self.header, change.header
        assert new.revision == old.revision + 1, "every write moves the revision"
        for op in change.operations.values():
            was = self.operations.get(op.id)
            beat = was is not None and msgspec.structs.replace(was, due_at=op.due_at) == op
            assert op.revision == new.revision or beat, "only a timer may be set anew without telling of it"
        assert not {event.number for event in change.events} & set(self.rows), "history is append-only"
        shown = sorted(event.number for event in (*self.rows.values(), *change.events) if event.number <= new.events)
        assert shown == list(range(1, new.events + 1)), "EventIds have no gaps"
        times = [event.at for event in sorted((*self.rows.values(), *change.events), key=lambda event: event.number)]
        assert times == sorted(times), "event times never go back"
        assert new.due_at is None or new.due_at <= new.deadline
        if new.state is not State.CLOSED:
            assert not [event for event in change.events if event.type in TERMINAL and event.number <= new.events]

    @property
    def is_open(self) -> bool:
        return self.header.status == "RUNNING"

    @property
    def history(self) -> list[Event]:
        """What a reader of the history sees."""
        return [self.rows[number] for number in sorted(self.rows) if number <= self.header.events]

    @property
    def story(self) -> list[EventType]:
        return [event.type for event in self.history]

    @property
    def position(self) -> Position:
        """Where the live invocation stands, having seen everything."""
        return Position(self.header.id, self.header.epoch, self.header.sequence, self.header.revision)

    def claim(self, runner: str, now: int, dead: Iterable[str] = (), *, alone: bool = False) -> Execution:
        answer = self.do(Claim(self.header.id, Claimant(runner, f"{runner}-{self.header.epoch + 1}"), frozenset(dead), alone), now)
        assert isinstance(answer, Execution)
        return answer

    def checkpoint(self, *updates: Update, now: int, at: Position | None = None, client: str | None = None) -> Checkpointed:
        answer = self.do(Checkpoint(at or self.position, updates, client), now)
        assert isinstance(answer, Checkpointed)
        return answer


def update(kind: Type, action: Action, operation_id: str = "a", **set_to: object) -> Update:
    """An update with what its kind cannot do without."""
    needed: dict[str, object] = {}
    if (kind, action) == (Type.STEP, Action.RETRY):
        needed["delay_seconds"] = 5
    if (kind, action) == (Type.WAIT, Action.START):
        needed["wait_seconds"] = 10
    return Update(id=operation_id, type=kind, action=action, **(needed | set_to))  # type: ignore[arg-type]
