"""The sample of `holdfast dev`: the vendor-research pipeline. A recorded model and a small local web server make it run without a key and
without a network.

In a wheel the sample is in the folder `samples` beside this file. In a clone of the repository it is `examples/vendor_research`, which the
build copies into the wheel.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.files import private
from holdfast.model.errors import InvalidParameter

PIPELINE: Final = "vendor-research"
_NAME: Final = "vendor_research"
_PLACES: Final = (Path(__file__).parent / "samples" / _NAME, Path(__file__).resolve().parents[3] / "examples" / _NAME)
_LEFT: Final = shutil.ignore_patterns("__pycache__", "holdfast.db*", "demo.py", "README.md")
_WITH_ADDRESSES: Final = ("case.json", "holdfast.toml", "parameters.toml")
_ADDRESS: Final = re.compile(r"127\.0\.0\.1:\d+")


class Sample(msgspec.Struct, frozen=True):
    """The user's copy of the sample."""

    folder: Path

    @property
    def target(self) -> str:
        """The file that `holdfast dev` serves."""
        return str(self.folder / "vendor_research.py")

    @property
    def config(self) -> Path:
        """The operator's file of the sample."""
        return self.folder / "holdfast.toml"

    def inputs(self) -> dict[str, Any]:
        """The inputs of the run that `holdfast dev` starts, read from the copy. Raises InvalidParameter if they cannot be read."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "case.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._changed_too_much(str(error)) from None
        return found

    @property
    def port(self) -> int:
        """The port of the sample's web server, read from the copy. A run that continues later asks the same port. Raises InvalidParameter
        if the inputs in the copy do not have it."""
        try:
            return int(self.inputs()["urls"][0].split("/")[2].rpartition(":")[2])
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._changed_too_much("its urls do not begin with the address of the sample's web server") from None

    def _changed_too_much(self, why: str) -> InvalidParameter:
        return InvalidParameter(f"{self.folder / 'case.json'} cannot be used: {why}. Correct it, or remove {self.folder} to begin anew.")

    def fill(self) -> None:
        """Copy the sample to its folder. An existing copy is kept, because the user may have changed it. Raises InvalidParameter if the
        folder cannot be written, or if this installation has no sample."""
        source = source_folder()
        if (self.folder / "vendor_research.py").exists():
            return
        with self._written():
            private.own_folder(self.folder)
            shutil.copytree(source, self.folder, ignore=_LEFT, dirs_exist_ok=True)
            for path in (self.folder, *self.folder.rglob("*")):
                path.chmod(private.FOLDER if path.is_dir() else private.FILE)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """A block that writes into the copy. If it raises OSError, this raises InvalidParameter, which advises another place for the
        store."""
        try:
            yield
        except OSError as error:
            why = f"The sample, {self.folder}, could not be written: {error.strerror or error}."
            raise InvalidParameter(f"{why} The folder of the sample is beside the store: name a store elsewhere with --store.") from None

    @contextlib.contextmanager
    def web(self) -> Iterator[str]:
        """Run the sample's web server in a thread of this process until the block is left. Yields its address. The addresses in the copy
        are changed to this one. Raises InvalidParameter if another process runs the web server of this copy."""
        with self._alone(), self._running_web() as address:
            yield f"http://{address}"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in which no other process serves this copy: it would change the addresses under the runs of this process."""
        folder = private.open_folder(self.folder)
        try:
            self._lock(folder)
            yield
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)  # a forked child may still have the folder open
            os.close(folder)

    def _lock(self, folder: int) -> None:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidParameter(
                f"Another `holdfast dev` serves the sample {self.folder}. Open its console, end it, or name another store with --store."
            ) from None

    @contextlib.contextmanager
    def _running_web(self) -> Iterator[str]:
        site = _site(self.port)
        serving = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.1}, name="sample-web", daemon=True)
        serving.start()
        try:
            address = f"127.0.0.1:{site.server_port}"
            with self._written():
                for name in _WITH_ADDRESSES:
                    file = self.folder / name
                    text = file.read_text(encoding="utf-8")
                    if (changed := _ADDRESS.sub(address, text)) != text:
                        file.write_text(changed, encoding="utf-8")
            yield address
        finally:
            site.shutdown()
            serving.join()
            site.server_close()


def sample_of(store: str) -> Sample:
    """The sample of a store: in a folder beside the store's file; for a database, in the current folder."""
    return Sample(Path("holdfast.sample").absolute() if "://" in store else Path(f"{store}.sample").absolute())


def source_folder() -> Path:
    """The folder from which the sample is copied. Raises InvalidParameter if this installation has none."""
    found = next((place for place in _PLACES if (place / "vendor_research.py").is_file()), None)
    if found is None:
        raise InvalidParameter("This installation has no sample. Name a target: `holdfast new worker NAME`, then `holdfast dev NAME`.")
    return found


def _site(port: int) -> Any:
    """The sample's web server on this port, or on another one if the port is taken. Its code is loaded from the installation, not from the
    copy."""
    spec = importlib.util.spec_from_file_location("holdfast_sample_web", source_folder() / "local_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = bytecode
    try:
        return module.LocalSite(port)
    except OSError:
        return module.LocalSite(0)
