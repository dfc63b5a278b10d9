"""Structs that several threads read for the first time at the same moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from holdfast.model import json_structs

TOGETHER = """
import sys, threading
import msgspec
from holdfast.model import json_structs

sys.setswitchinterval(1e-6)
TEXT = b'{"a":{"f1":1},"b":[{"f9":"x"}],"c":{"k":{"f2":2}},"f3":3}'
VALUE = msgspec.json.decode(TEXT)


def family(n):
    fields = [(f"f{at}", int | str | None, None) for at in range(20)]
    low = msgspec.defstruct(f"Low{n}", fields)
    return msgspec.defstruct(f"Top{n}", [("a", low), ("b", list[low]), ("c", dict[str, low]), *fields])


def read(top, gate, at, seen):
    gate.wait()
    seen.append(json_structs.decoded(TEXT, top) if at % 2 else json_structs.converted(VALUE, top))


for n in range(ROUNDS):
    top, gate, seen = family(n), threading.Barrier(4), []
    threads = [threading.Thread(target=read, args=(top, gate, at, seen)) for at in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [(one.a.f1, one.b[0].f9, one.f3) for one in seen] == [(1, "x", 3)] * 4
print("all read")
"""


class Point(msgspec.Struct):
    x: int


def test_threads_that_read_a_struct_for_the_first_time_at_once_all_get_it() -> None:
    """With `msgspec.json.decode(text, type=…)` in its place the process dies of a segmentation fault, in the first rounds."""
    code = TOGETHER.replace("ROUNDS", "300")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "all read\n"), ended.stderr


def test_what_does_not_fit_is_told_as_msgspec_tells_it() -> None:
    assert (
        json_structs.decoded('{"x": 1}', Point)
        == json_structs.converted({"x": 1}, Point)
        == json_structs.converted({"x": "1"}, Point, strict=False)
    )
    reads: list[Callable[[], Point]] = [
        lambda: json_structs.decoded('{"x": "1"}', Point),
        lambda: json_structs.converted({"x": "1"}, Point),
    ]
    for read in reads:
        with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `str`"):
            read()
