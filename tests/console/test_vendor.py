"""The files of others that the console ships are the ones that the table names, with a licence."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path


def test_every_file_of_others_is_in_the_table_with_its_hash_and_licence(root: Path) -> None:
    folder = root / "src/holdfast/console/static/vendor"
    rows = re.findall(r"^\| (\S+\.js) \| \S+ \| (.+?) \| .+? \| ([0-9a-f]{64}) \|$", (folder / "README.md").read_text(), re.M)
    assert {name: digest for name, _, digest in rows} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.js")
    }
    assert all("BSD" in licence or "MIT" in licence for _, licence, _ in rows)


def test_our_own_scripts_stay_small(root: Path) -> None:
    """About 1,500 lines in all: pages work without scripts, and scripts only make them live."""
    files = list((root / "src/holdfast/console/static").glob("*.js"))
    assert sum(len(file.read_text().splitlines()) for file in files) <= 1_500
