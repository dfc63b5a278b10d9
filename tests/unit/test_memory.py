"""The folder in which tests have their files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_pytest_that_begins_later_does_not_close_the_folder_of_this_run_to_other_users(tmp_path: Path) -> None:
    """A Postgres of another user may work in it."""
    folders = [folder for folder in (tmp_path, *tmp_path.parents) if folder.is_relative_to(tmp_path.parents[1])]
    for folder in folders:
        folder.chmod(0o755)
    inner = tmp_path / "test_inner.py"
    inner.write_text("def test_with_a_file(tmp_path):\n    assert not list(tmp_path.iterdir())\n")
    subprocess.run([sys.executable, "-m", "pytest", "-q", str(inner)], cwd=tmp_path, check=True, capture_output=True)
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o755] * len(folders)
