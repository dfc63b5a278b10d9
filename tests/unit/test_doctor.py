"""The doctor's checks where a test cannot break the real thing: they are told a broken world."""

from __future__ import annotations

import shutil
import sys
import threading
import zoneinfo
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from holdfast.cli import doctor_machine, doctor_packages, doctor_store
from holdfast.cli.diagnoses import Diagnosis, DiagnosisLevel, Question, made, ok
from holdfast.hosts.sandbox.jail import SandboxUnavailable
from holdfast.model.clock import SystemClock, VirtualClock, monotonic
from holdfast.model.errors import StoreBroken
from holdfast.store.backends import open_maintenance
from tests.postgres import new_schema
from tests.store.released import migrated


@pytest.fixture
def question(tmp_path: Path) -> Question:
    return asked(str(tmp_path / "holdfast.db"))


def asked(where: str) -> Question:
    return Question(
        where=where, host="127.0.0.1", port=9001, config=None, environment={}, began_wall=SystemClock().now(), began_monotonic=monotonic()
    )


def only(found: Iterable[Diagnosis]) -> Diagnosis:
    (one,) = found
    return one


def test_a_check_that_fails_is_a_problem_whatever_it_raises(question: Question) -> None:
    def broken(error: BaseException) -> list[Diagnosis]:
        one = only(made("it", lambda _: _raise(error), question))
        return [one]

    for error, said in (
        (StoreBroken("It is damaged"), "error[store_broken]: It is damaged."),
        (ZeroDivisionError("division by zero"), "The check itself failed: ZeroDivisionError: division by zero."),
        (SystemExit("no"), "The check itself failed: SystemExit: no."),
    ):
        (one,) = broken(error)
        assert (one.level, one.said, one.mend) == (DiagnosisLevel.PROBLEM, said, "holdfast doctor")


def _raise(error: BaseException) -> NoReturn:
    raise error


def test_a_check_that_hangs_is_given_up_and_what_it_said_before_counts(question: Question) -> None:
    never = threading.Event()

    def hangs(_: Question) -> Iterator[Diagnosis]:
        yield ok("it", "This much is well.")
        never.wait(60)

    found = made("it", hangs, question, seconds=0.2)
    never.set()
    assert [one.level for one in found] == [DiagnosisLevel.OK, DiagnosisLevel.PROBLEM]
    assert found[1].said == "The check did not end within 0.2 s."


def test_a_missing_extra_is_told_with_its_command_and_is_a_problem_where_it_is_needed(question: Question) -> None:
    def find(name: str) -> str | None:
        return None if name in ("uvicorn", "psycopg", "openai") else "999"

    found = {one.check: one for one in doctor_packages.extras(question, find)}
    assert (found["extra server"].level, found["extra server"].mend) == (DiagnosisLevel.WARNING, "pip install 'holdfast[server]'")
    assert "uvicorn is not installed" in found["extra server"].said
    assert (found["extra llm"].level, found["extra llm"].mend) == (DiagnosisLevel.OK, None)
    assert found["extra aws"].said == "It is installed, for functions that run on AWS Lambda."
    assert found["extra postgres"].level is DiagnosisLevel.OK
    in_postgres = {one.check: one for one in doctor_packages.extras(asked("postgresql://x"), find)}
    assert (in_postgres["extra postgres"].level, in_postgres["extra postgres"].mend) == (
        DiagnosisLevel.PROBLEM,
        "pip install 'holdfast[postgres]'",
    )


def test_the_extras_are_those_of_the_project_each_with_its_purpose(question: Question) -> None:
    named = {one.check.removeprefix("extra ") for one in doctor_packages.extras(question)}
    assert named == set(doctor_packages._PURPOSES)


def test_a_package_of_the_core_that_is_missing_or_old_is_a_problem() -> None:
    told = only(doctor_packages._core(lambda name: {"httpx": None, "typer": "0.1"}.get(name, "999")))
    assert told.level is DiagnosisLevel.PROBLEM
    assert "httpx is not installed, typer 0.1 is older than 0.15" in told.said


def test_a_kernel_that_cannot_jail_is_a_problem(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unable(folder: Path) -> dict[str, Any]:
        raise SandboxUnavailable("isolation `all` needs user namespaces (not permitted) and Landlock")

    monkeypatch.setattr(doctor_machine, "find_kernel_features", unable)
    monkeypatch.setattr(doctor_machine, "_SWITCHES", (("kernel.ostype", "Linux", "Other"),))
    told = only(doctor_machine.sandbox(question))
    assert (told.level, told.mend) == (DiagnosisLevel.PROBLEM, "sudo sysctl -w kernel.ostype=Other")
    assert "user namespaces (not permitted)" in told.said


def test_a_jail_without_namespaces_is_a_warning() -> None:
    features = {"machine": "x86_64", "namespaces": False, "landlock": 4, "seccomp": True, "why": "new namespaces: EPERM"}
    told = doctor_machine._featured(features)
    assert told.level is DiagnosisLevel.WARNING
    assert "EPERM" in told.said


def test_little_memory_is_a_warning(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "machine_memory_mb", lambda: 512)
    assert [one.level for one in doctor_machine.cgroups(question)] == [DiagnosisLevel.OK, DiagnosisLevel.WARNING]


@pytest.mark.parametrize(
    "free, level", [(50 << 20, DiagnosisLevel.PROBLEM), (500 << 20, DiagnosisLevel.WARNING), (5 << 30, DiagnosisLevel.OK)]
)
def test_a_disk_that_is_nearly_full_is_told(question: Question, monkeypatch: pytest.MonkeyPatch, free: int, level: DiagnosisLevel) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert only(doctor_store.disk(question)).level is level


def test_a_clock_that_jumps_or_is_years_behind_is_told(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(doctor_machine.clock(question)).level is DiagnosisLevel.OK
    jumped = Question(
        **{name: getattr(question, name) for name in question.__struct_fields__} | {"began_wall": question.began_wall - 5_000}
    )
    assert only(doctor_machine.clock(jumped)).level is DiagnosisLevel.WARNING
    monkeypatch.setattr(doctor_machine, "SystemClock", lambda: VirtualClock(0))
    assert only(doctor_machine.clock(question)).level is DiagnosisLevel.PROBLEM


def test_missing_time_zones_are_a_problem(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"tzdata", *(name for name in sys.modules if name.startswith("tzdata."))}:  # another test may have loaded parts of it
        monkeypatch.setitem(sys.modules, name, None)
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath(to=[])
        zoneinfo.ZoneInfo.clear_cache()
        told = only(doctor_machine.zones(question))
    finally:
        zoneinfo.reset_tzpath(to=before)
    assert (told.level, told.mend) == (DiagnosisLevel.PROBLEM, "pip install --upgrade tzdata")


def test_a_database_whose_clock_differs_is_told() -> None:
    where = new_schema()
    migrated(where)
    slow = VirtualClock(SystemClock().now() - 5_000)
    ahead = open_maintenance(where, "test").look(slow).ahead_ms
    assert ahead is not None
    assert 4_000 <= ahead <= 30_000
    assert doctor_store._skew("db", ahead).level is DiagnosisLevel.WARNING
    assert doctor_store._skew("db", -90_000).level is DiagnosisLevel.PROBLEM
    assert doctor_store._skew("db", 200).level is DiagnosisLevel.OK
