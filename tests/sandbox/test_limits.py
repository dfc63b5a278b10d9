"""Limits: a body that passes a limit is ended with the limit's name, and leaves nothing. How soon: test_promptness.py."""

from __future__ import annotations

import secrets

import pytest

from tests.sandbox import scene as scenes_of
from tests.sandbox.conftest import Scene, Scenes, in_each_setting

# --- memory, CPU, disk, descriptors


@pytest.mark.parametrize("setting, bomb", in_each_setting(["memory", "memory_at_once", "memory_stubborn", "memory_shared", "memory_in_c"]))
def test_a_memory_bomb_is_called_by_its_name(scenes: Scenes, setting: str, bomb: str) -> None:
    found = scenes(setting).attempt(f"greedy:{bomb}")
    assert found["code"] == "memory_exceeded", found["detail"]
    assert found["rss"] < 128 * 1.25 + 64 + 32


def test_one_attempt_may_have_less_memory_than_its_jail(scene: Scene) -> None:
    found = scene.attempt("greedy:memory_stubborn", jail={"memory_mb": 1024}, tighter={"memory_mb": 64})
    assert found["code"] == "memory_exceeded", found["detail"]
    assert found["rss"] < 64 * 1.25 + 64 + 32


def test_memory_of_children_counts_too(apart: Scene) -> None:
    assert apart.attempt("greedy:memory_of_children", jail={"allow_children": True})["code"] == "memory_exceeded"


def test_memory_that_children_share_counts_once(apart: Scene) -> None:
    found = apart.attempt("greedy:family", jail={"allow_children": True})
    assert found["code"] is None, found["detail"]


@pytest.mark.parametrize("setting, spin", in_each_setting(["cpu", "cpu_in_threads"]))
def test_cpu_is_counted_over_all_threads(scenes: Scenes, setting: str, spin: str) -> None:
    found = scenes(setting).attempt(f"greedy:{spin}", jail={"cpu_seconds": 0.3})
    assert found["code"] == "cpu_exceeded", found["detail"]
    assert found["cpu"] > 0.2


def test_cpu_of_children_counts_too(apart: Scene) -> None:
    found = apart.attempt("greedy:children_cpu", jail={"cpu_seconds": 0.3, "allow_children": True})
    assert found["code"] == "cpu_exceeded"


@pytest.mark.parametrize("setting, way", in_each_setting(["disk", "disk_in_pieces", "disk_without_names", "disk_of_names"]))
def test_a_full_scratch_is_called_by_its_name(scenes: Scenes, setting: str, way: str) -> None:
    found = scenes(setting).attempt(f"greedy:{way}")
    assert found["code"] == "disk_exceeded", (found["detail"], found["stdout"])


def test_a_scratch_deeper_than_any_path_is_cleared_away(scene: Scene) -> None:
    found = scene.attempt("greedy:disk_deep")
    assert found["code"] in (None, "disk_exceeded")


def test_descriptors_run_out_for_the_body_only(scene: Scene) -> None:
    found = scene.attempt("greedy:descriptors", jail={"open_files": 32})
    [frame] = found["frames"]
    assert frame["by"] == "Too many open files"
    assert frame["at"] < 32


# --- processes


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_no_child_unless_allowed(scene: Scene, way: str) -> None:
    assert scene.attempt(f"greedy:{way}")["code"] == "process_limit"


def test_no_shell_unless_allowed(scene: Scene) -> None:
    [frame] = scene.attempt("greedy:shell")["frames"]
    assert frame["status"] != 0


def test_a_fork_bomb_that_goes_on_makes_no_process(scene: Scene) -> None:
    found = scene.attempt("greedy:fork_bomb", timeout=0.3)
    assert found["code"] == "timeout"


def test_children_may_be_allowed_where_they_can_be_kept_together(apart: Scene) -> None:
    found = apart.attempt("greedy:spawn", jail={"allow_children": True})
    assert found["code"] is None, found["stdout"]


def test_a_fork_bomb_is_called_by_its_name(apart: Scene) -> None:
    found = apart.attempt("greedy:fork_bomb", jail={"allow_children": True})
    assert found["code"] == "process_limit"


def test_a_bomb_of_threads_is_called_by_its_name(scene: Scene) -> None:
    found = scene.attempt("greedy:threads", jail={"memory_mb": 1024})
    assert found["code"] == "process_limit", found["stdout"]


def test_a_daemon_does_not_survive_its_attempt(apart: Scene) -> None:
    word = f"daemon-{secrets.token_hex(8)}"
    found = apart.attempt("greedy:grandchild", word, jail={"allow_children": True})
    assert (found["code"], found["frames"]) == (None, [{"op": "done"}])
    assert scenes_of.named(word) == []


# --- time


WAYS = ("sleep", "sleep_through_signals", "blocked_in_c", "backtracking", "fork_bomb", "flood")


@pytest.mark.parametrize("setting, way", in_each_setting(WAYS, kind=lambda way: way == "fork_bomb"))
def test_time_is_up_whatever_it_does(scenes: Scenes, setting: str, way: str) -> None:
    found = scenes(setting).attempt(f"greedy:{way}", timeout=0.5)
    assert found["code"] == "timeout"


def test_idle_is_no_frame_for_that_long(scene: Scene) -> None:
    found = scene.attempt("greedy:sleep", timeout=20, idle_timeout=0.3)
    assert found["code"] == "idle_timeout"


def test_time_to_be_imported_counts(scene: Scene) -> None:
    found = scene.attempt("stuck:main", timeout=0.4)
    assert (found["code"], found["detail"]) == ("timeout", "not done after 0.4 s")


@pytest.mark.parametrize("setting, way", in_each_setting(["memory", "cpu", "disk"]))
def test_limits_hold_while_it_is_imported(scenes: Scenes, setting: str, way: str) -> None:
    found = scenes(setting).attempt(f"early_{way}:main", jail={"cpu_seconds": 0.5})
    assert found["code"] == f"{way}_exceeded"


def test_what_cannot_be_imported_has_crashed_and_says_why(scene: Scene) -> None:
    found = scene.attempt("broken:main")
    assert found["code"] == "worker_crashed"
    assert "this module is broken" in found["stdout"]


# --- output


def test_a_flood_of_output_is_cut(scene: Scene) -> None:
    found = scene.attempt("greedy:flood", timeout=0.5, jail={"stdout_bytes": 1000})
    assert len(found["stdout"]) == 1000


def test_both_streams_are_kept(scene: Scene) -> None:
    assert scene.attempt("talker:printing")["stdout"] == "to the output\nto the error\n"


def test_an_exception_that_nobody_caught_is_a_crash(scene: Scene) -> None:
    found = scene.attempt("talker:raising")
    assert (found["code"], found["detail"]) == ("worker_crashed", "the body exited with code 1")
    assert "a worker's own mistake" in found["stdout"]
