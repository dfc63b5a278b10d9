"""What a target comes to: functions that can be deployed or registered, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.lambda_api.functions.records import Config


class FolderCode(msgspec.Struct, frozen=True):
    """Code in a folder."""

    folder: Path


class ZipCode(msgspec.Struct, frozen=True):
    """Code in a zip file."""

    file: Path


class TextCode(msgspec.Struct, frozen=True):
    """Code that stands in the template itself."""

    name: str
    text: str


CodeSource = FolderCode | ZipCode | TextCode


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A function that runs in processes of its own."""

    name: str
    config: Config
    code: CodeSource
    aliases: tuple[str, ...] = ()
    """Names for the newest version, which is published for them."""
    publish: bool = False
    """Whether its newest version is published also without an alias."""
    tags: Mapping[str, str] = {}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a target has."""

    deployed: tuple[Described, ...] = ()
    inline: tuple[DurableFunction, ...] = ()
    """Functions that run in this very process."""
    workers: tuple[Path, ...] = ()
    """Files with workers, which nobody imports here."""
    warnings: tuple[str, ...] = ()
    watched: tuple[Path, ...] = ()
    """Files and folders whose change may change any of this."""
    parameters: frozenset[str] = frozenset()
    """The parameters that it has."""
