"""Writes for the suite's tests: they start, claim, suspend and close executions, only through the store's seam.

A backend's own tests may use them too. Each function makes the writes that a runner would make, at fixed times.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome, OutcomeStatus, Terms
from holdfast.model.history import EventType
from holdfast.model.ids import Ids, Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Failure, Type, Update
from holdfast.model.verbs import Answer, Checkpoint, Claim, Settle, Start, Started, Write
from holdfast.store.seam import Store, Target

T0 = 1_767_225_600_000
"""The time at which the tests begin, in milliseconds since 1970."""
SECOND = 1_000
DAY = 86_400_000
LEASE = T0 + 10 * SECOND
"""The time until which the runners of the tests count as alive."""
ORDER = (Target("order", "$LATEST"),)
"""The function that the runners of the tests host."""
NO_END = "`expire` returned 1,000 times that it removed something"
OOPS = Failure("boom", "Oops", "data", ("line 1", "line 2"))


def at(seconds: float) -> int:
    """The time this many seconds after T0."""
    return T0 + int(seconds * SECOND)


def id_at(now: int) -> str:
    """A random id that contains the time `now`."""
    return Ids(Random())(now)


# --- executions --------------------------------------------------------------------------------------------------------------


def wanted(name: str, text: str = "{}", /, **set_to: object) -> Start:
    """A start of an execution with this name and this input, without a claim. `set_to` replaces fields of its header."""
    asked: dict[str, object] = {
        "id": id_at(T0), "function": "order", "version": "$LATEST", "name": name, "input_hash": codec.payload_hash(text),
        "terms": Terms(3600), "started_at": T0, "deadline": 0,
    }  # fmt: skip
    return Start(Execution(**(asked | set_to)), text)  # type: ignore[arg-type]


def answers(store: Store, *batch: Write, now: int = T0) -> list[Answer | HoldfastError]:
    """Write a batch, and return the answers, one for each entry."""
    return list(store.commit(batch, now).answers)


def written(store: Store, write: Write, now: int = T0) -> Execution:
    """Write a batch with this one entry, and return the header after it. If the store refuses the entry, its error is raised."""
    (answer,) = answers(store, write, now=now)
    if isinstance(answer, HoldfastError):
        raise answer
    if isinstance(answer, Execution):
        return answer
    found = store.find(write.execution)
    assert found is not None, "an acknowledged execution is missing"
    return found


def started(store: Store, name: str, now: int = T0, **set_to: object) -> Execution:
    """Start an execution that waits for a runner, and return it. `set_to` replaces fields of its header."""
    (answer,) = answers(store, wanted(name, "{}", **{"id": id_at(now), "started_at": now} | set_to), now=now)
    assert isinstance(answer, Started)
    return answer.header


def live(store: Store, name: str, *updates: Update, runner: str = "here") -> Execution:
    """Start an execution whose first invocation is live, write these updates, and return its header after them."""
    asked = wanted(name)
    header = written(store, msgspec.structs.replace(asked, by=Claimant(runner, f"{runner}-1")))
    return after(store, header, *updates) if updates else header


def after(store: Store, header: Execution, *updates: Update, now: int = T0) -> Execution:
    """Write a checkpoint with these updates, and return the header after it."""
    return written(store, checkpoint(header, *updates), now)


def suspended(store: Store, name: str, *updates: Update, runner: str = "here") -> Execution:
    """Start an execution, write these updates in its first invocation, suspend it, and return its header."""
    header = live(store, name, *updates, runner=runner)
    return written(store, settled(header, Outcome(OutcomeStatus.PENDING)), at(1))


def closed(store: Store, name: str, steps: int = 0, now: int = T0, retention_days: int = 1, **set_to: object) -> Execution:
    """Start an execution with this many steps, let it succeed, and return its header. Each step leaves one operation and one event.
    `retention_days`: how long the store keeps the execution after its end. `set_to` replaces fields of its header."""
    asked = wanted(name, "{}", terms=Terms(3600, retention_days), **{"id": id_at(now), "started_at": now} | set_to)
    header = written(store, msgspec.structs.replace(asked, by=Claimant("here", f"here-{name}")), now)
    for n in range(steps):
        update = Update(id=f"s{n}", type=Type.STEP, action=Action.SUCCEED, payload=f'"{name} {n}"')
        header = after(store, header, update, now=now)
    return written(store, settled(header, Outcome(OutcomeStatus.SUCCEEDED, f'"{name}"')), now)


def forgotten(store: Store, now: int = T0, limit: int = 100) -> int:
    """Remove everything whose time is over at `now`, such as executions past their retention. Each step removes about `limit` rows. Returns
    the number of steps that removed something."""
    count = 0
    while store.expire(now, limit):
        count += 1
        assert count < 1000, NO_END
    return count


# --- writes ------------------------------------------------------------------------------------------------------------------


def position(header: Execution) -> Position:
    """The position of an invocation's next checkpoint."""
    return Position(header.id, header.epoch, header.sequence, header.revision)


def checkpoint(header: Execution, *updates: Update, client: str | None = None) -> Checkpoint:
    """The next checkpoint of a live invocation, not yet written. `client` is its client token; the store recognizes a repeated request by
    it."""
    return Checkpoint(position(header), updates, client)


def settled(header: Execution, outcome: Outcome, seen: int | None = None) -> Settle:
    """The end of an invocation that has seen everything up to the revision `seen`; None: up to the revision of the header."""
    revision = header.revision if seen is None else seen
    return Settle(execution=header.id, epoch=header.epoch, invocation=header.invocation or "", seen=revision, outcome=outcome)


def claim(header: Execution, runner: str, *dead: str) -> Claim:
    """A claim of this execution by `runner`. The runners in `dead` are known to be dead."""
    return Claim(header.id, Claimant(runner, f"{runner}-{header.epoch + 1}"), frozenset(dead))


def step(operation_id: str, action: Action = Action.START, **set_to: object) -> Update:
    """An update of a step. `set_to` sets other fields of the update, such as its payload."""
    return Update(id=operation_id, type=Type.STEP, action=action, **set_to)  # type: ignore[arg-type]


def wait(name: str, seconds: int = 10) -> Update:
    """An update that begins a wait of this many seconds."""
    return Update(id=name, type=Type.WAIT, action=Action.START, wait_seconds=seconds)


def callback(name: str, timeout: int = 0, heartbeat: int = 0) -> Update:
    """An update that begins a callback. `timeout` and `heartbeat` are in seconds; 0: there is none."""
    return Update(id=name, type=Type.CALLBACK, action=Action.START, timeout_seconds=timeout, heartbeat_seconds=heartbeat)


def execution_succeeds(result: str) -> Update:
    """An update that closes the execution before its invocation returns."""
    return Update(id="execution-result-1", type=Type.EXECUTION, action=Action.SUCCEED, payload=result)


# --- reading ----------------------------------------------------------------------------------------------------------------


def now_at(store: Store, header: Execution) -> Execution:
    """The header of this execution as the store has it now."""
    found = store.find(header.id)
    assert found is not None, f"{header.name} is not there"
    return found


def story(store: Store, header: Execution) -> list[EventType]:
    """The kinds of an execution's events. Checks that the numbers have no gaps and that times never decrease."""
    lines = store.history(header.id)
    assert [line.event.number for line in lines] == list(range(1, len(lines) + 1)), "numbered from 1 without gaps"
    times = [line.event.at for line in lines]
    assert times == sorted(times), "times never go back"
    return [line.event.type for line in lines]


def names(found: Iterable[Execution]) -> list[str]:
    """The names of these executions."""
    return [execution.name for execution in found]
