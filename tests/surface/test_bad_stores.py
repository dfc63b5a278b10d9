"""Files that cannot be a store, or not any more: a clear line with a stable code through both doors, no traceback, nothing written."""

from __future__ import annotations

import contextlib
import ctypes
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as library
from holdfast.model.errors import HoldfastError
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from holdfast.store.sqlite.schema_migrations import SCHEMA_VERSION
from tests.surface.cli_program import FUNCTIONS, PATIENCE_SECONDS, PROGRAM, Program

_PAGE = 2048
_DROP_CAPABILITY, _OVERRIDE_PERMISSIONS, _READ_ANYTHING = 24, 1, 2


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a store with a few executions, some of them over."""
    folder = tmp_path_factory.mktemp("good")
    with library.open(folder / "holdfast.db", functions=[echo, asks]) as engine:
        for number in range(6):
            engine.start(echo, {"number": number}, name=f"done-{number}").result()
        waiting = engine.start(asks, name="waiting")
        while not waiting.describe().waits_for:
            pass
    return (folder / "holdfast.db").read_bytes()


@library.durable_execution
def echo(event: Any, context: Any) -> Any:
    return [context.step(lambda _: "x" * 500, name="long"), context.step(lambda _: event, name="back")]


@library.durable_execution
def asks(event: Any, context: Any) -> Any:
    return context.create_callback(name="answer").result()


# --- what can be wrong -------------------------------------------------------------------------------------------------------


def _text(path: Path, good: bytes) -> None:
    path.write_text("these are my notes, and they are longer than nothing\n" * 40)


def _somebody_elses(path: Path, good: bytes) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (x)")


def _of_version(version: int) -> Callable[[Path, bytes], None]:
    def make(path: Path, good: bytes) -> None:
        path.write_bytes(good)
        with contextlib.closing(sqlite3.connect(path)) as rows:
            rows.execute(f"PRAGMA user_version = {version}")
            rows.execute("UPDATE meta SET value = ? WHERE key = 'least'", (version,))
            rows.commit()
            rows.execute("PRAGMA journal_mode = DELETE")  # one file, so that its bytes are all there is
            rows.execute("PRAGMA journal_mode = WAL")

    return make


def _truncated(path: Path, good: bytes) -> None:
    path.write_bytes(good[: len(good) // 2])


def _garbled(path: Path, good: bytes) -> None:
    path.write_bytes(good[:_PAGE] + random.Random(1).randbytes(len(good) - _PAGE))


def _folder(path: Path, good: bytes) -> None:
    path.mkdir()


BAD: dict[str, tuple[Callable[[Path, bytes], None], str, str]] = {
    "no database": (_text, "store_unsuitable", "is not a SQLite database"),
    "another program's": (_somebody_elses, "store_unsuitable", "not a Holdfast store"),
    "from the future": (_of_version(99), "store_unsuitable", f"code of version 99 or newer; this Holdfast has version {SCHEMA_VERSION}"),
    "from the past": (_of_version(1), "store_unsuitable", "has schema version 1; this Holdfast migrates version 6"),
    "truncated": (_truncated, "store_broken", "is damaged"),
    "garbled": (_garbled, "store_broken", "is damaged"),
    "a folder": (_folder, "store_unsuitable", "is a folder. Name a file in it."),
}
every_bad_store = pytest.mark.parametrize("kind", BAD)


def left_in(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@every_bad_store
def test_the_command_line_says_what_is_wrong_with_a_file_and_leaves_it_alone(kind: str, good: bytes, tmp_path: Path) -> None:
    make, code, told = BAD[kind]
    program = Program(tmp_path)
    make(tmp_path / "bad.db", good)
    (tmp_path / "bad.db").chmod(0o700 if kind == "a folder" else 0o600)  # what is wider is narrowed, with a line of its own
    before = left_in(tmp_path)
    for words in (["executions", "list"], ["run", "functions.py:greet"]):
        ended = program(*words, "--store", "bad.db")
        assert (ended.returncode, ended.stdout) == (3, "")
        assert ended.stderr.startswith(f"error[{code}]: bad.db ")
        assert told in ended.stderr
        assert ended.stderr.count("\n") == 1
    assert _but_caches(left_in(tmp_path)) == before


@every_bad_store
def test_opening_such_a_file_in_a_program_is_an_error_that_says_so(kind: str, good: bytes, tmp_path: Path) -> None:
    make, code, told = BAD[kind]
    make(tmp_path / "bad.db", good)
    before = left_in(tmp_path)
    for opening in (_opened_engine, Client.open):
        with pytest.raises(HoldfastError) as refused:
            opening(str(tmp_path / "bad.db"))
        assert refused.value.code == code
        assert told in str(refused.value)
    assert left_in(tmp_path) == before


def _opened_engine(where: str) -> object:
    return library.open(where, functions=[echo]).__enter__()


def _but_caches(left: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {path: content for path, content in left.items() if "__pycache__" not in path}


# --- what may not be written -------------------------------------------------------------------------------------------------


def powerless() -> None:
    """Even root obeys permissions without these two capabilities; another user does not have them."""
    libc = ctypes.CDLL(None)
    for capability in (_OVERRIDE_PERMISSIONS, _READ_ANYTHING):
        libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


def run_powerless(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        preexec_fn=powerless if sys.platform == "linux" else None,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


API = """
import holdfast, sys
from functions import greet
try:
    with holdfast.open("store/holdfast.db", functions=[greet]) as engine:
        engine.start(greet, {"who": "you"})
