"""The texts that a reader gets: every docstring and every message of a `raise`, with a signature and without code."""

from pathlib import Path

import pytest

from tests.drawings import reader_texts
from tests.drawings.reader_texts import sample, texts_of
from tests.unit.source_files import Module

SOURCE = '''"""A module."""
class Lamp(Device):
    """A lamp."""
    async def light(self, watts: int = 40) -> bool:
        """Whether the lamp is on."""
        if watts > 100:
            raise TooMuch(f"A lamp takes at most {LIMIT} watts.", "short code")
        if watts < 0:
            raise self._wrong(place, "watts must be at least zero")
        return True
def _unsaid(): ...
'''


@pytest.fixture
def lamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.setattr("tests.unit.source_files.SRC", tmp_path)
    (tmp_path / "lamp.py").write_text(SOURCE)
    return Module(tmp_path / "lamp.py")


def test_a_text_stands_with_its_place_and_its_signature_and_without_code(lamp: Module) -> None:
    assert [(text.place, text.heading, text.text) for text in texts_of(lamp)] == [
        ("lamp.py:1", "module lamp.py", "A module."),
        ("lamp.py:2", "class Lamp(Device)", "A lamp."),
        ("lamp.py:4", "async def Lamp.light(self, watts: int=40) -> bool", "Whether the lamp is on."),
        ("lamp.py:7", "error TooMuch, raised in Lamp.light", "A lamp takes at most {…} watts."),
        ("lamp.py:9", "error self._wrong, raised in Lamp.light", "{…}: watts must be at least zero"),
    ]


def test_the_same_seed_chooses_the_same_texts_and_another_seed_others(lamp: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_texts, "modules", lambda: [lamp])
    drawn = [sample(seed, 3) for seed in range(20)]
    assert drawn == [sample(seed, 3) for seed in range(20)]
    assert len({tuple(texts) for texts in drawn}) > 1
