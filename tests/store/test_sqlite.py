"""The embedded store: the suite, and what only SQLite, its file and its lock files can get wrong."""

import contextlib
import fcntl
import functools
import os
import selectors
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import DiskFull, HoldfastError, InvalidParameter, StoreBroken, StoreBusy, StoreUnsuitable
from holdfast.model.operations import Action, Status
from holdfast.model.verbs import Checkpointed
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter
from holdfast.store.sqlite import connection as opening_module
from holdfast.store.sqlite import presence as sharing
from holdfast.store.sqlite import turnstile
from holdfast.store.sqlite.schema_migrations import SCHEMA_VERSION
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores import Opening, SharedStoreSuite, StoreSuite
from holdfast.testing.stores.writes import (
    LEASE,
    T0,
    after,
    answers,
    checkpoint,
    live,
    now_at,
    started,
    step,
    story,
    wanted,
)
from tests.store.children import child, heard, told
from tests.store.files import quick_store


class TestSqlite(SharedStoreSuite):
    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[Opening]:
        with contextlib.ExitStack() as stores:
            yield lambda member: stores.enter_context(contextlib.closing(quick_store(tmp_path / "holdfast.db", member)))


class TestSqliteMemory(StoreSuite):
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        with contextlib.ExitStack() as stores:
            yield lambda member: stores.enter_context(contextlib.closing(SqliteStore(":memory:", member)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path), "here")
    store.join("here", LEASE)
    yield store
    store.close()


def refusal(path: Path) -> HoldfastError:
    with pytest.raises(HoldfastError) as refused:
        SqliteStore(str(path), "here")
    assert str(path) in str(refused.value), "a person must know which file is meant"
    return refused.value


@contextlib.contextmanager
def killed_afterwards(*processes: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# --- opening -----------------------------------------------------------------------------------------------------------------


def test_a_store_of_a_newer_schema_that_we_cannot_bear_is_refused_and_left_alone(path: Path) -> None:
    SqliteStore(str(path), "here").close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'least'")
        connection.commit()
    refused = refusal(path)
    assert (type(refused), refused.code) == (StoreUnsuitable, "store_unsuitable")
    assert "99" in str(refused)
    assert str(SCHEMA_VERSION) in str(refused)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)
    assert isinstance(refusal(path), StoreUnsuitable)
    assert path.read_bytes() == b"Dear diary, " * 1000


def test_somebody_elses_database_is_refused_and_left_as_it_was(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE diary (day TEXT)")
    before = path.read_bytes()
    assert isinstance(refusal(path), StoreUnsuitable)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_said_clearly(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):  # root may write anywhere but here
        folder = Path("/proc/self")
    refused = refusal(folder / "holdfast.db")
    assert (type(refused), refused.code) == (StoreBroken, "store_broken")


def test_a_folder_that_is_not_there_is_said_clearly(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path / "nowhere" / "holdfast.db"), StoreBroken)


def test_lock_files_that_cannot_be_made_are_said_clearly(path: Path) -> None:
    Path(f"{path}-holdfast").write_text("in the way")
    assert isinstance(refusal(path), StoreBroken)


@pytest.mark.skipif(not Path("/proc/mounts").exists(), reason="this system does not tell what lies where")
def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()}
    monkeypatch.setattr(opening_module, "_REMOTE", kinds)
    refused = refusal(path)
    assert isinstance(refused, StoreUnsuitable)
    assert "network" in str(refused)


def test_an_address_of_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="postgres"):
        open_store("mysql://somewhere/db", "here")


def test_a_write_is_on_disk_when_it_is_answered(store: SqliteStore) -> None:
    for connection in (store._writer, store._reader):
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "2 is FULL"


