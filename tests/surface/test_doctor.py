"""`holdfast doctor` finds what is really wrong, says which command mends it, changes nothing, and never crashes."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sqlite3
import stat
import subprocess
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast.model.clock import SystemClock
from holdfast.operator.trust import configuration_folder
from holdfast.store.sqlite.store import SqliteStore
from tests.postgres import new_schema
from tests.store.released import migrated, old_postgres, old_sqlite
from tests.surface.cli_program import Program

Found = dict[str, tuple[str, str, str | None]]


class Doctor:
    """The command in a folder of its own, with a configuration of its own and a port that is free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.folder.mkdir(mode=0o755)
        self.program = Program(self.folder)
        self.program.environment |= {"XDG_CONFIG_HOME": str(folder / "configuration"), "HOME": str(folder)}
        self.program.environment.pop("HOLDFAST_CONFIG", None)
        self.configuration = configuration_folder(self.program.environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    @property
    def store(self) -> Path:
        return self.folder / "holdfast.db"

    def make_store(self) -> None:
        SqliteStore(str(self.store), "test").close()

    def __call__(self, *words: str, code: int | None = None) -> Found:
        """What it says, by check: level, sentence, command. Where a check says several things, the worst counts."""
        ended = self.program("doctor", "--json", *(() if "--port" in words else ("--port", self.port)), *words)
        assert ended.returncode in (0, 3), ended.stderr
        told = json.loads(ended.stdout)
        ranks = ["ok", "warning", "problem"]
        found: Found = {}
        for one in sorted(told["checks"], key=lambda one: ranks.index(one["level"])):
            found[one["check"]] = one["level"], one["said"], one["mend"]
        assert all((mend is None) == (level == "ok") for level, _, mend in found.values()), found
        assert (told["problems"] > 0) == (ended.returncode == 3)
        assert code is None or ended.returncode == code, found
        return found

    def mended(self, command: str | None) -> None:
        """Type the command that the doctor named."""
        assert command is not None
        subprocess.run(["sh", "-c", command], cwd=self.folder, check=True)


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    tmp_path.chmod(0o755)
    return Doctor(tmp_path)


def test_a_sound_place_has_no_problem_and_stays_as_it_is(doctor: Doctor) -> None:
    doctor.make_store()
    before = {path.name: path.read_bytes() for path in doctor.folder.iterdir() if path.is_file()}
    found = doctor(code=0)
    assert {name for name, (level, _, _) in found.items() if level != "ok"} <= {"user", "memory", "disk", "sandbox", "extra server"}
    assert found["store"][1].startswith("holdfast.db can be opened and has ")
    assert {path.name: path.read_bytes() for path in doctor.folder.iterdir() if path.is_file()} == before
    assert not doctor.configuration.exists()


def test_each_line_has_a_word_a_sentence_and_a_command(doctor: Doctor) -> None:
    doctor.make_store()
    doctor.store.chmod(0o644)
    ended = doctor.program("doctor", "--port", doctor.port)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 3
    assert all(line.split()[0] in ("ok", "warning", "problem") for line in lines)
    (line,) = [line for line in lines if line.startswith("problem")]
    assert line == (
        "problem  permissions: holdfast.db has mode 0644, so other users can use it; it must have 0600. Mend it with: chmod 600 holdfast.db"
    )
    assert ended.stderr.splitlines()[-1].startswith(f"{len(lines)} checks: 1 problem, ")


@pytest.mark.parametrize("name, mode, right", [("holdfast.db", 0o644, 0o600), ("holdfast.db.workers", 0o755, 0o700)])
def test_a_file_that_others_can_read_is_found_left_and_mended_by_the_command(doctor: Doctor, name: str, mode: int, right: int) -> None:
    doctor.make_store()
    path = doctor.folder / name
    if not path.exists():
        path.mkdir()
    path.chmod(mode)
    found = doctor(code=3)
    assert found["permissions"][0] == "problem"
    assert found["store"][0] == "warning"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    doctor.mended(found["permissions"][2])
    assert stat.S_IMODE(path.stat().st_mode) == right
    assert doctor(code=0)["store"][0] == "ok"


def test_a_record_of_trust_that_others_can_read_does_not_keep_the_doctor_from_the_store(doctor: Doctor) -> None:
    doctor.make_store()
    assert doctor.program("trust", ".").returncode == 0
    (doctor.configuration / "trusted.json").chmod(0o644)
    found = doctor(code=3)
    assert found["permissions"][0] == "problem"
    assert found["store"][0] == "ok"


def test_a_folder_where_every_user_can_replace_the_store_is_a_problem(doctor: Doctor) -> None:
    doctor.folder.chmod(0o777)
    found = doctor(code=3)
    assert found["permissions"][0] == "problem"
    doctor.mended(found["permissions"][2])
    assert doctor(code=0)["permissions"][0] == "ok"


def test_a_store_of_a_newer_schema_is_a_problem(doctor: Doctor) -> None:
    doctor.make_store()
    with closing(sqlite3.connect(doctor.store)) as rows:
        rows.execute("PRAGMA user_version = 999")
        rows.execute("UPDATE meta SET value = 999 WHERE key = 'least'")
        rows.commit()
    level, said, mend = doctor(code=3)["store"]
    assert (level, mend) == ("problem", "pip install --upgrade holdfast")
    assert "has schema version 999" in said


def test_a_store_of_an_older_release_is_a_warning_and_is_not_migrated(doctor: Doctor) -> None:
    old_sqlite(doctor.folder).rename(doctor.store)
    level, said, mend = doctor(code=0)["schema"]
    assert (level, mend) == ("warning", "holdfast db migrate --store holdfast.db")
    assert "schema version 6" in said
    assert doctor.program(*shlex.split(mend or "")[1:]).returncode == 0
    assert doctor()["schema"][0] == "ok"


def test_a_file_that_is_no_store_and_a_folder_that_is_not_there_are_problems(doctor: Doctor) -> None:
    doctor.store.write_text("a letter to the editor, of more than sixteen characters")
    doctor.store.chmod(0o600)
    assert doctor(code=3)["store"][0] == "problem"
    found = doctor("--store", "not/here.db", code=3)
    assert found["store"][0] == "problem"
    doctor.mended(found["store"][2])
    assert doctor("--store", "not/here.db")["store"][0] == "ok"


def test_a_busy_port_is_a_problem_but_not_if_a_holdfast_server_has_it(doctor: Doctor) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        level, said, mend = doctor("--port", str(other.getsockname()[1]), code=3)["port"]
    assert (level, mend) == ("problem", "holdfast serve --port 0 TARGET")
    assert "Address already in use" in said
    with _healthy() as port:
        assert doctor("--port", str(port))["port"][1] == f"A Holdfast server answers on 127.0.0.1:{port}."


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status":"healthy"}')

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class _healthy:  # noqa: N801 (it reads as a verb)
    def __enter__(self) -> int:
        self._server = HTTPServer(("127.0.0.1", 0), _Healthy)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self._server.server_port

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_store_from_the_future_is_a_warning(doctor: Doctor) -> None:
    doctor.make_store()
    tomorrow = SystemClock().now() / 1000 + 86_400
    os.utime(doctor.store, (tomorrow, tomorrow))
    level, said, _ = doctor(code=0)["clock"]
    assert level == "warning"
    assert "the wall clock went back" in said


@pytest.mark.parametrize(
    "text, level, says",
    [
        ("[policy\n", "problem", "holdfast.toml"),
        ('[policy]\nisolation = "inline"\n', "warning", "these settings of it do not apply"),
        ("", "ok", "applies"),
    ],
)
def test_an_operators_file_that_is_wrong_or_not_trusted_is_told(doctor: Doctor, text: str, level: str, says: str) -> None:
    (doctor.folder / "holdfast.toml").write_text(text)
    found = doctor()
    assert found["configuration"][0] == level
    assert says in found["configuration"][1]
    if level == "warning":
        assert doctor.program(*shlex.split(found["configuration"][2] or "")[1:]).returncode == 0
        assert doctor(code=0)["configuration"][0] == "ok"


def test_a_named_file_that_is_not_there_is_a_problem(doctor: Doctor) -> None:
    level, said, mend = doctor("--config", "gone.toml", code=3)["configuration"]
    assert (level, said, mend) == ("problem", "There is no file gone.toml.", '"${EDITOR:-vi}" gone.toml')


def test_a_damaged_record_of_trust_and_a_trusted_folder_that_is_gone_are_told(doctor: Doctor) -> None:
    gone = doctor.folder / "gone"
    gone.mkdir(mode=0o755)
    assert doctor.program("trust", "gone").returncode == 0
    gone.rmdir()
    found = doctor(code=0)["trust"]
    assert found[0] == "warning"
    assert doctor.program(*shlex.split(found[2] or "")[1:]).returncode == 0
    assert doctor()["trust"][0] == "ok"
    (doctor.configuration / "trusted.json").write_text("{")
    found = doctor(code=3)["trust"]
    assert found[0] == "problem"
    doctor.mended(found[2])
    assert doctor()["trust"][0] == "ok"


@pytest.fixture
def database() -> str:
    where = new_schema()
    migrated(where)
    return where


def test_a_postgres_store_is_looked_at_with_its_clock(doctor: Doctor, database: str) -> None:
    found = doctor("--store", database, code=0)
    assert found["schema"][0] == found["store"][0] == "ok"
    assert found["store clock"][1].endswith("differ by less than a second.")


def test_an_older_postgres_store_is_a_problem(doctor: Doctor) -> None:
    level, _, mend = doctor("--store", old_postgres(), code=3)["schema"]
    assert (level, mend) == ("problem", "holdfast db migrate --store ADDRESS")


def test_an_address_with_a_password_that_is_not_encoded_is_a_problem_that_says_how_to_write_it(doctor: Doctor) -> None:
    level, said, _ = doctor("--store", "postgresql://me:sec/ret@localhost:1/db")["store"]
    assert level == "problem"
    assert "postgresql://me@localhost:1/db is not the address" in said
    assert "Write it as postgresql://user:password@host:port/database" in said
    assert "sec/ret" not in said


def test_an_address_that_does_not_answer_is_a_problem_and_its_password_stays_secret(doctor: Doctor) -> None:
    address = "postgresql://me:geheim@127.0.0.1:1/x?password=geheimer"
    ended = doctor.program("doctor", "--port", doctor.port, "--store", address)
    assert ended.returncode == 3
    assert "problem  store: postgresql://me@127.0.0.1:1/x" in ended.stdout
    assert "geheim" not in ended.stdout + ended.stderr
