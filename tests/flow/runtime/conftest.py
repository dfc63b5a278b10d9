"""Official packages in the versions that these tests need, fetched once and kept beside the bench's."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_CACHE = Path(__file__).parents[3] / ".bench" / "sdks"
_PATIENCE_SECONDS = 100
JS_SDK = "@aws/durable-execution-sdk-js@2.4.0"
NODE_CLIENT = "aws-lambda-ric@3.3.0"


def _fetched(name: str, command: Callable[[Path], Sequence[str]]) -> Path:
    """The folder of a package. The first test that needs it fetches it; without a network the test is skipped."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    folder, complete = _CACHE / name, _CACHE / f"{name}.complete"
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                done = subprocess.run(command(folder), capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"{name} could not be fetched: {error}")
            if done.returncode:
                pytest.skip(f"{name} could not be fetched: {done.stderr.strip().splitlines()[-1:]}")
            complete.touch()
    return folder


def python_package(name: str) -> Path:
    """A package with its dependencies, in a folder of its own."""
    own = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    pip = [sys.executable, "-m", "pip"] if own else ["python3", "-m", "pip", "--python", sys.executable]
    return _fetched(name, lambda folder: [*pip, "install", "--quiet", "--target", str(folder), name])


@pytest.fixture(scope="session")
def python_sdk() -> Callable[[str], Path]:
    """A version of the official Python SDK, with its dependencies, in a folder of its own."""

    return lambda version: python_package(f"aws-durable-execution-sdk-python=={version}")


def _from_npm(package: str) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node with npm here")
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts"]
    folder = _fetched(package.replace("/", "-"), lambda folder: ["npm", "install", *quiet, "--prefix", str(folder), package])
    return folder / "node_modules"


@pytest.fixture(scope="session")
def js_sdk() -> Path:
    """The `node_modules` of the official JavaScript SDK."""
    return _from_npm(JS_SDK)


@pytest.fixture(scope="session")
def official_node_client() -> tuple[str, ...]:
    """The command of the official runtime client for Node, its native part replaced (see node_native.cjs); the handler comes last."""
    program = _from_npm(NODE_CLIENT) / "aws-lambda-ric" / "bin" / "index.mjs"
    return "node", "--require", str(Path(__file__).with_name("node_native.cjs")), str(program)
