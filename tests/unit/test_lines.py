"""JSON lines in a file, read again from their end."""

from __future__ import annotations

from pathlib import Path

from holdfast.signals.lines import LineFile


def test_the_newest_documents_are_read_within_bounds_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "letters.jsonl")
    assert file.newest(10) == []
    for number in range(100):
        file.append({"number": number})
    assert [one["number"] for one in file.newest(3)] == [99, 98, 97]
    with file.path.open("ab") as torn:
        torn.write(b'\xff{"number": \n["no object"]\n{"number": 1')
    assert [one["number"] for one in file.newest(2)] == [99, 98]
    within = file.newest(1000, most_bytes=200)
    assert 0 < len(within) < 20
    assert within[0]["number"] == 99
