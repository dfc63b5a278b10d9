"""Frames as they are cut from a stream of bytes, with the descriptors that came with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.hosts.sandbox.body_frames import FrameReader, Malformed, encoded


def reader(frame_bytes: int = 1000, frames_per_second: int = 1000) -> FrameReader:
    return FrameReader(frame_bytes, frames_per_second, now=0.0)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers(-(2**60), 2**60), max_size=4), max_size=8), st.data())
def test_however_the_bytes_come_the_frames_are_the_same(frames: list[dict[str, int]], data: st.DataObject) -> None:
    stream = b"".join(map(encoded, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    heard = reader()
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += heard.take(stream[begin:end], [], 0.0)
    assert [frame.data for frame in found] == frames


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_malformed(stream: bytes) -> None:
    heard = reader()
    try:
        found = heard.take(stream, [], 0.0)
    except Malformed:
        return
    assert all(isinstance(frame.data, dict) for frame in found)


def test_a_size_is_refused_before_the_frame_has_come() -> None:
    with pytest.raises(Malformed, match="1001 bytes; at most 1000"):
        reader().take((1001).to_bytes(4, "big"), [], 0.0)


def test_a_seconds_worth_may_come_at_once_and_no_more() -> None:
    heard = reader(frames_per_second=10)
    assert len(heard.take(encoded({}) * 10, [], 0.0)) == 10
    assert len(heard.take(encoded({}) * 5, [], 0.5)) == 5
    with pytest.raises(Malformed, match="more than 10 frames in a second"):
        heard.take(encoded({}), [], 0.5)


@pytest.fixture
def file(tmp_path: Path) -> int:
    (tmp_path / "file").write_text("content")
    return os.open(tmp_path / "file", os.O_RDONLY)


def test_a_file_belongs_to_the_frame_whose_bytes_it_came_with(file: int) -> None:
    heard = reader()
    whole = encoded({"n": 2})
    first = heard.take(encoded({"n": 1}) + whole[:3], [file], 0.0)
    rest = heard.take(whole[3:] + encoded({"n": 3}), [], 0.0)
    assert [(frame.data["n"], frame.fds) for frame in [*first, *rest]] == [(1, ()), (2, (file,)), (3, ())]
    os.close(file)


def test_what_is_malformed_leaves_no_file_open(file: int) -> None:
    with pytest.raises(Malformed):
        reader().take(encoded({"n": 1}) + b"\0\0\0\2[]", [file], 0.0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_a_file_without_its_frame_is_closed_at_the_end(file: int) -> None:
    heard = reader()
    assert heard.take(b"\0", [file], 0.0) == []
    heard.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
