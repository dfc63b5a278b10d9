"""Chooses the interpreter for a function. Each candidate on the PATH is tried (started once) before it is used, because it may not run.

For example, version managers install shims for every version, and a shim fails if its version is not selected. Each try has a time limit,
and a file that has not changed is not tried again. An interpreter is chosen once for each version, and then kept.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.model.errors import FunctionNotLoadable

HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version of the Python that runs this server, such as `3.13`."""
_SECONDS: Final = 10.0
_SAID_CHARACTERS: Final = 200
_ASK_PYTHON: Final = ("-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)")
_ASK_NODE: Final = ("-e", "console.log(process.versions.node, process.execPath)")


class TriedInterpreter(msgspec.Struct, frozen=True):
    """The result of trying one file: the file is started and asked for its version."""

    file: str
    version: str = ""
    """The version of the interpreter; empty if the file cannot be used."""
    program: str = ""
    """The path that the interpreter gives as its own. If `file` is a shim, this is the program that the shim starts, and it needs none of
    the shim's variables. Empty if the file cannot be used."""
    why_not: str = ""
    """Why the file cannot be used; empty if it can."""


class ChosenInterpreter(msgspec.Struct, frozen=True):
    """The interpreter that was chosen for a name of a runtime, such as `python3.12`."""

    program: str
    version: str
    caution: str = ""
    """A warning for the operator: files on the PATH that were tried and not used, or that the version differs from the one in the runtime's
    name. Empty if there is nothing to say."""

    @property
    def is_ours(self) -> bool:
        """Whether it is the Python that runs this server."""
        return self.program == sys.executable


class Interpreters:
    """The interpreters on the PATH, or on `path` if it is given. One try may take at most `seconds`. The choice for a version is kept:
    later changes on the PATH do not change it. Methods may block, and any thread may call them."""

    def __init__(self, path: str | None = None, seconds: float = _SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._chosen: dict[tuple[str, str], ChosenInterpreter | FunctionNotLoadable] = {}
        self._choosing = threading.Lock()

    def python(self, version: str) -> ChosenInterpreter:
        """The interpreter for this version of Python. If this server's Python has the version, or if the version is empty or `3`, it is the
        Python of this server; else one on the PATH that starts and has the version. If there is none, it is the Python of this server, with
        a warning."""
        if version in ("", "3", HERE):
            return ChosenInterpreter(sys.executable, HERE)
        return self._choose("python", version)

    def node(self, version: str) -> ChosenInterpreter:
        """The interpreter for this version of Node: one on the PATH that starts, if possible of this version. If it has another version,
        the result has a warning. Raises FunctionNotLoadable if no `node` on the PATH starts."""
        return self._choose("nodejs", version)

    def knows(self, kind: str, version: str) -> bool:
        """Whether the interpreter for this language (`python` or `nodejs`) and version is chosen already, so that `python` or `node` does
        not block."""
        return (kind, version) in self._chosen or (kind == "python" and version in ("", "3", HERE))

    def _choose(self, kind: str, version: str) -> ChosenInterpreter:
        found = self._chosen.get((kind, version))  # before the lock: another thread may hold it while it tries another version
        if found is None:
            with self._choosing:
                found = self._chosen.get((kind, version)) or self._tried(kind, version)
                self._chosen[kind, version] = found
        if isinstance(found, FunctionNotLoadable):
            raise FunctionNotLoadable(str(found))
        return found

    def _tried(self, kind: str, version: str) -> ChosenInterpreter | FunctionNotLoadable:
        try:
            return self._python(version) if kind == "python" else self._node(version)
        except FunctionNotLoadable as error:
            return error

    def _python(self, version: str) -> ChosenInterpreter:
        tried: list[TriedInterpreter] = []
        for one in self._tries(f"python{version}", _ASK_PYTHON):
            if _is(one.version, version):
                return ChosenInterpreter(one.program, one.version, _not_used(tried))
            tried.append(one)
        what = _not_used(tried) or f"there is no python{version} on the path"
        return ChosenInterpreter(sys.executable, HERE, f"{what}; the Python that serves ({HERE}, {sys.executable}) runs it instead")

    def _node(self, version: str) -> ChosenInterpreter:
        tried: list[TriedInterpreter] = []
        for one in self._tries("node", _ASK_NODE):
            if one.version and (not version or _is(one.version, version)):
                return ChosenInterpreter(one.program, one.version, _not_used(tried))
            tried.append(one)
        broken = _not_used([one for one in tried if not one.version])
        working = next((one for one in tried if one.version), None)
        if working is None:
            raise FunctionNotLoadable(
                f"{broken or 'there is no `node` on the path'}; install Node {version or '(any version)'} on the path"
            )
        other = f"Node {working.version} ({working.file}) runs it; there is no Node {version} on the path"
        return ChosenInterpreter(working.program, working.version, f"{broken}; {other}" if broken else other)

    def _tries(self, name: str, ask: Sequence[str]) -> Iterator[TriedInterpreter]:
        seen = set()
        for folder in (os.environ.get("PATH", os.defpath) if self._path is None else self._path).split(os.pathsep):
            file = shutil.which(name, path=folder) if folder else None
            if file is None:
                continue
            file = os.path.abspath(file)
            place = os.path.join(os.path.realpath(os.path.dirname(file)), name)  # /bin may be a link to /usr/bin
            if place not in seen:
                seen.add(place)
                status = os.stat(file)
                yield _tried(file, tuple(ask), self._seconds, (status.st_ino, status.st_mtime_ns))


def _is(found: str, wanted: str) -> bool:
    parts = wanted.split(".")
    return found.split(".")[: len(parts)] == parts


def _not_used(tried: Sequence[TriedInterpreter]) -> str:
    return "; ".join(f"{one.file} is not used: {one.why_not or f'it is version {one.version}'}" for one in tried)


@functools.lru_cache(maxsize=64)
def _tried(file: str, ask: tuple[str, ...], seconds: float, identity: tuple[int, int]) -> TriedInterpreter:
    """Start a file and ask for its version. The file gets the server's environment variables, because a shim needs them; a function never
    gets them. `identity` is not used in the try: results are cached by all arguments, and `identity` changes when the file changes, so that
    a changed file is tried again."""
    try:
        child = subprocess.Popen(
            [file, *ask], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        return TriedInterpreter(file, why_not=f"it cannot be started: {error.strerror}")
    with child:
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # a shim is a shell with children
            return TriedInterpreter(file, why_not=f"it did not say its version within {seconds:g} s")
    if child.returncode:
        said = next((line.strip() for line in err.decode(errors="replace").splitlines() if line.strip()), "it says nothing")
        said = "".join(letter if letter.isprintable() else "?" for letter in said)[:_SAID_CHARACTERS]
        return TriedInterpreter(file, why_not=f"it exits with {child.returncode}: {said}")
    version, _, program = out.decode(errors="replace").strip().rpartition("\n")[2].partition(" ")
    if not version or not os.path.isabs(program) or not os.access(program, os.X_OK):
        return TriedInterpreter(file, why_not="it does not say its version")
    return TriedInterpreter(file, version, program)