def test_several_processes_may_make_the_store_at_the_same_moment(path: Path) -> None:
    makers = [child("make", path, f"maker-{n}") for n in range(4)]
    with killed_afterwards(*makers):
        assert {heard(maker) for maker in makers} == {"ready"}
        for maker in makers:
            told(maker)
        sealed = {heard(maker) for maker in makers}
        assert len(sealed) == 1, "one key for all"
        assert "" not in sealed


def test_a_store_that_somebody_is_making_is_not_taken_for_a_strangers_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = threading.Thread(target=lambda: SqliteStore(str(path), "maker").close())

    class Interrupted(sqlite3.Connection):
        """Lets the maker finish between two looks at the file, if it can."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *values)
            if sql == "PRAGMA application_id" and threading.current_thread() is not maker and not maker.ident:
                maker.start()
                maker.join(1)
            return found

    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Interrupted))
    SqliteStore(str(path), "here").close()
    maker.join()


def test_closing_twice_closes_nobody_elses_files(path: Path) -> None:
    store = SqliteStore(str(path), "here")
    store.close()
    theirs = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]  # they get the numbers that were just given back
    store.close()
    for number in theirs:
        os.fstat(number)
        os.close(number)


# --- other processes ---------------------------------------------------------------------------------------------------------


def test_a_killed_process_is_noticed_at_once(store: SqliteStore, path: Path) -> None:
    holder = child("hold", path, "there")
    with killed_afterwards(holder):
        assert heard(holder) == "holding"
        assert store.dead(T0) == frozenset()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert store.dead(T0) == {"there"}, "long before its lease is over"


def test_a_dead_process_leaves_no_file_behind(store: SqliteStore, path: Path) -> None:
    holder = child("hold", path, "there")
    with killed_afterwards(holder):
        assert heard(holder) == "holding"
    store.dead(T0)
    assert sorted(entry.name for entry in Path(f"{path}-holdfast").iterdir()) == ["here.alive", "next", "turn"]


def test_a_process_killed_while_it_came_leaves_no_file_behind(store: SqliteStore, path: Path) -> None:
    folder = Path(f"{path}-holdfast")
    left, coming = folder / "left.coming", folder / "comes.coming"
    left.touch()
    with coming.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        store.dead(T0)
        assert (left.exists(), coming.exists()) == (False, True)


def test_a_process_whose_file_is_taken_for_a_dead_ones_while_it_comes_makes_another(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    seen: list[str] = []

    def flock(fd: int, how: int) -> None:
        """Between the making of the file and its lock another process first holds the file, then has removed it."""
        coming = list(Path(f"{path}-holdfast").glob("*.coming"))
        if coming and len(seen) < 2:
            seen.append("held" if not seen else "removed")
            if seen[-1] == "held":
                raise BlockingIOError
            coming[0].unlink()
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with contextlib.closing(SqliteStore(str(path), "there")) as there:
        assert seen == ["held", "removed"]
        there.join("there", LEASE)
        live(there, "a", runner="there")
        assert store.dead(T0) == frozenset()


def test_a_forked_child_does_not_keep_its_parent_alive(store: SqliteStore, path: Path) -> None:
    parent = child("fork", path, "there")
    with killed_afterwards(parent):
        born = int(heard(parent))
        assert store.dead(T0) == frozenset()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        os.kill(born, 0)  # the child still lives
        assert store.dead(T0) == {"there"}


def test_a_forked_child_that_closes_does_not_take_its_parents_sign_of_life(path: Path) -> None:
    """Run in a process of its own, because a fork of this one would carry pytest along."""
    code = """
import os, sys
from pathlib import Path
from holdfast.store.sqlite.presence import Presence
presence = Presence(Path(sys.argv[1]), "me")
born = os.fork()
if not born:
    presence.close()
    os._exit(0)
