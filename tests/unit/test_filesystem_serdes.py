"""Values in files: texts, paths and files are the official SDK's, and what a checkpoint names is whole, on disk, and below base_path."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import aws_durable_execution_sdk_python.filesystem_serdes as official
import aws_durable_execution_sdk_python.serdes as official_serdes
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.durable import filesystem_serdes as ours
from holdfast.durable.exceptions import SerDesError
from holdfast.durable.filesystem_serdes import FileSystemPathEncoding, FileSystemSerDes, FileSystemSerDesConfig, FileSystemSerDesMode
from holdfast.durable.preview import PreviewConfig, PreviewField, PreviewMode, build_preview
from holdfast.durable.serdes import JsonSerDes, PassThroughSerDes, SerDesContext, deserialize, serialize
from holdfast.model.ids import Arn

ARN = str(Arn("orders", "7", "order-42", "01890000-0000-7000-8000-000000000001"))
AT = SerDesContext("0a1b", ARN)
RICH = {"when": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.10"), "pair": (1, b"\xff"), "text": "käse ✓ \u2028"}
LIMIT = 256 * 1024 - 1024

every_encoding = pytest.mark.parametrize("encoding", [e.value for e in FileSystemPathEncoding])
every_mode = pytest.mark.parametrize("mode", [m.value for m in FileSystemSerDesMode])
both_directions = pytest.mark.parametrize("writer, reader", [(ours, official), (official, ours), (ours, ours)])


def made(module: Any, base: Path | str, encoding: str = "URI", mode: str = "ALWAYS", **rest: Any) -> Any:
    """A serdes of one of the two packages."""
    config = module.FileSystemSerDesConfig(module.FileSystemSerDesMode(mode), module.FileSystemPathEncoding(encoding), **rest)
    return module.FileSystemSerDes(str(base), config)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def written(module: Any, folder: Path, value: Any, at: SerDesContext, **how: Any) -> tuple[str, dict[str, bytes]]:
    """The checkpoint's text and the files it left. In a base_path of the same name for both packages, so that paths can be compared."""
    here = os.getcwd()
    (folder / module.__name__).mkdir()
    os.chdir(folder / module.__name__)
    try:
        return made(module, "base", **how).serialize(value, at), files(Path())
    finally:
        os.chdir(here)


# --- the same as the official SDK --------------------------------------------------------------------------------------------


@every_encoding
@every_mode
@pytest.mark.parametrize(
    "value", [None, 7, "text", RICH, {"large": "ü" * 200_000}, ["x" * 300_000]], ids=["none", "int", "str", "rich", "utf-8", "large"]
)
@pytest.mark.parametrize(
    "at",
    [
        AT,
        SerDesContext("1", "arn:aws:lambda:eu-west-1:123456789012:function:f:$LATEST/durable-execution/name/id"),
        SerDesContext("a/b c:%ü", "not an ARN / at all:ü"),
        SerDesContext("", ""),
        SerDesContext("x" * 64, ARN + "/more"),
        SerDesContext("1", ARN + "\n"),
    ],
    ids=["ours", "aws", "odd", "empty", "long", "newline"],
)
def test_text_paths_and_files_are_the_official_ones(tmp_path: Path, value: Any, at: SerDesContext, mode: str, encoding: str) -> None:
    how = {"mode": mode, "encoding": encoding}
    assert written(ours, tmp_path, value, at, **how) == written(official, tmp_path, value, at, **how)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20), st.text(max_size=20))
@example("..", "..")
@example(".", ".")
@example("a/../../b", "../../x")
def test_any_names_give_the_official_path_or_none(arn: str, operation: str) -> None:
    for encoding in FileSystemPathEncoding:
        serdes = made(ours, "base", encoding.value)
        at = SerDesContext(operation, arn)
        folder = official._resolve_execution_dir("base", arn, official.FileSystemPathEncoding(encoding.value))
        theirs = os.path.join(folder, f"{official._encode_segment(operation, official.FileSystemPathEncoding(encoding.value))}.json")
        try:
            assert serdes._path(at) == theirs
        except SerDesError:
            assert ".." in theirs.split(os.sep), "only what leaves the folder is refused"


@pytest.mark.parametrize("count", range(LIMIT - 20, LIMIT + 4))
def test_a_value_overflows_at_the_official_byte(tmp_path: Path, count: int) -> None:
    ours_text, theirs_text = (made(m, tmp_path, mode="OVERFLOW").serialize("x" * count, AT) for m in (ours, official))
    assert ours_text == theirs_text


