"""The record of a deployed function: one document for each function, with its versions and aliases. All types here are immutable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from holdfast.lambda_api.operations.checks import function_arn
from holdfast.lambda_api.runtime.runtime_description import MAX_TIMEOUT_SECONDS, RESERVED, Runtime
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Terms
from holdfast.model.ids import LATEST
from holdfast.model.wire import Wire

MAX_MEMORY_MB: Final = 32_768
_RUNTIME: Final = re.compile(r"(?:python|nodejs)[0-9.]*(?:\.x)?")
NOT_DURABLE: Final = Terms(timeout_seconds=MAX_TIMEOUT_SECONDS)
"""The terms of the execution in which a plain function runs that a durable function invokes."""
EVENT: Final = Terms(timeout_seconds=6 * 3600)
"""The terms of the execution that an Event invocation of a plain function starts. Its timeout is for all tries together."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a function: how it runs."""

    handler: str
    runtime: str
    timeout: int = 3
    memory: int = 128
    environment: Mapping[str, str] = {}
    terms: Terms | None = None
    """The terms of its executions. A function without terms is not durable."""
    description: str = ""
    role: str = ""
    log_format: Literal["Text", "JSON"] = "Text"
    application_log_level: str | None = None
    """With LogFormat JSON: the lowest level of the function's own records that is kept. None means INFO."""
    system_log_level: str | None = None
    """With LogFormat JSON: the lowest level of the platform's records about the function that is kept. None means INFO."""
    other: Mapping[str, Any] = {}
    """Members that have no effect here, such as VpcConfig and TracingConfig. They are kept, and shown as AWS shows them."""

    def checked(self, name: str) -> Config:
        """Return this configuration. Raises InvalidParameter if a member has a value that is not allowed. `name` names the function in
        errors."""
        if not 1 <= self.timeout <= MAX_TIMEOUT_SECONDS:
            raise InvalidParameter(f"Timeout: must be between 1 and {MAX_TIMEOUT_SECONDS} seconds, and is {self.timeout}.")
        if not 128 <= self.memory <= MAX_MEMORY_MB:
            raise InvalidParameter(f"MemorySize: must be between 128 and {MAX_MEMORY_MB} MB, and is {self.memory}.")
        if _RUNTIME.fullmatch(self.runtime) is None:
            raise InvalidParameter(f"Runtime: {self.runtime!r:.100} is not run here. Use Python or Node, such as python3.13 or nodejs22.x.")
        if self.terms is not None:
            self.terms.checked()
        if reserved := sorted(RESERVED & set(self.environment)):
            raise InvalidParameter(f"Environment: these keys are reserved, and cannot be given: {', '.join(reserved)}. Remove them.")
        Runtime(
            function=name,
            folder="",
            handler=self.handler,
            environment=self.environment,
            timeout_seconds=self.timeout,
            log_format=self.log_format,
            application_log_level=self.application_log_level,
            system_log_level=self.system_log_level,
        ).checked()
        return self

    @property
    def logging(self) -> Wire:
        """The function's LoggingConfig. As on AWS, it has log levels only if the LogFormat is JSON."""
        levels = {"ApplicationLogLevel": self.application_log_level or "INFO", "SystemLogLevel": self.system_log_level or "INFO"}
        group: Wire = self.other.get("LoggingConfig", {})  # its LogGroup
        return {"LogFormat": self.log_format} | (levels if self.log_format == "JSON" else {}) | group


class Code(msgspec.Struct, frozen=True):
    """Code of functions that is kept on disk, identified by the hash of its contents."""

    id: str
    """The name of its folder: the hash in hexadecimal digits. Equal zip files, or folders with equal files, have equal ids."""
    sha256: str
    """The hash in base64, which is the form of AWS's CodeSha256."""
    size: int


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a function. A version with a number never changes; `$LATEST` is replaced at each change of the function's code or
    configuration."""

    version: str
    config: Config
    code: Code
    modified_at: int
    revision: str

    def same_as(self, other: Version) -> bool:
        """Whether both have the same code and the same configuration. Their descriptions may differ."""
        mine, theirs = (msgspec.structs.replace(v.config, description="") for v in (self, other))
        return (mine, self.code.id) == (theirs, other.code.id)


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A name for a version of a function."""

    name: str
    version: str
    description: str = ""
    weights: Mapping[str, float] = {}
    """A second version that gets a part of the invocations of this alias: its number, and the part from 0 to 1. Empty: all invocations go
    to `version`."""
    revision: str

    def to_wire(self, function: str) -> Wire:
        """This alias in the form of AWS's AliasConfiguration. `function` is the name of its function."""
        shown: Wire = {
            "AliasArn": function_arn(function, self.name),
            "Name": self.name,
            "FunctionVersion": self.version,
            "Description": self.description,
            "RevisionId": self.revision,
        }
        return shown | ({"RoutingConfig": {"AdditionalVersionWeights": dict(self.weights)}} if self.weights else {})


class DeployedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A deployed function with all its versions and aliases."""

    name: str
    latest: Version | None
    """The version `$LATEST`; None after the function was deleted. The document of a deleted function stays, so that a later function of
    this name continues the version numbers. So a number never names two versions."""
    versions: Mapping[str, Version] = {}
    aliases: Mapping[str, Alias] = {}
    last: int = 0
    """The highest version number that was ever published; 0 if none was."""
    tags: Mapping[str, str] = {}

    def everything(self) -> list[Version]:
        """All versions: `$LATEST` first (if the function is not deleted), then the others by their numbers."""
        latest = () if self.latest is None else (self.latest,)
        return [*latest, *sorted(self.versions.values(), key=lambda one: int(one.version))]


def about(found: Version) -> Wire:
    """The members of a FunctionConfiguration that depend on the version, without names, ARNs and DurableConfig."""
    config = found.config
    shown: Wire = {
        "Handler": config.handler,
        "Runtime": config.runtime,
        "Role": config.role,
        "CodeSize": found.code.size,
        "CodeSha256": found.code.sha256,
        "Description": config.description,
        "Timeout": config.timeout,
        "MemorySize": config.memory,
        "LastModified": last_modified(found.modified_at),
        "RevisionId": found.revision,
        **config.other,
        "LoggingConfig": config.logging,
    }
    return shown | ({"Environment": {"Variables": dict(config.environment)}} if config.environment else {})


def last_modified(at: int) -> str:
    """A time, given in milliseconds since 1970, in the form that Lambda uses only for LastModified."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03}+0000"


def runtime_of(name: str, found: Version, folder: str) -> Runtime:
    """What a process needs to run this version. `folder` is the folder with its code."""
    config, levels = found.config, found.config.logging
    return Runtime(
        function=name,
        version=found.version,
        folder=folder,
        handler=config.handler,
        runtime=config.runtime,
        environment=dict(config.environment),
        timeout_seconds=config.timeout,
        memory_mb=config.memory,
        durable=config.terms is not None,
        log_format=config.log_format,
        application_log_level=levels.get("ApplicationLogLevel"),
        system_log_level=levels.get("SystemLogLevel"),
    )


__all__ = ["LATEST", "Alias", "Code", "Config", "DeployedFunction", "Version", "about", "last_modified", "runtime_of"]
