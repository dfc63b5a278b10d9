"""read_repo: lines of an opened folder, and every way out of it that is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.operator.holdfast_toml import read_operator
from holdfast.operator.untrusted_settings import RULES
from holdfast.workers.tools.read_repo import ReadRepo, RepoSettings
from holdfast.workers.tools.seam import Effect
from tests.tools.calls import called, failure

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nnothing\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    (made / "src").mkdir(parents=True)
    (made / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (made / "src" / "secrets.py").write_text("no secret\n")
    (made / "empty.txt").write_text("")
    (tmp_path / "outside.txt").write_text("outside")
    return made


def tool_on(folder: Path, **settings: object) -> ReadRepo:
    return ReadRepo({"shop": RepoSettings(folder=str(folder), **settings)})  # type: ignore[arg-type]


async def test_a_file_and_some_of_its_lines_are_read(folder: Path) -> None:
    tool = tool_on(folder)
    assert tool.effect is Effect.READ
    told = (await called(tool, {"repo": "shop", "path": "src/a.py"})).result
    assert (told["lines"], told["first"], told["total_lines"], told["truncated"]) == (["one", "two", "three"], 1, 3, False)
    some = (await called(tool, {"repo": "shop", "path": "src/a.py", "first": 2, "last": 9})).result
    assert (some["lines"], some["first"], some["sha256"]) == (["two", "three"], 2, told["sha256"])
    beyond = (await called(tool, {"repo": "shop", "path": "src/a.py", "first": 9})).result
    assert beyond["lines"] == []
    assert (await called(tool, {"repo": "shop", "path": "empty.txt"})).result["total_lines"] == 0
    assert (await called(tool, {"repo": "shop", "path": "src/secrets.py"})).result["lines"] == ["no secret"], "code may have such a name"


@pytest.mark.parametrize("path", [
    "../outside.txt", "src/../../outside.txt", "/etc/hostname", "src//a.py", "./src/a.py", "src/.", "", "src\\a.py",
    "src/a.py\0", "a/" * 80 + "b",
    ".git/config", "src/.env", ".ssh/id_rsa", "id_rsa", "config/secrets.toml", "secrets/list.txt", "my-credentials.json",
    "prod.env", "server.pem",
    "tls.KEY", "terraform.tfstate", "state.tfvars", "holdfast.toml", "passwd", "db_password.txt",
])  # fmt: skip
async def test_no_path_leads_out_and_files_that_may_have_secrets_are_not_read(folder: Path, path: str) -> None:
    told = await failure(tool_on(folder), {"repo": "shop", "path": path})
    assert told.code == "access_denied"
    assert str(folder) not in told.message


async def test_links_pipes_and_second_names_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "inner.txt").symlink_to("src/a.py")
    (folder / "away").symlink_to(tmp_path)
    os.link(tmp_path / "outside.txt", folder / "hard.txt")
    os.mkfifo(folder / "pipe")
    (folder / "key.txt").write_text(KEY)
    for path in ("link.txt", "inner.txt", "away/outside.txt", "hard.txt", "pipe", "key.txt", "src", "src/a.py/x"):
        assert (await failure(tool_on(folder), {"repo": "shop", "path": path})).code == "access_denied", path


async def test_what_is_missing_too_large_or_no_text_is_told_and_what_is_long_is_cut(folder: Path) -> None:
    (folder / "large.txt").write_text("x" * 2_000)
    (folder / "bytes.bin").write_bytes(b"a\0b")
    (folder / "long.txt").write_text("".join(f"line {at}\n" for at in range(100)))
    (folder / "odd.txt").write_bytes(b"caf\xe9\n")
    tool = tool_on(folder, max_file_bytes=1_500, max_lines=10, max_bytes=40)
    for path, reason in (("no.txt", "not_found"), ("src/no/x.txt", "not_found"), ("large.txt", "too_large"), ("bytes.bin", "binary")):
        assert (await failure(tool, {"repo": "shop", "path": path})).details == {"reason": reason}
    cut = (await called(tool, {"repo": "shop", "path": "long.txt"})).result
    assert (len(cut["lines"]), cut["truncated"], cut["total_lines"]) == (5, True, 100)
    assert (await called(tool, {"repo": "shop", "path": "odd.txt"})).result["lines"] == ["caf\ufffd"]


async def test_only_named_folders_are_read_and_only_by_the_tenants_that_the_operator_names(folder: Path) -> None:
    tool = tool_on(folder, tenants=("acme",))
    for repo, tenant in (("shop", "other"), ("none", "acme")):
        told = await failure(tool, {"repo": repo, "path": "src/a.py"}, tenant=tenant)
        assert (told.code, told.details) == ("access_denied", {"reason": "repo_unknown"})
    assert (await called(tool, {"repo": "shop", "path": "src/a.py"}, tenant="acme")).result["total_lines"] == 3


def test_the_operators_file_names_the_folders_and_an_untrusted_file_opens_none(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[repos.shop]\nfolder = "shop"\nmax_lines = 5\n')
    assert read_operator(file=file, environment={}).repos == {"shop": RepoSettings(folder=str(folder), max_lines=5)}
    assert "repos" not in RULES
    for text, says in (
        ('[repos.shop]\nfolder = "gone"', "there is no folder gone"),
        ('[repos.shop]\nfolder = "shop"\nmax_lines = 0', "at least 1"),
        ('[repos.shop]\npath = "shop"', "has path, which Holdfast does not know"),
        ("[repos]\nshop = 3", "repos.shop is wrong"),
        ("repos = 3", "repos is wrong"),
    ):
        file.write_text(text)
        with pytest.raises(InvalidParameter, match=says):
            read_operator(file=file, environment={})
