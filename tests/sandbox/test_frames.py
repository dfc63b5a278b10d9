"""Frames of a hostile body: what breaks the rules of the line ends the attempt, and the runner is none the worse."""

from __future__ import annotations

import pytest

from tests.sandbox.conftest import Scene, Scenes, in_each_setting

BROKEN = {
    "too_large": "a frame of 1073741824 bytes; at most 1048576 are allowed",
    "too_many": "more than 1000 frames in a second",
    "not_json": "a frame that is not JSON",
    "not_an_object": "a frame that is not an object",
    "not_text": "a frame that is not JSON",
    "empty": "a frame that is not JSON",
    "too_deep": "a frame that holds more than 20000 objects and lists",
    "not_ready": "its first frame was not `ready`",
}


@pytest.mark.parametrize("setting, way", in_each_setting(BROKEN))
def test_a_broken_frame_ends_the_attempt(scenes: Scenes, setting: str, way: str) -> None:
    found = scenes(setting).attempt(f"talker:{way}")
    assert found["code"] == "worker_crashed"
    assert BROKEN[way] in found["detail"]


def test_half_a_frame_is_no_frame(scene: Scene) -> None:
    found = scene.attempt("talker:half")
    assert (found["code"], found["frames"]) == (None, [])


@pytest.mark.parametrize("setting, what", in_each_setting(["pipe", "socket", "folder", "device", "path", "write-only"]))
def test_only_a_readable_file_is_taken(scenes: Scenes, setting: str, what: str) -> None:
    found = scenes(setting).attempt("talker:hand", what)
    assert (found["code"], found["detail"]) == ("worker_crashed", "a descriptor that is not a regular file open for reading")


@pytest.mark.parametrize("what", ["two", "many"])
def test_one_descriptor_per_frame(scene: Scene, what: str) -> None:
    found = scene.attempt("talker:hand", what)
    assert found["code"] == "worker_crashed"
    assert "descriptor" in found["detail"]


def test_a_file_comes_with_the_frame_it_was_sent_with(scene: Scene) -> None:
    found = scene.attempt("talker:hand", "file")
    assert found["frames"] == [{"op": "before"}, {"op": "artifact", "read": ["a file's content"]}, {"op": "after"}]


def test_a_frame_of_many_pieces_keeps_its_file(scene: Scene) -> None:
    found = scene.attempt("talker:big_with_file")
    told = [(frame["op"], frame.get("number"), "read" in frame, len(frame.get("data", ""))) for frame in found["frames"]]
    whole = [part for number in range(3) for part in (("before", number, False, 0), ("artifact", number, True, 500_000))]
    assert told == [*whole, ("after", None, False, 0)]


def test_a_body_that_never_says_ready_runs_out_of_time(scene: Scene) -> None:
    assert scene.attempt("talker:silent", timeout=2.0)["code"] == "timeout"


def test_one_byte_at_a_time_is_no_sign_of_life(scene: Scene) -> None:
    """Each byte came well within the idle time, and none of them ended a frame."""
    found = scene.attempt("talker:dribble", timeout=20, idle_timeout=0.4)
    assert (found["code"], found["frames"]) == ("idle_timeout", [])
    assert found["seconds"] < 10