except holdfast.HoldfastError as error:
    sys.exit(f"{error.code}: {error}")
"""


@pytest.mark.parametrize(
    "file, folder, told",
    [
        (0o444, 0o755, "Holdfast writes to a store even if it only reads it: change its permissions."),
        (0o644, 0o555, "is in a folder that this user may not write: "),
        (0o000, 0o755, "Holdfast writes to a store even if it only reads it: change its permissions."),
        (None, 0o555, "is in a folder that this user may not write: "),
    ],
    ids=["the file", "its folder", "no permission at all", "a folder without it"],
)
def test_a_store_that_may_not_be_written_is_said_clearly_and_left_alone(
    file: int | None, folder: int, told: str, good: bytes, tmp_path: Path
) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    store = tmp_path / "store" / "holdfast.db"
    store.parent.mkdir()
    if file is not None:
        store.write_bytes(good)
        store.chmod(file)
    store.parent.chmod(folder)
    try:
        looked = [[*PROGRAM, "executions", "list", "--store", "store/holdfast.db"]] if file is not None else []
        for command in (*looked, [*PROGRAM, "run", "functions.py:greet", "--store", "store/holdfast.db"], [sys.executable, "-c", API]):
            ended = run_powerless(tmp_path, *command)
            assert (ended.returncode, ended.stdout) == (1 if command[-1] == API else 3, ""), ended
            assert "store_broken" in ended.stderr
            assert told in ended.stderr
            assert ended.stderr.count("\n") == 1
    finally:
        store.parent.chmod(0o755)
    if file is not None:
        store.chmod(0o644)
    assert left_in(store.parent) == ({} if file is None else {"holdfast.db": good})


def test_a_store_in_a_folder_that_is_not_there_is_said_clearly(tmp_path: Path) -> None:
    ended = Program(tmp_path)("run", "functions.py:greet", "--store", "nowhere/holdfast.db")
    told = "error[store_broken]: nowhere/holdfast.db could not be opened: there is no folder nowhere. Make it first.\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", told)
    assert not (tmp_path / "nowhere").exists()


# --- damage that shows only later --------------------------------------------------------------------------------------------


def _damaged(good: bytes, page: int, chance: random.Random) -> bytes:
    """A page of nonsense, or a few wrong bytes anywhere in it."""
    spoilt = bytearray(good)
    if chance.random() < 0.5:
        spoilt[page * _PAGE : (page + 1) * _PAGE] = chance.randbytes(_PAGE)
    else:
        for _ in range(chance.randint(1, 30)):
            spoilt[page * _PAGE + chance.randrange(_PAGE)] = chance.randrange(256)
    return bytes(spoilt)


def test_damage_to_any_page_is_an_error_of_ours_wherever_it_is_met(good: bytes, tmp_path: Path) -> None:
    """Never one of SQLite's, or of whatever stumbled over it first."""
    chance = random.Random(2026)
    met: Counter[str] = Counter()
    for page in range(len(good) // _PAGE):
        for number in range(3):
            where = tmp_path / f"{page}-{number}.db"
            where.write_bytes(_damaged(good, page, chance))
            try:
                _read_everything(str(where))
            except HoldfastError as trouble:
                met[trouble.code] += 1
    known = {"store_broken", "row_damaged", "store_unsuitable", "payload_not_json"}  # the last: a text that is not JSON any more
    assert met.keys() <= known
    assert met["store_broken"] + met["row_damaged"] > len(good) // _PAGE // 2, "hardly any damage was met"


def _read_everything(where: str) -> None:
    with Client.open(where) as client:
        for header in list(client.list(Filter(limit=100))):
            client.describe(header.id)
            client.history(header.id)
            client.export(header.id)
        list(client.queues.list())
        list(client.queues.parked(None))
        list(client.schedules.list())


def test_a_damaged_row_is_one_line_on_the_command_line(good: bytes, tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").write_bytes(good.replace(b"ExecutionStarted", b"ExecutionStxrted"))
    (tmp_path / "holdfast.db").chmod(0o600)
    ended = Program(tmp_path)("executions", "history", "echo/done-1")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith("error[row_damaged]: A row of the store is damaged: KeyError('ExecutionStxrted').")
    assert ended.stderr.count("\n") == 1
