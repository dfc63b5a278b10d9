"""What a machine cannot enforce is refused by name; without a jail, limits still hold."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from tests.sandbox import scene as scenes_of
from tests.sandbox import settings
from tests.sandbox.conftest import Scene

Scenes = Callable[[str], Scene]
PROCESS = {"isolation": "process"}


@pytest.mark.parametrize("setting", [settings.USER_BARE, settings.ROOT_BARE])
def test_children_without_namespaces_are_refused_by_name(scenes: Scenes, setting: str) -> None:
    why = scenes(setting).refused("greedy:spawn", jail={"allow_children": True})
    assert "user namespaces (new namespaces: [Errno 1] Operation not permitted)" in why
    assert "--isolation process" in why


def test_namespaces_that_can_do_nothing_are_none(scenes: Scenes) -> None:
    """Ubuntu lets every user make a namespace, and then refuses the calls that need it."""
    scene = scenes(settings.MOUNTLESS)
    held = scene.attempt("talker:printing")["isolation"]
    assert (held["isolation"], held["user_namespace"], held["seccomp"]) == ("all", False, True)
    assert "user namespaces (mounts: " in scene.refused("greedy:spawn", jail={"allow_children": True})


def test_neither_namespaces_nor_landlock_is_refused_by_name(scenes: Scenes) -> None:
    assert "and Landlock; `--isolation process`" in scenes(settings.NOTHING).refused("honest:main")


def test_this_kernel_has_what_the_tests_are_about(scenes: Scenes) -> None:
    """Where it has not, that is said here and not passed over in silence."""
    if not settings.landlock_here():
        pytest.skip("this kernel has no Landlock: the settings without namespaces are refused, not jailed")
    held = scenes(settings.USER).attempt("talker:printing")["isolation"]
    if not held["user_namespace"]:
        pytest.skip("an ordinary user has no namespaces here")
    assert held["landlock"] >= 1


@pytest.mark.parametrize("setting", [settings.USER, settings.ROOT, settings.NOTHING])
def test_process_isolation_says_that_it_is_none(scenes: Scenes, setting: str) -> None:
    found = scenes(setting).attempt("honest:main", jail=PROCESS)
    assert found["code"] is None, found["stdout"]
    held = found["isolation"]
    assert (held["isolation"], held["seccomp"], held["landlock"], held["pid_namespace"]) == ("process", False, 0, False)
    assert "the-runners-own" not in str(found["frames"])


def test_process_isolation_keeps_its_limits(scenes: Scenes) -> None:
    scene = scenes(settings.NOTHING)
    assert scene.attempt("greedy:memory", jail=PROCESS)["code"] == "memory_exceeded"
    assert scene.attempt("greedy:cpu", jail=PROCESS | {"cpu_seconds": 0.3})["code"] == "cpu_exceeded"
    assert scene.attempt("greedy:disk_in_pieces", jail=PROCESS)["code"] == "disk_exceeded"
    assert scene.attempt("greedy:fork_bomb", jail=PROCESS | {"processes": 8, "allow_children": True})["code"] == "process_limit"
    assert scene.attempt("greedy:sleep_through_signals", jail=PROCESS, timeout=0.3)["code"] == "timeout"


def test_a_daemon_is_found_also_without_a_namespace(scenes: Scenes) -> None:
    word = f"daemon-{secrets.token_hex(8)}"
    found = scenes(settings.NOTHING).attempt("greedy:grandchild", word, jail=PROCESS | {"allow_children": True})
    assert found["frames"] == [{"op": "done"}]
    assert scenes_of.named(word) == []
