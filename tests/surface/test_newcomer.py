"""The first commands a newcomer types, on a copy of what git has and on a Python that lacks ensurepip, as Debian's does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_ENSUREPIP = """\
#!/bin/sh
case "$*" in
  "-m venv .venv") echo "ensurepip is not available" >&2; exit 1;;
esac
exec {python} "$@"
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_make_demo_needs_nothing_but_python_pip_and_make(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(root), str(copy)], check=True)
    python = tmp_path / "python3"
    python.write_text(WITHOUT_ENSUREPIP.format(python=getattr(sys, "_base_executable", sys.executable)))
    python.chmod(0o755)
    ran = subprocess.run(["make", "demo", f"PYTHON={python}"], cwd=copy, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Reports that the server received: 1," in ran.stdout
    assert not (copy / ".venv/bin/pip").exists()
