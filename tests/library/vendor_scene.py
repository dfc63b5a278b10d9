"""The vendor example on its own web: a local site on a free port, the operator's settings, and copies of its folder."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy
from holdfast.workers.tools.cassettes import CassetteMode, CassetteSettings
from tests.conftest import ROOT
from tests.library.example_scene import serving
from tests.library.scene import OFTEN, local

FOLDER = ROOT / "examples" / "vendor_research"
ADDRESS = "http://127.0.0.1:8765"
"""The address in the files of the example; tests use a free port."""
CASE: dict[str, Any] = json.loads((FOLDER / "case.json").read_text())


@contextmanager
def serving_site() -> Iterator[Any]:
    """The local site of the example, which counts the reports that it gets."""
    with serving(runpy.run_path(str(FOLDER / "local_site.py"))["LocalSite"]()) as site:
        yield site


def settings_for(web: Any, folder: Path) -> WorkerSettings:
    """What the example's holdfast.toml says, with the address of this site."""
    parameters = folder / "parameters.toml"
    parameters.write_text((FOLDER / "parameters.toml").read_text().replace(ADDRESS, web.url))
    played = CassetteSettings(CassetteMode.REPLAY, str(FOLDER / "cassette.jsonl"), ("language_model",))
    return WorkerSettings(
        policy=Policy(rate_limits=OFTEN), parameters=str(parameters), fetch=local(ports=(web.server_port,)), cassette=played
    )


def case_at(web: Any) -> dict[str, Any]:
    """The case of the example, with pages of this site."""
    return {**CASE, "urls": [url.replace(ADDRESS, web.url) for url in CASE["urls"]]}


def copied_for(web: Any, folder: Path) -> Path:
    """A copy of the example whose files name this site."""
    copy = folder / "vendor_research"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__", "holdfast.db*"))
    for name in ("case.json", "holdfast.toml", "parameters.toml"):
        (copy / name).write_text((copy / name).read_text().replace(ADDRESS.removeprefix("http://"), web.url.removeprefix("http://")))
    return copy
