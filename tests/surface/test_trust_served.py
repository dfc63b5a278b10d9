"""`holdfast serve` and tools of workers' authors: only those run that the operator's file names, from folders no other user can change."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.arguments import StorePlace
from holdfast.cli.consent import run_terms
from holdfast.cli.serve_workers import ServeWorkers
from holdfast.lambda_api.templates.descriptions import FoundTargets
from holdfast.library import find
from holdfast.operator.trust import ToolsNotAllowed, TrustNeeded, TrustRefused
from holdfast.workers.packages import Packages
from tests.surface.stranger import WITH_A_TOOL, WITHOUT, Stranger


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    stranger = Stranger(tmp_path)
    stranger.enter(monkeypatch)
    return stranger


def served(*workers: str, config: Path | None = None, store: str | None = "named.db", trust: bool = False) -> ServeWorkers | None:
    return ServeWorkers.of(FoundTargets(workers=tuple(map(Path, workers))), StorePlace.of(store, None), None, config, trust=trust)


def test_a_server_refuses_tools_that_the_operators_file_does_not_name_with_the_lines_to_add(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    inside.trust()
    with pytest.raises(ToolsNotAllowed) as refused:
        served("shop.py")
    told = str(refused.value).split("\n")
    assert told[0].endswith("the operator's file does not allow them: shop:pay.")
    assert told[2:] == ["[tools]", 'allow = ["shop:pay"]']
    config = tmp_path / "operator.toml"
    config.write_text("\n".join(told[2:]))
    inside.book.remove(inside.folder)
    assert served("shop.py", config=config) is not None  # the operator's own file is enough
    assert not inside.ran_outside


def test_a_toml_of_an_untrusted_folder_allows_a_server_nothing(inside: Stranger) -> None:
    inside.write(WITH_A_TOOL, holdfast_toml='[tools]\nallow = ["pay"]\n')
    with pytest.raises(ToolsNotAllowed, match=rf"is ignored, because {inside.folder} is not trusted"):
        served("shop.py")
    assert served("shop.py", trust=True) is not None


def test_a_server_runs_no_tool_from_a_folder_that_others_can_change(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    config = tmp_path / "operator.toml"
    config.write_text('[tools]\nallow = ["pay"]\n')
    inside.folder.chmod(0o777)
    with pytest.raises(TrustRefused, match="is writable by all users"):
        served("shop.py", config=config, store=str(tmp_path / "named.db"))


def test_a_server_with_tools_takes_a_store_that_it_finds_only_from_a_trusted_folder(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    config = tmp_path / "operator.toml"
    config.write_text('[tools]\nallow = ["pay"]\n')
    with pytest.raises(TrustNeeded, match=r"its holdfast\.db is used \(no store was named\): it says which calls"):
        served("shop.py", config=config, store=None)
    inside.trust()
    assert served("shop.py", config=config, store=None) is not None


def test_tools_that_appear_later_in_a_folder_of_another_user_do_not_run(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITHOUT)
    config = tmp_path / "operator.toml"
    config.write_text('[tools]\nallow = ["pay"]\n')
    terms = run_terms([Path("shop.py")], StorePlace.of("named.db", None), None, config, trust=False)
    inside.folder.chmod(0o777)  # no tools, so the folder may be writable by all users
    workers = served("shop.py", config=config, store=str(tmp_path / "named.db"))
    assert workers is not None
    inside.write(WITH_A_TOOL)
    (package,) = Packages(tmp_path / "packages").add(Path("shop.py"))
    with pytest.raises(TrustNeeded, match="changed while it was checked"):
        terms.check([package])
    assert "Another user could change the folder of shop" in str(workers.runtime.admits("shop", package.tools[0]))


def test_tools_of_older_code_in_a_servers_store_are_held_to_the_same_list(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    config = tmp_path / "operator.toml"
    config.write_text('[tools]\nallow = ["pay"]\n')
    workers = served("shop.py", config=config)
    assert workers is not None
    (tool,) = workers.runtime.packages[0].tools
    assert workers.runtime.admits("shop", tool) is None
    older = type(tool)(**{**{name: getattr(tool, name) for name in tool.__struct_fields__}, "name": "wipe"})
    assert 'allow = ["shop:wipe"]' in str(workers.runtime.admits("shop", older))


def test_ready_workers_need_neither_trust_nor_an_entry(inside: Stranger) -> None:
    ready = find("refund-worker")
    assert ready is not None
    assert served(str(ready)) is not None
    terms = run_terms([Path("refund-worker")], StorePlace.of("named.db", None), None, None, trust=False)
    assert (terms.refusal, terms.settings.policy.isolation) == (None, "all")
