"""What --reload looks at."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from holdfast.lambda_api.templates.file_watch import changes, look, printed_to


def test_what_programs_write_beside_code_is_no_change_of_it(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text("1")
    seen = look([tmp_path])
    for name in ("serve.log", "nohup.out", "serve.err", "events.jsonl"):
        (tmp_path / name).write_text("a line")
    assert look([tmp_path]) == seen
    (tmp_path / "names.json").write_text("{}")
    assert look([tmp_path]) != seen


def test_the_files_that_we_print_to_are_known_and_a_pipe_is_none(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with (tmp_path / "said").open("w") as file, os.fdopen(reading), os.fdopen(writing, "w"):
        assert printed_to((file.fileno(), writing)) == [tmp_path / "said"]


async def test_a_change_between_an_earlier_look_and_the_first_one_of_the_watch_counts(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text("1")
    seen = look([tmp_path])
    (tmp_path / "greeting.py").write_text("22")
    async with asyncio.timeout(30):
        async for _ in changes([tmp_path], (), seen, seconds=0):
            break


def test_a_file_that_changed_after_a_time_is_not_among_those_before_it(tmp_path: Path) -> None:
    for name, at in (("old.py", 1_799_999_999), ("now.py", 1_800_000_000), ("new.py", 1_800_000_001)):
        (tmp_path / name).write_text("1")
        os.utime(tmp_path / name, (at, at))
    assert {Path(path).name for path, _, _ in look([tmp_path], (), 1_800_000_000_000)} == {"old.py"}
