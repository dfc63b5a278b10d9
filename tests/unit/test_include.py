"""What of a worker's folder must never reach its body: places of secrets, whether `include` names them or they only lie beside the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.hosts.sandbox.admitted_files import IncludeRefused
from holdfast.hosts.sandbox.snapshot import gather, stays_behind
from holdfast.workers.packages import Packages
from tests.workers.pages import page

SOURCE = """
from holdfast import worker

@worker({page!r}, include={include!r})
async def shop(inputs, ctx):
    return {{}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    made.mkdir()
    (made / "shop.md").write_text(page("shop"))
    return made


def worker(folder: Path, *include: str, page: str = "shop.md") -> Path:
    file = folder / "shop.py"
    file.write_text(SOURCE.format(page=page, include=list(include)))
    return file


def put(folder: Path, name: str, mode: int = 0o644) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("s3cr3t")
    path.chmod(mode)
    return path


def copied(folder: Path) -> list[str]:
    """What lies in snapshots."""
    return sorted(path.read_text() for path in (folder.parent / "packages").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "name, why",
    [
        (".env", ".env is hidden"),
        (".git/config", ".git is hidden"),
        (".ssh/id_rsa", ".ssh is hidden"),
        ("data/.netrc", ".netrc is hidden"),
        ("holdfast.db", "holdfast.db is a database by its name"),
        ("holdfast.db-wal", "holdfast.db-wal is a database by its name"),
        ("users.sqlite3", "users.sqlite3 is a database by its name"),
        ("holdfast.db.workers/artifacts/a", "holdfast.db.workers is a database by its name"),
        ("server.pem", "server.pem is a key by its name"),
        ("TLS.KEY", "TLS.KEY is a key by its name"),
        ("store.p12", "store.p12 is a key by its name"),
        ("id_ed25519", "id_ed25519 is a key by its name"),
        ("credentials.json", "credentials.json is a place of secrets by its name"),
        ("client_secret.json", "client_secret.json is a place of secrets by its name"),
        ("secrets/pay", "secrets is a place of secrets by its name"),
        ("holdfast.toml", "it is the operator's file"),
    ],
)
def test_an_include_of_a_place_of_secrets_is_refused_by_its_name_and_nothing_is_copied(folder: Path, name: str, why: str) -> None:
    put(folder, name)
    with pytest.raises(IncludeRefused) as refused:
        Packages(folder.parent / "packages").add(worker(folder, name))
    assert str(refused.value).startswith(f"include: {name} is refused, because {why}.")
    assert copied(folder) == []


@pytest.mark.parametrize("pattern", ["*", "**/*", ".*", "?env"])
def test_a_pattern_brings_no_hidden_file_along(folder: Path, pattern: str) -> None:
    put(folder, ".env")
    with pytest.raises(IncludeRefused, match=r"\.env is hidden"):
        gather(worker(folder), include=[pattern])


def test_an_include_that_the_world_may_not_read_is_refused(folder: Path) -> None:
    put(folder, "rules.json", mode=0o640)
    with pytest.raises(IncludeRefused, match=r"rules\.json is refused, because others may not read it"):
        gather(worker(folder), include=["rules.json"])
    put(folder, "private/rules.json").parent.chmod(0o700)
    with pytest.raises(IncludeRefused, match="others may not enter its folder private"):
        gather(worker(folder), include=["private/*.json"])


def test_an_include_through_a_link_is_judged_by_where_the_link_leads(folder: Path) -> None:
    put(folder.parent, "outside.json")
    (folder / "way.json").symlink_to(folder.parent / "outside.json")
    with pytest.raises(IncludeRefused, match=r"way\.json is a link that leaves the worker's folder"):
        gather(worker(folder), include=["way.json"])
    put(folder, ".env")
    (folder / "rules.json").symlink_to(folder / ".env")
    with pytest.raises(IncludeRefused, match=r"rules\.json is refused, because \.env is hidden"):
        gather(worker(folder), include=["rules.json"])


def test_an_include_of_what_anybody_may_read_comes_along(folder: Path) -> None:
    for name in ("rules.json", "data/prices.csv", "keyboard.json", "idle.txt", "password_rules.json", "database.md"):
        put(folder, name)
    found = gather(worker(folder), include=["*.json", "data/*", "idle.txt", "database.md"])
    assert {"rules.json", "data/prices.csv", "keyboard.json", "idle.txt", "password_rules.json", "database.md"} < set(found)


@pytest.mark.parametrize("name", ["secrets.py", "credentials.py", "pay_secrets.py", ".hidden.py", "private.py"])
def test_a_neighbour_that_may_hold_secrets_is_not_copied_and_that_is_said(folder: Path, name: str) -> None:
    put(folder, name, mode=0o600 if name == "private.py" else 0o644)
    put(folder, "helper.py")
    (package,) = Packages(folder.parent / "packages").add(worker(folder))
    assert [path.name for path in sorted(package.folder.iterdir())] == ["helper.py", "shop.md", "shop.py"]
    assert [line.split(" is not copied for the body: ")[0] for line in package.left_behind] == [name]


def test_where_a_umask_makes_every_file_private_modes_say_nothing_of_neighbours(folder: Path) -> None:
    put(folder, "helper.py", mode=0o600)
    file = worker(folder)
    file.chmod(0o600)
    assert "helper.py" in gather(file)
    assert stays_behind(file) == []


@pytest.mark.parametrize("page", ["../shop.md", "/etc/hostname", ".env", "server.pem", "way.md", "private.md"])
def test_a_page_from_elsewhere_or_of_a_key_is_refused_before_it_is_copied(folder: Path, page: str) -> None:
    put(folder.parent, "shop.md")
    put(folder, ".env")
    put(folder, "server.pem")
    put(folder, "private.md", mode=0o600)
    (folder / "way.md").symlink_to(folder.parent / "shop.md")
    with pytest.raises(IncludeRefused, match="The page "):
        Packages(folder.parent / "packages").add(worker(folder, page=page))
    assert copied(folder) == []


def test_a_hidden_package_beside_a_worker_stays_where_it_is(folder: Path) -> None:
    put(folder, ".cache/__init__.py")
    assert set(gather(worker(folder))) == {"shop.py"}
