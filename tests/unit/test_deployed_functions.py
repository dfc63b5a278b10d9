"""Deployed functions survive anything, versions never change, and code from strangers stays where it belongs."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.files import removal
from holdfast.lambda_api.functions import code_files
from holdfast.lambda_api.functions import function_folder as keeping
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.function_folder import FunctionFolder, folder_of
from holdfast.lambda_api.functions.function_records import Code, Config, Version, about
from holdfast.lambda_api.operations.checks import FunctionReference
from holdfast.lambda_api.routes.deploy_requests import Configured
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.deploy_errors import CodeInvalid, ResourceConflict, RevisionMismatch
from holdfast.model.errors import DiskFailed, FunctionNotFound, HoldfastError, InvalidParameter, StoreBroken, StoreBusy
from holdfast.model.execution import Terms
from holdfast.model.ids import id_at

CONFIG = Config(handler="app.handler", runtime="python3.13")
CODE = Code("a" * 64, "A=", 1)
OTHER = Code("b" * 64, "B=", 2)


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], DeployedFunctions]]:
    """Opens the deployed functions, again and again: each time as a new process would."""
    keepers: list[FunctionFolder] = []

    def open_() -> DeployedFunctions:
        for keeper in keepers:
            keeper.close()
        keepers.append(FunctionFolder(tmp_path / "store.functions"))
        return DeployedFunctions(keepers[-1], clock=clock, ids=id_at)

    yield open_
    for keeper in keepers:
        keeper.close()


def version(deployed: DeployedFunctions, name: str, qualifier: str | None = None) -> Version:
    return deployed.version(FunctionReference(name, qualifier))


# --- functions, versions, aliases


def test_what_was_created_is_there_after_a_restart(opened: Callable[[], DeployedFunctions]) -> None:
    config = msgspec.structs.replace(CONFIG, environment={"A": "1"}, terms=Terms(60, 7), other={"VpcConfig": {"a": [1]}})
    made = opened().create("f", config, CODE, tags={"t": "1"})
    again = opened()
    assert again.version(FunctionReference("f", None)) == made
    assert again.needed("f").tags == {"t": "1"}
    shown = about(made)
    assert (shown["Environment"], shown["VpcConfig"], shown["CodeSha256"]) == ({"Variables": {"A": "1"}}, {"a": [1]}, "A=")


def test_nothing_is_made_on_disk_before_something_is_kept(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    assert opened().entries() == []
    assert list(tmp_path.iterdir()) == []


def test_a_published_version_stays_what_it_was(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    first = deployed.create("f", CONFIG, CODE, publish=True)
    deployed.update_code("f", OTHER)
    deployed.update_config("f", {"timeout": 9})
    assert version(opened(), "f", "1") == first
    assert (version(deployed, "f").code, version(deployed, "f").config.timeout) == (OTHER, 9)


def test_publishing_the_same_again_is_the_same_version(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE)
    assert [deployed.publish("f").version, deployed.publish("f", description="new words").version] == ["1", "1"]
    deployed.update_config("f", {"memory": 256})
    assert deployed.publish("f").version == "2"


def test_version_numbers_are_never_used_again(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE, publish=True)
    deployed.delete("f")
    with pytest.raises(FunctionNotFound, match="Function not found: arn:aws:lambda:local:000000000000:function:f"):
        version(deployed, "f")
    assert opened().create("f", CONFIG, CODE, publish=True).version == "2"


def test_a_qualifier_is_a_version_an_alias_or_the_newest(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE, publish=True)
    deployed.update_code("f", OTHER, publish=True)
    deployed.create_alias("f", "live", "1")
    found = [version(deployed, "f", qualifier).version for qualifier in (None, "$LATEST", "$LATEST.PUBLISHED", "2", "live")]
    assert found == ["$LATEST", "$LATEST", "2", "2", "1"]
    for absent in ("3", "dead"):
        with pytest.raises(FunctionNotFound):
            version(deployed, "f", absent)


def test_an_alias_moves_and_keeps_what_is_not_named(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE, publish=True)
    deployed.update_code("f", OTHER, publish=True)
    made = deployed.create_alias("f", "live", "1", description="here", weights={"2": 0.25})
    moved = deployed.update_alias("f", "live", version="2", weights={}, revision=made.revision)
    assert (moved.version, moved.description, moved.weights) == ("2", "here", {})
    assert opened().alias("f", "live") == moved
    deployed = opened()
    deployed.delete_alias("f", "live")
    deployed.delete_alias("f", "live")  # as on AWS
    assert opened().needed("f").aliases == {}


MISTAKES: list[tuple[Callable[[DeployedFunctions], object], type[HoldfastError], str]] = [
    (lambda c: c.create("f", CONFIG, CODE), ResourceConflict, "Function already exist: f"),
    (lambda c: c.create("a b", CONFIG, CODE), InvalidParameter, "Function name 'a b'"),
    (lambda c: c.create("g", msgspec.structs.replace(CONFIG, timeout=901), CODE), InvalidParameter, "Timeout"),
    (lambda c: c.create("g", msgspec.structs.replace(CONFIG, memory=1), CODE), InvalidParameter, "MemorySize"),
    (lambda c: c.update_config("f", {"runtime": "java21"}), InvalidParameter, "Runtime: 'java21' is not run here"),
    (
        lambda c: c.create("g", msgspec.structs.replace(CONFIG, environment={"A=B": ""}), CODE),
        InvalidParameter,
        "its name is empty or has `=`",
    ),
    (lambda c: c.update_code("g", CODE), FunctionNotFound, "Function not found"),
    (lambda c: c.update_code("f", CODE, revision="old"), RevisionMismatch, "RevisionId provided does not match"),
    (lambda c: c.update_config("f", {}, revision="old"), RevisionMismatch, "GetFunction"),
    (lambda c: c.update_config("f", {"terms": Terms(1)}), InvalidParameter, "not durable"),
    (lambda c: c.publish("f", sha256="X="), InvalidParameter, "is different from current CodeSHA256 in \\$LATEST"),
    (lambda c: c.delete("f", "$LATEST"), InvalidParameter, "cannot be deleted"),
    (lambda c: c.delete("f", "7"), FunctionNotFound, "Function not found"),
    (lambda c: c.delete("f", "1"), ResourceConflict, "aliases reference it: \\[live\\]"),
    (lambda c: c.create_alias("f", "live", "1"), ResourceConflict, "Alias already exists"),
    (lambda c: c.create_alias("f", "12", "1"), InvalidParameter, "not only digits"),
    (lambda c: c.create_alias("f", "new", "7"), FunctionNotFound, "function:f:7"),
    (lambda c: c.create_alias("f", "new", "1", weights={"1": 0.5}), InvalidParameter, "RoutingConfig"),
    (lambda c: c.update_alias("f", "live", revision="old"), RevisionMismatch, "GetAlias"),
    (lambda c: c.update_alias("f", "dead", version="1"), FunctionNotFound, "Cannot find alias arn"),
]


@pytest.mark.parametrize("mistake, kind, says", MISTAKES)
def test_a_mistake_changes_nothing(
    opened: Callable[[], DeployedFunctions], mistake: Callable[[DeployedFunctions], object], kind: type[HoldfastError], says: str
) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE, publish=True)
    deployed.create_alias("f", "live", "1")
    before = deployed.entries()
    with pytest.raises(kind, match=says):
        mistake(deployed)
    assert deployed.entries() == before == opened().entries()


def test_deploying_the_same_again_changes_nothing(opened: Callable[[], DeployedFunctions]) -> None:
    entry = opened().deploy("f", CONFIG, CODE, aliases=("live",), tags={})
    assert opened().deploy("f", CONFIG, CODE, aliases=("live",), tags={}) == entry
    moved = opened().deploy("f", CONFIG, OTHER, aliases=("live",), tags={})
    assert (moved.aliases["live"].version, list(moved.versions)) == ("2", ["1", "2"])
    durable = opened().deploy("f", msgspec.structs.replace(CONFIG, terms=Terms(60)), OTHER, tags={})
    assert durable.latest is not None
    assert durable.latest.config.terms == Terms(60)
    assert durable.aliases["live"].version == "2"


# --- the disk


def test_a_kill_between_any_two_writes_leaves_the_old_or_the_new(
    opened: Callable[[], DeployedFunctions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that touches the disk is the last one, in turn."""
    opened().create("f", CONFIG, CODE, publish=True)
    source = tmp_path / "code"
    source.mkdir()
    (source / "app.py").write_text("x = 1")
    calls, last = 0, 0
    real = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "mkdir")}
    clean = removal.remove

    class Killed(BaseException):
        """What no code of ours catches for good."""

    def until_killed(name: str) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls > last:
                raise Killed
            return real[name](*args, **options)

        return call

    def clean_while_alive(*args: Any, **options: Any) -> None:
        if calls <= last:
            clean(*args, **options)

    while True:
        before = opened()
        latest = version(before, "f")
        for name in real:
            monkeypatch.setattr(os, name, until_killed(name))
        monkeypatch.setattr(keeping, "remove", clean_while_alive)
        calls = 0
        try:
            before.update_code("f", before.keeper.add_folder(source), publish=True)
        except Killed:
            monkeypatch.undo()
            found = opened()
            assert version(found, "f") in (latest, *found.needed("f").everything())
            assert version(found, "f", "1").code == CODE
            assert list((tmp_path / "store.functions/making").iterdir()) == []
            for one in found.needed("f").everything():
                if one.code != CODE:
                    assert (found.folder(one) / "app.py").read_text() == "x = 1"
            last += 1
        else:
            monkeypatch.undo()
            break
    assert last >= 8
    assert version(opened(), "f", "2").code.id != CODE.id


