"""A runner per setting, kept for all tests, and a place for the code it is told to jail."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import costs
from tests.parts import one_of_each
from tests.sandbox import settings

BODIES = Path(__file__).parent / "bodies"


class Scene:
    """A runner in its setting; `attempt` is what it is for."""

    def __init__(self, setting: str, package: Path) -> None:
        self.setting = setting
        self.package = package
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.scene", setting],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "HOLDFAST_SECRET": "the-runners-own"},
        )  # fmt: skip
        self._used = 0.0
        self.user = self.hear()["ready"]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def apart(self) -> bool:
        """Does it have namespaces?"""
        return self.setting in settings.JAILED_APART

    def attempt(self, entry: str, *arguments: object, **wish: Any) -> dict[str, Any]:
        """Run a body of tests/sandbox/bodies, and return what came of it."""
        self.tell(entry, *arguments, **wish)
        found = self.hear()
        assert "unavailable" not in found, found["unavailable"]
        assert (found["alive"], found["left"]) == (False, [])
        return found

    def refused(self, entry: str, *arguments: object, **wish: Any) -> str:
        """Try to run a body, and return why there is no sandbox for it."""
        self.tell(entry, *arguments, **wish)
        found = self.hear()
        assert found["code"] == "sandbox_unavailable"
        return str(found["unavailable"])

    def tell(self, entry: str, *arguments: object, **wish: Any) -> None:
        assert self._process.stdin is not None
        package = wish.pop("package", self.package)
        self._process.stdin.write(json.dumps({"entry": entry, "arguments": arguments, "package": str(package), **wish}, default=str) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the runner died: {self._process.wait()}"
        heard: dict[str, Any] = json.loads(line)
        assert "error" not in heard, heard["error"]
        if (used := heard.pop("used", None)) is not None:
            costs.spent_elsewhere(used - self._used)
            self._used = used
        return heard

    def die(self) -> None:
        """As `kill -9` does it."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        costs.spent_elsewhere(-self._used)  # from now on the system counts it
        self._process.stdout.close()


Scenes = Callable[[str], Scene]
"""Gives the scene of a setting."""


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach: pytest's own is its user's only."""
    folder = Path(tempfile.mkdtemp(prefix="jail-tests-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def package(open_folder: Path) -> Path:
    """The hostile bodies, where every setting can read them."""
    copy = open_folder / "package"
    shutil.copytree(BODIES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def scenes(package: Path) -> Iterator[Scenes]:
    made: dict[str, Scene] = {}

    def scene(setting: str) -> Scene:
        if why := settings.possible(setting):
            pytest.skip(why)
        if setting not in made:
            made[setting] = Scene(setting, package)
        return made[setting]

    yield scene
    for opened in made.values():
        opened.close()


@pytest.fixture(params=one_of_each(settings.SETTINGS, kind=settings.has_namespaces))
def scene(request: pytest.FixtureRequest, scenes: Scenes) -> Scene:
    """Each setting in turn; in the quick part one with namespaces and one without."""
    return scenes(request.param)


def in_each_setting(bodies: Iterable[str], kind: Callable[[str], Hashable] = lambda body: "bodies") -> list[Any]:
    """Cases for `parametrize("setting, body")`. In the quick part: each body with namespaces, and without them one of each kind."""

    def kind_of(case: tuple[str, str]) -> tuple[bool, Hashable]:
        setting, body = case
        return (True, body) if settings.has_namespaces(setting) else (False, kind(body))

    return one_of_each(itertools.product(settings.SETTINGS, bodies), kind_of, name="-".join, several=True)


@pytest.fixture(params=settings.JAILED_APART)
def apart(request: pytest.FixtureRequest, scenes: Scenes) -> Scene:
    """The settings with namespaces, where children may be allowed."""
    return scenes(request.param)
