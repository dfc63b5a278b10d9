"""What a worker may do, in every setting."""

from __future__ import annotations

from tests.sandbox.conftest import Scene


def test_an_ordinary_worker_finds_what_it_needs(scene: Scene) -> None:
    found = scene.attempt("honest:main")
    assert found["code"] is None, (found["detail"], found["stdout"])
    [frame] = found["frames"]
    assert (frame["copied"], frame["squares"], frame["zone"], frame["sqlite"]) == ("text", 2470, "2:00:00", 1)
    assert frame["certificates"] > 0
    assert frame["async"] == "threads and loops"
    assert frame["page"] == "# the page\n"


def test_installed_packages_work(scene: Scene) -> None:
    found = scene.attempt("honest:installed")
    assert found["code"] is None, (found["detail"], found["stdout"])
    [frame] = found["frames"]
    missing = {name: what for name, what in frame["found"].items() if what != "imported" and not what.startswith("ModuleNotFoundError")}
    assert missing == {}
    assert frame["found"]["msgspec"] == frame["found"]["orjson"] == "imported"
    assert frame["sorted"] == [1, 2, 3]
