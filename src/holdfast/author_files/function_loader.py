"""Loads durable functions by address: `FILE:function`, `package.module:function`, or `FILE` alone if it has only one function.

Payload codecs are loaded by an address of the same form.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import cast

import msgspec

from holdfast.contract.notes import meant
from holdfast.durable.execution import DurableFunction
from holdfast.library import WORKERS
from holdfast.model.errors import CodecNotLoadable, FunctionNotFound, FunctionNotLoadable, HoldfastError, InvalidParameter
from holdfast.model.payloads import PayloadCodec

_SHOWN_FRAMES = 3


class LoadedFunction(msgspec.Struct, frozen=True):
    """The function that an address names, and all durable functions of its module."""

    function: DurableFunction
    beside: tuple[DurableFunction, ...]
    """All durable functions of the module, `function` included, each once."""
    module: ModuleType


def load(address: str) -> LoadedFunction:
    """Import the function at an address. This runs the code of its module. The address names the function by its name in the module, or by
    the name under which it is registered. Raises InvalidParameter if a part of the address is empty, and FunctionNotLoadable if the module
    cannot be imported. Raises FunctionNotFound if the module has no such durable function or has several under that name, or if the address
    names no function and the module does not have exactly one."""
    place, colon, wanted = address.rpartition(":")
    if not colon:
        place, wanted = address, ""
    if not place or (colon and not wanted):
        raise InvalidParameter(f"{address!r} names no function. Write FILE:function or package.module:function.")
    module = _from_file(Path(place)) if _is_path(place) else _from_name(place)
    found = {name: value for name, value in vars(module).items() if isinstance(value, DurableFunction)}
    function = _chosen(module, found, wanted, place) if wanted else _only(module, found, place)
    return LoadedFunction(function, tuple(dict.fromkeys(found.values())), module)


def load_module(address: str) -> tuple[ModuleType, dict[str, DurableFunction]]:
    """Import a file or module. Returns the module, and its durable functions by their names in the module; for `FILE:function`, only that
    one, under the name in the address. Functions that the module only imports are left out if it has functions of its own. Raises
    FunctionNotLoadable if the module cannot be imported, and for `FILE:function` InvalidParameter if FILE is empty, FunctionNotFound if it
    has no such durable function or several."""
    _, colon, wanted = address.rpartition(":")
    if colon and wanted.isidentifier():
        loaded = load(address)
        return loaded.module, {wanted: loaded.function}
    module = _from_file(Path(address)) if _is_path(address) else _from_name(address)
    found_by_name = {name: value for name, value in vars(module).items() if isinstance(value, DurableFunction)}
    own = {name: function for name, function in found_by_name.items() if function.__module__ == module.__name__} or found_by_name
    names = {function: name for name, function in reversed(own.items())}
    return module, {name: function for function, name in reversed(names.items())}


def declares_function(file: Path, name: str) -> bool:
    """Whether a file has a Python function of this name with the decorator `durable_execution`. The file is read, not run. False if the
    file cannot be read or is not valid Python."""
    try:
        nodes = ast.walk(ast.parse(file.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    found = next((node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name), None)
    return found is not None and any("durable_execution" in ast.unparse(decorator) for decorator in found.decorator_list)


def load_codec(address: str) -> PayloadCodec:
    """Import the payload codec at an address. Raises CodecNotLoadable if that fails. The error quotes no line of the file, because the file
    may contain keys."""
    place, _, name = address.rpartition(":")
    if not place or not name:
        raise CodecNotLoadable(f"{address!r} names no codec. Write FILE:NAME or package.module:NAME.")
    try:
        module = _from_file(Path(place)) if _is_path(place) else _from_name(place)
    except FunctionNotLoadable as failed:
        raise CodecNotLoadable(_discreet(place, failed)) from None
    found = getattr(module, name, None)
    if found is None:
        raise CodecNotLoadable(f"There is no payload codec {name!r} in {place}.")
    lacking = [member for member in ("name", "encode", "decode", "fingerprint") if not hasattr(found, member)]
    if lacking or isinstance(found, type):
        what = f"it lacks {', '.join(lacking)}" if lacking else "it is a class; name an instance of it"
        raise CodecNotLoadable(f"{name!r} in {place} is not a payload codec: {what}.")
    return cast("PayloadCodec", found)


def _discreet(place: str, failed: FunctionNotLoadable) -> str:
    error = failed.__cause__
    if error is None:
        return str(failed)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    told = f": {error}" if isinstance(error, HoldfastError | ImportError) else ""
    return f"{place} could not be imported: {type(error).__name__}{where}{told}"


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place or not place.strip(".") or Path(place).is_file()


def _from_file(path: Path) -> ModuleType:
    if path.is_dir():
        raise FunctionNotLoadable(f"{path} is a folder. Name a file in it.")
    if not path.is_file():
        raise FunctionNotLoadable(f"There is no file {path}.")
    path = path.resolve()
    _search_first(path.parent)
    # Register it under the name of its file, so that other modules of its folder import the same module; but never replace a loaded module.
    name = path.stem if path.stem not in sys.modules else f"holdfast_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FunctionNotLoadable(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise FunctionNotLoadable(_explained(str(path), error)) from error
    return module


def _from_name(name: str) -> ModuleType:
    _search_first(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            near = meant(name, WORKERS)
            raise FunctionNotLoadable(f"There is no module {name!r} here, no file and no ready worker of that name.{near}") from None
        raise FunctionNotLoadable(_explained(name, error)) from error
    except (Exception, SystemExit) as error:
        raise FunctionNotLoadable(_explained(name, error)) from error


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _chosen(module: ModuleType, found: dict[str, DurableFunction], wanted: str, place: str) -> DurableFunction:
    if wanted in found:
        return found[wanted]
    known = _listed(found)
    if hasattr(module, wanted):
        raise FunctionNotFound(f"{wanted!r} in {place} is not a durable function. Decorate it with @durable_execution. {known}")
    namesakes = {name: function for name, function in found.items() if function.name == wanted}
    if len(set(namesakes.values())) == 1:
        return next(iter(namesakes.values()))
    if namesakes:
        raise FunctionNotFound(f"Several functions in {place} are registered as {wanted!r}: choose one of {', '.join(namesakes)}.")
    raise FunctionNotFound(f"There is no {wanted!r} in {place}. {known}")


def _only(module: ModuleType, found: dict[str, DurableFunction], place: str) -> DurableFunction:
    own = {name: function for name, function in found.items() if function.__module__ == module.__name__} or found
    if len(set(own.values())) != 1:
        raise FunctionNotFound(f"{place} does not say which function to run. {_listed(own)}")
    return next(iter(own.values()))


def _listed(found: dict[str, DurableFunction]) -> str:
    if not found:
        return "No durable function was found there."
    return f"Durable functions there: {', '.join(sorted(found))}."


def _explained(place: str, error: BaseException) -> str:
    """What a user is told if the import of `place` raised `error`: the text of the error, and the last lines of the traceback. Lines of
    Holdfast's loader and of Python's import system are left out."""
    if isinstance(error, SystemExit):
        what = f"it ended the program (exit code {error.code}); guard its main part with `if __name__ == '__main__':`"
    else:
        what = "".join(traceback.format_exception_only(error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    lines = [f"  at {frame.filename}:{frame.lineno}: {_source(frame)}" for frame in frames[-_SHOWN_FRAMES:]]
    return "\n".join([f"{place} could not be imported: {what}", *lines])


def _is_machinery(filename: str) -> bool:
    return filename == __file__ or filename.startswith("<frozen ") or Path(filename).is_relative_to(Path(importlib.__file__).parent)


def _source(frame: traceback.FrameSummary) -> str:
    return linecache.getline(frame.filename, frame.lineno or 0).strip()
