"""The result of reading targets: functions that can be deployed or registered, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.lambda_api.functions.function_records import Config
from holdfast.queues.declarations import Queue
from holdfast.schedules.declarations import Schedule


class FolderCode(msgspec.Struct, frozen=True):
    """Code in a folder."""

    folder: Path


class ZipCode(msgspec.Struct, frozen=True):
    """Code in a zip file."""

    file: Path


class TextCode(msgspec.Struct, frozen=True):
    """Code that is written in the template itself. `name` is the name of its file."""

    name: str
    text: str


CodeSource = FolderCode | ZipCode | TextCode


class DescribedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function to deploy, as a target describes it. It runs in processes of its own."""

    name: str
    config: Config
    code: CodeSource
    aliases: tuple[str, ...] = ()
    """The names of aliases that shall name the newest published version. If there are any, the function is published when it is
    deployed."""
    publish: bool = False
    """Whether a version is published when the function is deployed, even if there are no aliases."""
    tags: Mapping[str, str] = {}


class FoundTargets(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found in the targets."""

    deployed: tuple[DescribedFunction, ...] = ()
    inline: tuple[DurableFunction, ...] = ()
    """Functions that run in the server's own process."""
    workers: tuple[Path, ...] = ()
    """Files that declare workers or pipelines."""
    queues: tuple[Queue, ...] = ()
    """Queues that Python files declare beside their functions."""
    schedules: tuple[Schedule, ...] = ()
    """Schedules that Python files declare beside their functions."""
    warnings: tuple[str, ...] = ()
    watched: tuple[Path, ...] = ()
    """Files and folders to watch, because a change in them may change this result. A Python file or module with inline functions adds none,
    and a ready worker of the library adds none."""
    parameters: frozenset[str] = frozenset()
    """The names of the templates' parameters."""
