"""What is made in a body's root, so that paths lead where they lead outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.hosts.sandbox.inside.mounts import survey


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "file").write_text("")
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "far").symlink_to(tmp_path / "way" / "deep" / "file")
    (tmp_path / "round").symlink_to("round")
    return tmp_path


def made(tree: Path, *names: str) -> list[tuple[str, str]]:
    """The steps below the tree; the folders on the way to it are taken as given."""
    steps = survey(tuple(str(tree / name) for name in names))
    return [(step.kind, step.path.removeprefix(f"{tree}/")) for step in steps if step.path.startswith(f"{tree}/")]


def test_a_folder_is_shown_whole(tree: Path) -> None:
    assert made(tree, "real") == [("bound folder", "real")]
    assert made(tree, "real", "real/deep", "real/deep/file") == [("bound folder", "real")]


def test_only_what_is_named_is_shown(tree: Path) -> None:
    assert made(tree, "real/deep/file") == [("folder", "real"), ("folder", "real/deep"), ("bound file", "real/deep/file")]


def test_a_link_stays_one_and_leads_somewhere(tree: Path) -> None:
    assert made(tree, "way/deep") == [("link", "way"), ("folder", "real"), ("bound folder", "real/deep")]
    links = ["far", "way"]
    assert made(tree, "far") == [
        ("link", links[0]),
        ("link", links[1]),
        ("folder", "real"),
        ("folder", "real/deep"),
        ("bound file", "real/deep/file"),
    ]


def test_a_folder_swallows_what_was_shown_of_it_before(tree: Path) -> None:
    assert made(tree, "far", "real") == [("link", "far"), ("link", "way"), ("bound folder", "real")]


def test_what_leads_nowhere_makes_nothing(tree: Path) -> None:
    assert made(tree, "missing", "round") == [("link", "round")]