os.waitpid(born, 0)
other = Presence(Path(sys.argv[1]), "other")
sys.stdout.write(",".join(sorted(other.living())))
"""
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True)
    assert ran.stdout == "me,other"


def test_a_store_finds_its_neighbours_while_threads_of_its_process_open_and_close_theirs(path: Path) -> None:
    here = sharing.Presence(path, "here")
    done = threading.Event()

    def open_and_close(number: int) -> None:
        while not done.is_set():
            beside = [sharing.Presence(path, f"beside {number} {which}") for which in range(8)]
            for presence in beside:
                assert presence._process is here._process
                presence.close()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            openers = [threads.submit(open_and_close, number) for number in range(2)]
            try:
                for _ in range(20_000):
                    assert here in here._of_this_process()
            finally:
                done.set()
        for opener in openers:
            opener.result()
    finally:
        sys.setswitchinterval(interval)
        here.close()


def test_two_saturating_processes_get_fair_turns(store: SqliteStore, path: Path) -> None:
    """Without the turnstile one of them waits for as long as the other has something to write."""
    count = 100
    writers = {name: child("saturate", path, name, str(count)) for name in ("one", "two")}
    with killed_afterwards(*writers.values()):
        assert {heard(writer) for writer in writers.values()} == {"ready"}
        for writer in writers.values():
            told(writer)
        with selectors.DefaultSelector() as selector:
            for writer in writers.values():
                assert writer.stdout is not None
                selector.register(writer.stdout, selectors.EVENT_READ)
            assert selector.select(timeout=60), "neither is done"
        done = {name: len(store.list(Filter(function=name, limit=30 * count))) / 30 for name in writers}
        assert max(done.values()) == count
        assert min(done.values()) >= count / 4, done


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", ["next", "turn"])
def test_a_process_stopped_in_the_turnstile_stops_nobody_else(store: SqliteStore, path: Path, where: str) -> None:
    stopped = child("stand", path, "stopped", where)
    with killed_afterwards(stopped):
        assert heard(stopped) == "standing"
        stopped.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
        writers = {name: child("saturate", path, name, "20") for name in ("one", "two")}
        with killed_afterwards(*writers.values()):
            assert {heard(writer) for writer in writers.values()} == {"ready"}
            for writer in writers.values():
                told(writer)
            assert {heard(writer) for writer in writers.values()} == {"done"}
        assert {len(store.list(Filter(function=name, limit=5000))) for name in writers} == {20 * 30}
        assert store.dead(T0) == frozenset()


def test_the_turnstile_is_waited_for_in_vain_once_and_works_again_when_it_is_free(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that memory each write of every process would wait the whole patience as long as one process is stopped in the turnstile."""
    waits: list[float] = []

    def select(*given: object) -> None:
        waits.append(0)

    monkeypatch.setattr("select.select", select)
    monkeypatch.setattr(turnstile, "monotonic", lambda: len(waits) / 100)  # a hundredth of a second in each pause
    other = child("hold", path, "there")
    with killed_afterwards(other), Path(f"{path}-holdfast", "turn").open("w") as turn:
        assert heard(other) == "holding"
        fcntl.flock(turn, fcntl.LOCK_EX)
        started(store, "a")
        assert len(waits) == 25, "a quarter of a second"
        started(store, "b")
        assert len(waits) == 25, "and no more"
        fcntl.flock(turn, fcntl.LOCK_UN)
        started(store, "c")
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the store gave it back
        started(store, "d")
        assert len(waits) == 50


def test_a_process_that_is_alone_skips_the_turnstile_and_a_second_one_ends_that(store: SqliteStore, path: Path) -> None:
    assert alone(store)
    other = child("hold", path, "there")
    with killed_afterwards(other):
        assert heard(other) == "holding"
        started(store, "a")
        assert not alone(store)
    store.dead(T0)
    assert alone(store)


