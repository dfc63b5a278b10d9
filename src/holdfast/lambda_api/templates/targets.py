"""Finds out what each target is: a template, a Python file or module, a worker, or a folder with one of these."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.author_files.declared_beside import each_once, names_declared, not_declared_told, queues_beside, schedules_beside
from holdfast.author_files.function_loader import load_module
from holdfast.author_files.worker_search import PAGE, declares_pipelines
from holdfast.lambda_api.functions.function_records import MAX_MEMORY_MB, Config
from holdfast.lambda_api.runtime.runtime_description import MAX_TIMEOUT_SECONDS
from holdfast.lambda_api.templates.descriptions import DescribedFunction, FolderCode, FoundTargets
from holdfast.lambda_api.templates.discovery import discover
from holdfast.library import find as find_ready
from holdfast.model.errors import DuplicateFunction, ExtraMissing, FunctionNotLoadable, InvalidParameter
from holdfast.workers.tools.declarations import declarations_of

TEMPLATES: Final = ("template.yaml", "template.yml", "template.json")
_ENDS: Final = (".yaml", ".yml", ".json", ".template")


def find_all(targets: Sequence[str], parameters: Mapping[str, str], *, processes: bool = False) -> FoundTargets:
    """Everything that these targets define: functions, workers, queues and schedules. With `processes`, functions of Python files run in
    processes too, so that their code can be replaced. `parameters` are values for the parameters of templates. Raises DuplicateFunction if
    two targets have the same function, InvalidParameter if no template has a parameter of `parameters`, FunctionNotLoadable if there is
    nothing to run, and other errors if a target cannot be read."""
    parts = [_find(target, parameters, processes) for target in targets]
    found = FoundTargets(
        deployed=tuple(one for part in parts for one in part.deployed),
        inline=tuple(one for part in parts for one in part.inline),
        workers=tuple(dict.fromkeys(path for part in parts for path in part.workers)),
        queues=tuple(queue for part in parts for queue in part.queues),
        schedules=each_once(schedule for part in parts for schedule in part.schedules),
        warnings=(*(warning for part in parts for warning in part.warnings), *_not_declared(parts, targets)),
        watched=tuple(path for part in parts for path in part.watched),
        parameters=frozenset(name for part in parts for name in part.parameters),
    )
    if (found.queues or found.schedules) and not (found.deployed or found.inline or found.workers):
        raise FunctionNotLoadable(f"{', '.join(targets)}: there is no durable function and no worker, so there is nothing to run.")
    unknown = sorted(set(parameters) - found.parameters)
    if unknown:
        known = ", ".join(sorted(found.parameters)) or "none"
        raise InvalidParameter(f"No template here has a parameter {', '.join(unknown)}. Parameters here: {known}.")
    names = [one.name for one in found.deployed] + [f"{one.name}:{one.version}" for one in found.inline]
    names += [one.name for one in found.inline if one.name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DuplicateFunction(f"Several targets have a function {', '.join(twice)}. Serve one of them, or give one another name.")
    return found


def _not_declared(parts: Sequence[FoundTargets], targets: Sequence[str]) -> Sequence[str]:
    """Warnings about queues and schedules that files of workers declare. Such declarations have no effect, because a file of workers is not
    imported. Only if a target names a function in the file (`FILE:FUNCTION`), the file is imported, and there is no warning."""
    imported = {Path(target.rpartition(":")[0]).resolve() for target in targets}
    files = dict.fromkeys(path for part in parts for path in part.workers if path.resolve() not in imported)
    return [told for file in files if (told := not_declared_told(file)) is not None]


def _find(target: str, parameters: Mapping[str, str], processes: bool) -> FoundTargets:
    path = Path(target)
    if path.is_dir():
        return _in_folder(path, parameters, processes)
    if target.endswith(_ENDS):
        return _template(path, parameters)
    ready = None if path.exists() else find_ready(target)
    if ready is not None:
        return FoundTargets(workers=(ready,))
    if declares_workers(path) or path.suffix == PAGE:  # a page that is no pipeline is refused with its reason when it is read
        return _worker(path)
    return _in_python(target, processes)


def declares_workers(file: Path) -> bool:
    """Whether a file declares workers or pipelines. The file is read, not run."""
    if file.suffix not in (".py", PAGE) or not file.is_file():
        return False
    if file.suffix == PAGE:
        return declares_pipelines(file)
    return bool(declarations_of(file.read_bytes()).workers) or declares_pipelines(file)


def _worker(file: Path) -> FoundTargets:
    """A file with workers or pipelines. It may be hostile, so it is not imported here. A durable function in it is served only if the
    target names it: `FILE:FUNCTION`."""
    told = f"{file}: it has workers or pipelines, so it is not imported; durable functions in it are served by name: {file}:FUNCTION"
    warnings = (told,) if file.suffix != PAGE and _mentions_us(file) else ()
    return FoundTargets(workers=(file,), watched=(file.parent,), warnings=warnings)


def _template(path: Path, parameters: Mapping[str, str]) -> FoundTargets:
    try:
        from holdfast.lambda_api.templates.template import read_template
    except ImportError:
        raise ExtraMissing("Templates need the package `PyYAML`: pip install 'holdfast[server]'.") from None
    return read_template(path, parameters)


def _in_folder(folder: Path, parameters: Mapping[str, str], processes: bool) -> FoundTargets:
    for name in TEMPLATES:
        if (folder / name).is_file():
            return _template(folder / name, parameters)
    files = sorted(folder.glob("*.py"))
    workers = [path for path in (*files, *sorted(folder.glob(f"*{PAGE}"))) if declares_workers(path)]
    parts = [_worker(path) for path in workers]
    parts += [_in_python(str(path), processes, needed=False) for path in files if path not in workers and _concerns_us(path)]
    found = FoundTargets(
        deployed=tuple(one for part in parts for one in part.deployed),
        inline=tuple(one for part in parts for one in part.inline),
        workers=tuple(workers),
        queues=tuple(queue for part in parts for queue in part.queues),
        schedules=each_once(schedule for part in parts for schedule in part.schedules),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        watched=(folder,),
    )
    if not (found.deployed or found.inline or found.workers or found.queues or found.schedules):
        raise FunctionNotLoadable(
            f"{folder} has no {', '.join(TEMPLATES)}, and no Python file in it defines a durable function of holdfast.durable or a worker."
        )
    return found


def _mentions_us(path: Path) -> bool:
    """Whether a file contains the words `holdfast` and `durable_execution`, so that it may define durable functions. The file is read, not
    run."""
    try:
        text = path.read_bytes()
    except OSError:
        return False
    return b"holdfast" in text and b"durable_execution" in text


def _concerns_us(path: Path) -> bool:
    """Whether a file of a folder is imported: it may define durable functions (`_mentions_us`), or it declares queues or schedules at its
    top level. No other file is imported, because an import runs its code."""
    return _mentions_us(path) or (b"holdfast" in path.read_bytes() and bool(names_declared(path)))


def _in_python(target: str, processes: bool, *, needed: bool = True) -> FoundTargets:
    found = _deployed(target) if processes else _inline(target)
    if needed and not (found.deployed or found.inline or found.queues or found.schedules):
        raise FunctionNotLoadable(f"{target} defines no durable function and no worker. Decorate one with @durable_execution or @worker.")
    return found


def _inline(target: str) -> FoundTargets:
    module, found = load_module(target)
    functions = tuple(found.values())
    return FoundTargets(inline=functions, queues=queues_beside(functions, module), schedules=schedules_beside(functions, module))


def _deployed(target: str) -> FoundTargets:
    folder, module = _place(target)
    found = discover(target)
    deployed = [
        DescribedFunction(
            name=one.name,
            # These functions have no timeout and no memory size of their own, because by default they run in the server's process.
            config=Config(
                handler=f"{module}.{one.attribute}",
                runtime="python3",
                timeout=MAX_TIMEOUT_SECONDS,
                memory=MAX_MEMORY_MB,
                terms=one.terms,
            ),
            code=FolderCode(folder),
            publish=True,
        )
        for one in found.functions
    ]
    return FoundTargets(deployed=tuple(deployed), queues=tuple(found.queues), schedules=tuple(found.schedules), watched=(folder,))


def _place(target: str) -> tuple[Path, str]:
    """The folder in which to search for the module of a target, and the module's name."""
    place = target.rpartition(":")[0] or target
    path = Path(place)
    if path.suffix == ".py":
        return path.parent, path.stem
    try:
        spec = importlib.util.find_spec(place.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    origin = None if spec is None else spec.origin
    if origin is None:
        return Path.cwd(), place
    return Path(origin).parent.parent if spec is not None and spec.submodule_search_locations else Path(origin).parent, place
