"""Detours to a trusted folder: what lies in it, or leads to it, is not trusted with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.author_files.author_code import author_code
from holdfast.cli.arguments import StorePlace
from holdfast.cli.consent import run_terms
from holdfast.cli.trust import trust
from holdfast.operator.trust import TrustNeeded
from holdfast.workers.packages import Packages
from tests.surface.stranger import WITH_A_TOOL, Stranger
from tests.workers.pages import page


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    stranger = Stranger(tmp_path)
    stranger.enter(monkeypatch)
    return stranger


def package(inside: Stranger, name: str) -> Path:
    """A worker with a tool, in a package in the folder."""
    folder = inside.folder / name
    folder.mkdir(parents=True)
    inside.write(WITH_A_TOOL)
    for file in ("shop.py", "shop.md"):
        (inside.folder / file).rename(folder / file)
    (folder / "__init__.py").touch()
    return folder


def test_a_package_in_a_trusted_folder_is_not_trusted_with_it(inside: Stranger) -> None:
    folder = package(inside, "download")
    trust([inside.folder])
    with pytest.raises(TrustNeeded, match=f"{folder} is not trusted"):
        run_terms([Path("download/shop.py")], StorePlace.of("other.db", None), None, None, trust=False)
    trust([folder / "shop.py"])
    assert run_terms([Path("download/shop.py")], StorePlace.of("other.db", None), None, None, trust=False).tools


def test_a_module_deep_in_a_package_asks_for_the_whole_package_whose_code_runs(inside: Stranger) -> None:
    package(inside, "shops/near")
    (inside.folder / "shops" / "__init__.py").touch()
    code = author_code(Path("shops/near/shop.py"))
    assert code is not None
    assert code.folder == inside.folder / "shops"


def test_a_link_to_a_trusted_worker_brings_no_page_of_its_own(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "shop.py").symlink_to(inside.folder / "shop.py")
    (elsewhere / "shop.md").write_text(page("forged", "pay"))
    (found,) = Packages(tmp_path / "packages").add(elsewhere / "shop.py")
    assert found.contract.worker_id == "shop"
