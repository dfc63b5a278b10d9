"""Artifacts in a folder: whatever interrupts a write or a removal, no note is there without its bytes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.storage import folder
from holdfast.workers.storage.folder import Folder


def kept(artifacts: Artifacts, data: bytes) -> str:
    return artifacts.keep("ann", "a.bin", "application/octet-stream", io.BytesIO(data).read).artifact_id


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the storage does to names and folders from now on, in its order."""
    done: list[str] = []

    def told(name: str, what: Any) -> None:
        real = getattr(os, name)

        def call(*given: Any, **more: Any) -> Any:
            done.append(what(*given))
            return real(*given, **more)

        monkeypatch.setattr(os, name, call)

    told("rename", lambda _, new: "the note's name" if str(new).endswith(".json") else "the bytes' name")
    told("unlink", lambda path: "the note is gone" if str(path).endswith(".json") else "another file is gone")
    told("fsync", lambda fd: "the folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "a file")
    return done


def test_the_name_of_the_bytes_is_on_disk_before_the_note_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = recorded(monkeypatch)
    kept(Artifacts(Folder(tmp_path), 1000), b"x")
    before = done[: done.index("the note's name")]
    assert before.index("the bytes' name") < before.index("the folder")
    assert "the folder" in done[done.index("the note's name") :]


def test_a_removal_that_is_interrupted_leaves_no_note_without_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts = Artifacts(Folder(tmp_path), 1000)
    identities = [kept(artifacts, bytes([at])) for at in range(3)]
    done, removed = recorded(monkeypatch), list[str]()

    def interrupted(path: Path) -> None:
        removed.extend(done)
        raise OSError("the machine stops here")

    monkeypatch.setattr(folder, "remove", interrupted)
    artifacts.forget("ann")
    assert removed == ["the note is gone"] * 3 + ["the folder"]
    for identity in identities:
        with pytest.raises(ArtifactMissing, match="There is no artifact"):
            artifacts.find("ann", identity)


def test_a_tenant_without_artifacts_is_forgotten(tmp_path: Path) -> None:
    artifacts = Artifacts(Folder(tmp_path), 1000)
    artifacts.forget("ann")
    kept(artifacts, b"x")
    artifacts.forget("ann")
    assert list(tmp_path.iterdir()) == []