def test_code_that_nobody_names_is_removed_by_the_next_process(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    deployed = opened()
    kept, left = (deployed.keeper.add_text("app.py", text) for text in ("a", "b"))
    deployed.create("f", CONFIG, kept)
    opened()
    assert sorted(path.name for path in (tmp_path / "store.functions/code").iterdir()) == [kept.id, f"{kept.id}.sha256"]
    assert kept != left


def test_one_process_at_a_time_keeps_functions(opened: Callable[[], DeployedFunctions], tmp_path: Path, clock: Clock) -> None:
    opened().create("f", CONFIG, CODE)
    with pytest.raises(StoreBusy, match="Another server uses the functions in"):
        DeployedFunctions(FunctionFolder(tmp_path / "store.functions"), clock=clock, ids=id_at)


def test_a_document_that_is_none_is_named(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    opened().create("f", CONFIG, CODE)
    (document,) = (tmp_path / "store.functions/functions").iterdir()
    document.write_text('{"name": 1}')
    with pytest.raises(StoreBroken, match=document.name):
        opened()


def test_a_disk_that_fails_is_said(opened: Callable[[], DeployedFunctions], monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = opened()
    deployed.create("f", CONFIG, CODE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFailed, match="No space left on device"):
        deployed.update_code("f", OTHER)
    with pytest.raises(DiskFailed, match="No space left on device"):
        deployed.keeper.add_zip(packed(("a", b"x")))
    assert version(deployed, "f").code == CODE  # what is not on disk is not shown


def test_functions_are_kept_beside_their_store() -> None:
    assert folder_of("/data/orders.db") == Path("/data/orders.db.functions")
    assert folder_of("postgresql://u@h/d") == Path.cwd() / "holdfast.functions"
    assert folder_of(":memory:") is None


# --- zip files


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return made.getvalue()


def special(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def test_a_zip_file_becomes_a_folder(opened: Callable[[], DeployedFunctions]) -> None:
    keeper = opened().keeper
    script = special("bin/run", stat.S_IFREG | 0o755)
    code = keeper.add_zip(packed(("app.py", b"x"), ("lib/", b""), ("lib/one.py", b"y"), (script, b"z")))
    folder = keeper.code_folder(code)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["app.py", "bin", "bin/run", "lib", "lib/one.py"]
    assert [os.access(folder / name, os.X_OK) for name in ("bin/run", "app.py")] == [True, False] or os.geteuid() == 0
    assert (folder / "bin/run").stat().st_mode & 0o111


HOSTILE = {
    "leads out of it": [
        packed(("../out.py", b"")),
        packed(("a/../../out.py", b"")),
        packed(("/etc/out.py", b"")),
        packed(("..\\out.py", b"")),
        packed(("C:/out.py", b"")),
        packed(("a\nb", b"")),
    ],
    "neither a file nor a folder": [
        packed((special("link", stat.S_IFLNK | 0o777), b"/etc/passwd")),
        packed((special("pipe", stat.S_IFIFO | 0o644), b"")),
        packed((special("disk", stat.S_IFBLK | 0o644), b"")),
    ],
    "Could not unzip": [b"", b"PK", b"PK\x05\x06" + b"\0" * 10, packed(("a", b"x" * 100))[:-30], b"#!/bin/sh\n"],
    "is not a valid path": [packed(("/".join("a" * 50), b""))],
    "cannot be written": [packed(("a" * 300, b""))],
}


@pytest.mark.parametrize(
    "says, archive",
    [pytest.param(says, archive, id=f"{says}-{number}") for says, archives in HOSTILE.items() for number, archive in enumerate(archives)],
)
def test_a_hostile_zip_file_leaves_nothing_behind(
    opened: Callable[[], DeployedFunctions], tmp_path: Path, says: str, archive: bytes
) -> None:
    keeper = opened().keeper
    with pytest.raises(CodeInvalid, match=says):
        keeper.add_zip(archive)
    found = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]
    assert found == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(opened: Callable[[], DeployedFunctions]) -> None:
    for twice in ([("a", b"1"), ("a", b"2")], [("a", b"1"), ("a/b", b"2")], [("a/b", b"1"), ("a", b"2")]):
        with pytest.raises(CodeInvalid, match="twice"):
            opened().keeper.add_zip(packed(*twice))


def test_a_zip_bomb_stops_at_the_limit_whatever_its_directory_says(
    opened: Callable[[], DeployedFunctions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_files, "MAX_BYTES", 1 << 20)
    bomb = packed(("zeros", b"\0" * (4 << 20)))
    assert len(bomb) < 10_000
    with pytest.raises(CodeInvalid, match="larger than 1048576 bytes when it is unpacked"):
        opened().keeper.add_zip(bomb)
    at = bomb.rindex(b"PK\x01\x02")
    lying = bomb[: at + 24] + struct.pack("<I", 10) + bomb[at + 28 :]
    with pytest.raises(CodeInvalid):
        opened().keeper.add_zip(lying)


def test_too_many_entries_are_refused(opened: Callable[[], DeployedFunctions], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "MAX_FILES", 3)
    with pytest.raises(CodeInvalid, match="4 entries; at most 3"):
        opened().keeper.add_zip(packed(*((str(number), b"") for number in range(4))))
    monkeypatch.setattr(code_files, "MAX_ZIP_BYTES", 10)
    with pytest.raises(CodeInvalid, match="at most 10 are allowed"):
        opened().keeper.add_zip(packed(("a", b"")))


def test_an_encrypted_zip_file_is_refused(opened: Callable[[], DeployedFunctions]) -> None:
    plain = bytearray(packed(("a", b"x")))
    for at in (plain.index(b"PK\x03\x04") + 6, plain.index(b"PK\x01\x02") + 8):
        plain[at] |= 1
    with pytest.raises(CodeInvalid, match="Could not unzip"):
        opened().keeper.add_zip(bytes(plain))


# --- folders


def test_a_folder_is_known_by_what_is_in_it(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    source = tmp_path / "code"
    (source / "pack/__pycache__").mkdir(parents=True)
    (source / ".git").mkdir()
    for name in ("app.py", "pack/__init__.py", "pack/__pycache__/x.pyc", ".git/config", "orders.db"):
        (source / name).write_text(name)
    keeper = opened().keeper
    without = (source / "orders.db",)
    code = keeper.add_folder(source, without)
    folder = keeper.code_folder(code)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == ["app.py", "pack/__init__.py"]
    (source / ".git/config").write_text("changed")
    assert keeper.add_folder(source, without) == code
    (source / "app.py").rename(source / "app2.py")
    assert keeper.add_folder(source, without) != code


def test_links_in_a_folder_are_followed_and_those_that_lead_up_are_found_out(
    opened: Callable[[], DeployedFunctions], tmp_path: Path
) -> None:
    source = tmp_path / "code"
    source.mkdir()
    (tmp_path / "shared.py").write_text("x = 1")
    (source / "shared.py").symlink_to(tmp_path / "shared.py")
    (source / "nowhere").symlink_to(tmp_path / "absent")
    keeper = opened().keeper
    assert (keeper.code_folder(keeper.add_folder(source)) / "shared.py").read_text() == "x = 1"
    (source / "up").symlink_to(tmp_path)
    with pytest.raises(CodeInvalid, match=r"perhaps a link in it leads to a folder above it|more than"):
        keeper.add_folder(source)


def test_a_folder_that_is_not_only_code_is_refused(
    opened: Callable[[], DeployedFunctions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_files, "MAX_BYTES", 10)
    (tmp_path / "code").mkdir()
    (tmp_path / "code/large").write_bytes(b"x" * 11)
    with pytest.raises(CodeInvalid, match=r"has more than 10 bytes\. Name a folder that has only the function's code"):
        opened().keeper.add_folder(tmp_path / "code")
    with pytest.raises(CodeInvalid, match="There is no folder"):
        opened().keeper.add_folder(tmp_path / "absent")


@pytest.mark.parametrize("times", [1, 3])
def test_a_folder_that_changes_while_it_is_copied_is_read_again_or_refused(
    opened: Callable[[], DeployedFunctions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    source = tmp_path / "code"
    source.mkdir()
    (source / "app.py").write_text("x = 0")
    own, changes = code_files.copy_folder, iter(range(1, times + 1))

    def changing(folder: Path, *rest: Any) -> Any:
        for number in changes:
            (source / "app.py").write_text(f"x = {number}")
            break
        return own(folder, *rest)

    monkeypatch.setattr(code_files, "copy_folder", changing)
    keeper = opened().keeper
    if times == 3:
        with pytest.raises(CodeInvalid, match="changes while it is read"):
            keeper.add_folder(source)
        assert not list((keeper.folder / "code").iterdir()), "nothing of it was kept"
    else:
        assert (keeper.code_folder(keeper.add_folder(source)) / "app.py").read_text() == "x = 1"


# --- code that is run again

TWO = packed(("app.py", b"x = 1"), ("deep/more.py", b"y = 2"))


@pytest.mark.parametrize("change", ["content", "another file", "a file less", "a link", "executable"])
def test_code_that_was_changed_is_known_as_such(opened: Callable[[], DeployedFunctions], change: str) -> None:
    keeper = opened().keeper
    code = keeper.add_zip(TWO)
    place = keeper.code_folder(code)
    assert keeper.intact(code)
    if change == "content":
        (place / "app.py").write_text("x = 3")
    elif change == "another file":
        (place / "json.py").write_text("")
    elif change == "a file less":
        (place / "deep" / "more.py").unlink()
    elif change == "a link":
        (place / "way").symlink_to("/etc")
    else:
        (place / "app.py").chmod(0o755)
    assert not keeper.intact(code)
    assert keeper.add_zip(TWO) == code  # deployed again, it is what it was
    assert keeper.intact(code)
    assert (place / "app.py").read_text() == "x = 1"


def test_bytecode_that_runs_left_is_removed_and_no_change(opened: Callable[[], DeployedFunctions]) -> None:
    keeper = opened().keeper
    code = keeper.add_zip(TWO)
    left = keeper.code_folder(code) / "deep" / "__pycache__"
    left.mkdir()
    (left / "more.cpython-311.pyc").write_bytes(b"")
    assert keeper.intact(code)
    assert not left.exists()


def test_code_whose_noted_hash_is_gone_is_not_intact(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    keeper = opened().keeper
    code = keeper.add_text("app.py", "x = 1")
    (noted,) = (tmp_path / "store.functions" / "code").glob("*.sha256")
    noted.unlink()
    assert not keeper.intact(code)


def test_a_noted_hash_goes_with_its_code(opened: Callable[[], DeployedFunctions], tmp_path: Path) -> None:
    keeper = opened().keeper
    keeper.add_text("app.py", "x = 1")
    keeper.sweep(())
    assert list((tmp_path / "store.functions" / "code").iterdir()) == []


def test_a_logging_config_changes_what_it_names_and_text_forgets_levels(opened: Callable[[], DeployedFunctions]) -> None:
    deployed = opened()
    config = Config(handler="a.b", runtime="python3")
    deployed.create("f", config, deployed.keeper.add_text("a.py", ""))

    def asked(**given: str) -> Any:
        other = deployed.needed("f").latest.config.other  # type: ignore[union-attr]
        change = msgspec.convert({"LoggingConfig": given}, Configured).changed(other)
        return about(deployed.update_config("f", change))["LoggingConfig"]

    assert about(deployed.needed("f").latest)["LoggingConfig"] == {"LogFormat": "Text"}  # type: ignore[arg-type]
    assert asked(LogFormat="JSON", LogGroup="g") == {
        "LogFormat": "JSON", "ApplicationLogLevel": "INFO", "SystemLogLevel": "INFO", "LogGroup": "g",
    }  # fmt: skip
    assert asked(SystemLogLevel="WARN")["SystemLogLevel"] == "WARN"
    assert asked(ApplicationLogLevel="FATAL") == {
        "LogFormat": "JSON", "ApplicationLogLevel": "FATAL", "SystemLogLevel": "WARN", "LogGroup": "g",
    }  # fmt: skip
    with pytest.raises(InvalidParameter, match="LoggingConfig: its SystemLogLevel is 'ERROR'"):
        asked(SystemLogLevel="ERROR")
    assert asked(LogFormat="Text") == {"LogFormat": "Text", "LogGroup": "g"}
    with pytest.raises(InvalidParameter, match="ApplicationLogLevel needs LogFormat JSON"):
        asked(ApplicationLogLevel="INFO")