@both_directions
@every_encoding
@every_mode
@pytest.mark.parametrize("value", [None, RICH, {"large": "ü" * 200_000}], ids=["none", "rich", "large"])
def test_what_one_wrote_the_other_reads(tmp_path: Path, writer: Any, reader: Any, value: Any, mode: str, encoding: str) -> None:
    text = made(writer, tmp_path, encoding, mode).serialize(value, AT)
    assert repr(made(reader, tmp_path).deserialize(text, AT)) == repr(value)


@pytest.mark.parametrize("make", [JsonSerDes, PassThroughSerDes], ids=["json", "text"])
def test_the_text_in_the_file_is_that_of_the_given_serdes(tmp_path: Path, make: Callable[[], Any]) -> None:
    theirs = getattr(official_serdes, make.__name__)()
    how: Any = [(ours, make()), (official, theirs)]
    left = [written(module, tmp_path, "line\r\nline\n", AT, serdes=serdes) for module, serdes in how]
    assert left[0] == left[1]
    text = made(ours, tmp_path / "base", serdes=make()).serialize("line\r\nline\n", AT)
    assert made(ours, tmp_path / "base", serdes=make()).deserialize(text, AT) == "line\r\nline\n"


def test_a_value_that_is_no_text_stays_inline_as_in_the_official_sdk(tmp_path: Path) -> None:
    theirs: Any = official_serdes.PassThroughSerDes()
    texts = [
        made(module, tmp_path, mode="OVERFLOW", serdes=serdes).serialize({"a": None}, AT)
        for module, serdes in [(ours, PassThroughSerDes()), (official, theirs)]
    ]
    assert texts[0] == texts[1]
    assert made(ours, tmp_path, serdes=PassThroughSerDes()).deserialize(texts[0], AT) == {"a": None}


@pytest.mark.parametrize("preview", [{"id": 42, "ü": [1]}, {}, None])
@pytest.mark.parametrize("mode, size", [("ALWAYS", 1), ("OVERFLOW", 1), ("OVERFLOW", 300_000)])
def test_a_preview_stands_beside_the_path_and_only_there(tmp_path: Path, preview: Any, mode: str, size: int) -> None:
    how = {"mode": mode, "generate_preview": lambda value: preview}
    text, left = written(ours, tmp_path, {"id": 42, "text": "x" * size}, AT, **how)
    assert (text, left) == written(official, tmp_path, {"id": 42, "text": "x" * size}, AT, **how)
    assert json.loads(text).get("preview") == ((preview or None) if left else None)


def test_build_preview_is_a_preview() -> None:
    config = PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("id")], mask=[PreviewField("card")])
    made = FileSystemSerDesConfig(generate_preview=lambda value: build_preview(value, config))
    assert made.generate_preview is not None
    assert made.generate_preview({"id": 1, "card": "4111", "rest": 2}) == {"id": 1, "card": "***"}


# --- whole and on disk -------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """What is asked of the disk, in order: fsync of which path, and which names are given."""
    seen: list[tuple[str, str]] = []

    def noting(name: str, path: Callable[..., Any]) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            short = os.path.relpath(path(*args), tmp_path)
            seen.append((name, "temporary" if short.endswith(".tmp") else short))
            return real(*args)

        monkeypatch.setattr(os, name, call)

    def opened(handle: int) -> Path:
        number = os.fstat(handle).st_ino
        return next(path for path in [tmp_path, *tmp_path.rglob("*")] if path.stat().st_ino == number)

    noting("fsync", opened)
    noting("link", lambda source, target: target)
    noting("replace", lambda source, target: target)
    return seen


def test_bytes_are_on_disk_before_the_name_and_the_name_before_the_checkpoint(tmp_path: Path, asked: list[tuple[str, str]]) -> None:
    made(ours, tmp_path / "base").serialize("value", AT)
    folder = "base/orders/order-42/01890000-0000-7000-8000-000000000001"
    assert asked == [
        *(("fsync", above) for above in [".", "base", "base/orders", "base/orders/order-42"]),
        ("fsync", "temporary"),
        ("link", f"{folder}/0a1b.json"),
        ("fsync", folder),
    ]
    asked.clear()
    made(ours, tmp_path / "base").serialize("value", SerDesContext("0c", ARN))
    assert asked == [("fsync", "temporary"), ("link", f"{folder}/0c.json"), ("fsync", folder)], "folders are made once"