def test_a_process_with_two_stores_is_alone_and_takes_no_lock_file_before_a_write(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `holdfast serve`, which opens the store for its runner and for its console."""
    with contextlib.closing(SqliteStore(str(path), "there")) as other:
        store.dead(T0)
        assert alone(store)
        assert alone(other)
        monkeypatch.setattr(fcntl, "flock", pytest.fail)
        for n in range(3):  # each store notices the write of the other one, and looks for processes again
            started(store, f"a{n}")
            started(other, f"b{n}")
            assert (store.changed(), other.changed()) == (True, True)
        monkeypatch.undo()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "opened beside a process that has ended"])
def test_two_saturating_stores_of_one_process_get_fair_turns(path: Path, beside: bool) -> None:
    count = 100
    stores = {"one": SqliteStore(str(path), "one")}
    if beside:
        other = child("hold", path, "there")
        with killed_afterwards(other):
            assert heard(other) == "holding"
            stores["two"] = SqliteStore(str(path), "two")
        stores["one"].dead(T0)  # as a runner asks each second; a console does not
    else:
        stores["two"] = SqliteStore(str(path), "two")
    batches = {name: [[wanted(f"{n}-{m}", function=name) for m in range(30)] for n in range(count)] for name in stores}
    committed = dict.fromkeys(stores, 0)
    together = threading.Barrier(2)

    def saturate(name: str) -> dict[str, int]:
        together.wait()
        for batch in batches[name]:
            stores[name].commit(batch, LEASE)
            committed[name] += 1
        return dict(committed)

    with ThreadPoolExecutor(2) as threads:
        first = min((ended.result() for ended in [threads.submit(saturate, name) for name in stores]), key=lambda seen: sum(seen.values()))
    for store in stores.values():
        store.close()
    assert max(first.values()) == count
    assert min(first.values()) >= count / 4, first


def alone(store: SqliteStore) -> bool:
    """Whether the store's process is the only one that has the file open, as far as the store has noticed."""
    store.changed()
    return store._presence is not None and store._presence.alone


# --- when the disk says no ---------------------------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_on_disk_answers_nobody_and_loses_nothing(store: SqliteStore) -> None:
    large, small = live(store, "large", step("s")), live(store, "small")
    (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {pages}")
    batch = (checkpoint(small, step("s")), checkpoint(large, step("s", Action.SUCCEED, payload="x" * 1_000_000)))
    with pytest.raises(DiskFull, match="no space left") as refused:
        answers(store, *batch)
    assert refused.value.code == "disk_full"
    assert [op.status for op in store.operations(large.id)] == [Status.STARTED]
    assert list(store.operations(small.id)) == []
    store._writer.execute("PRAGMA max_page_count = 1000000")
    assert all(isinstance(answer, Checkpointed) for answer in answers(store, *batch)), "the tokens were not used up"
    assert [op.status for op in store.operations(large.id)] == [Status.SUCCEEDED]
    assert len(story(store, large)) == 3


def test_a_failed_commit_drops_what_was_in_memory(store: SqliteStore, path: Path) -> None:
    header = live(store, "a", step("s"))

    def no_commit(action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if (action, what) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK

    store._writer.set_authorizer(no_commit)
    with pytest.raises(StoreBroken):
        after(store, header, step("s", Action.SUCCEED, payload="1"))
    assert store._views == {}, "it is unknown what the file holds now"
    assert not store._writer.in_transaction
    store._writer.set_authorizer(None)
    assert now_at(store, header) == header
    with contextlib.closing(SqliteStore(str(path), "there")) as other:
        assert [op.status for op in other.operations(header.id)] == [Status.STARTED]
    after(store, header, step("s", Action.SUCCEED, payload="2"))
    assert [(op.status, op.result) for op in store.operations(header.id)] == [(Status.SUCCEEDED, "2")]


def test_a_store_locked_by_somebody_else_is_busy_and_goes_on_afterwards(store: SqliteStore, path: Path) -> None:
    header = live(store, "a")
    store._writer.execute("PRAGMA busy_timeout = 1")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rude:
        rude.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as refused:
            after(store, header, step("s"))
        assert refused.value.code == "store_busy"
    assert [op.id for op in store.operations(after(store, header, step("s")).id)] == ["s"]