@pytest.mark.parametrize("broken", ["fsync", "link"])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    serdes = made(ours, tmp_path)
    first = serdes.serialize("first", SerDesContext("a", ARN))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    monkeypatch.setattr(os, "replace", full)
    before = files(tmp_path)
    with pytest.raises(SerDesError, match="No space left on device"):
        serialize(serdes, "second", "b", ARN)
    assert files(tmp_path) == before
    assert serdes.deserialize(first, AT) == "first"


def test_a_file_is_as_readable_for_others_as_the_official_one(tmp_path: Path) -> None:
    modes = {
        module.__name__: stat.S_IMODE(os.stat(json.loads(made(module, tmp_path / module.__name__).serialize(1, AT))["file"]).st_mode)
        for module in (ours, official)
    }
    assert len(set(modes.values())) == 1


# --- never another value under a name that a checkpoint may hold -------------------------------------------------------------


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_checkpoint_keeps_its_value_when_another_is_written_for_the_same_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:

        def refuse(*_: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
    serdes = made(ours, tmp_path)
    texts = [serdes.serialize(value, AT) for value in ("one", "two", "three", "two", "one")]
    assert [serdes.deserialize(text, AT) for text in texts] == ["one", "two", "three", "two", "one"]
    assert [made(official, tmp_path).deserialize(text, AT) for text in texts] == ["one", "two", "three", "two", "one"]
    assert len(set(texts)) == len(files(tmp_path)) == 3
    assert texts[0] == made(official, tmp_path).serialize("one", AT), "the first has the official name"


def test_half_a_file_that_somebody_left_is_not_taken_for_the_value(tmp_path: Path) -> None:
    serdes = made(ours, tmp_path)
    path = Path(json.loads(serdes.serialize(RICH, AT))["file"])
    path.write_bytes(path.read_bytes()[:10])
    assert repr(serdes.deserialize(serdes.serialize(RICH, AT), AT)) == repr(RICH)


# --- references from strangers -----------------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that is none of our business; `base` beside it is."""
    (tmp_path / "base").mkdir()
    path = tmp_path / "secret.json"
    path.write_text('"secret"')
    return path


@pytest.mark.parametrize(
    "path", ["{secret}", "{base}/../secret.json", "{base}/x/../../secret.json", "{base}/link", "{base}er", "/etc/passwd", "secret.json"]
)
def test_a_reference_out_of_base_path_is_refused(tmp_path: Path, secret: Path, path: str) -> None:
    base = tmp_path / "base"
    (base / "link").symlink_to(secret)
    (tmp_path / "baseer").write_text('"secret"')
    hostile = path.format(secret=secret, base=base)
    with pytest.raises(SerDesError, match="outside of base_path") as caught:
        deserialize(made(ours, base), json.dumps({"file": hostile}), "op", ARN)
    assert repr(hostile) in str(caught.value)
    assert caught.value.code == "ser_des_error"


def test_a_base_path_that_is_a_link_or_relative_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for base in ("link", "./link/", str(tmp_path / "link"), "", "."):
        serdes = FileSystemSerDes(base)
        assert serdes.deserialize(serdes.serialize(base, AT), AT) == base
        assert made(official, base).deserialize(serdes.serialize(base, AT), AT) == base


@pytest.mark.parametrize(
    "arn",
    ["..", "arn:aws:lambda:r:1:function:..:1/durable-execution/../..", "arn:aws:lambda:r:1:function:..:1/durable-execution/../secret"],
)
def test_an_arn_cannot_lead_out_of_base_path_either(tmp_path: Path, arn: str) -> None:
    (tmp_path / "a" / "base").mkdir(parents=True)
    with pytest.raises(SerDesError, match="outside of base_path"):
        serialize(made(ours, tmp_path / "a" / "base"), "value", "op", arn)
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    "text", ["5", '"approved"', "[]", "null", "{}", '{"file": 0}', '{"file": null}', '{"file": ["a"]}', '{"preview": {}}']
)
def test_what_is_no_reference_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(SerDesError, match=r"not written by FileSystemSerDes.*Read it with the SerDes that wrote it"):
        made(ours, tmp_path).deserialize(text, AT)


@pytest.mark.parametrize("text", ["approved", '{"file": "base/missing.json"}', '{"data": 5}', '{"file": "a\\u0000b"}'])
def test_whatever_else_cannot_be_read_is_a_serdes_error_too(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SerDesError, match="Deserialization failed for id: op"):
        deserialize(FileSystemSerDes("base"), text, "op", ARN)
