"""The JSON of requests of function management. Members without an effect here are kept, so that GetFunction shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Terms

_CODE = {"zip_file": "ZipFile", "bucket": "S3Bucket", "key": "S3Key", "image": "ImageUri"}


class Environment(msgspec.Struct, rename="pascal"):
    """An Environment."""

    variables: dict[str, str] = {}


class Durable(msgspec.Struct, rename="pascal"):
    """A DurableConfig."""

    execution_timeout: int | None = None
    retention_period_in_days: int | None = None

    def terms(self, before: Terms | None) -> Terms:
        """The terms of executions. A member that is absent keeps its value of `before`."""
        if self.execution_timeout is None and before is None:
            raise InvalidParameter("You cannot create a function with a durable configuration without an executionTimeout")
        known = before or Terms()
        timeout = known.timeout_seconds if self.execution_timeout is None else self.execution_timeout
        retention = known.retention_days if self.retention_period_in_days is None else self.retention_period_in_days
        return Terms(timeout, retention, known.max_operations, known.max_bytes).checked()


class Logging(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A LoggingConfig. Only its format and its levels have an effect. If a member is absent, the function keeps the value that it had."""

    log_format: Literal["Text", "JSON"] | None = None
    application_log_level: str | None = None
    system_log_level: str | None = None
    log_group: str | None = None

    def changed(self) -> dict[str, Any]:
        """The changes to a Config. Only the format JSON has levels, so the format Text removes them."""
        levels = {"application_log_level": self.application_log_level, "system_log_level": self.system_log_level}
        said = {"log_format": self.log_format, **levels}
        forgotten = dict.fromkeys(levels) if self.log_format == "Text" else {}
        return forgotten | {name: value for name, value in said.items() if value is not None}


class CodeAsked(msgspec.Struct, rename=_CODE):
    """A FunctionCode."""

    zip_file: bytes | None = None
    bucket: str | None = None
    key: str | None = None
    image: str | None = None


class Configured(msgspec.Struct, rename="pascal"):
    """The members that CreateFunction and UpdateFunctionConfiguration share."""

    runtime: str | None = None
    role: str | None = None
    handler: str | None = None
    description: str | None = None
    timeout: int | None = None
    memory_size: int | None = None
    environment: Environment | None = None
    durable_config: Durable | None = None
    logging_config: Logging | None = None
    revision_id: str | None = None
    vpc_config: dict[str, Any] | None = None
    dead_letter_config: dict[str, Any] | None = None
    kms_key_arn: str | None = msgspec.field(default=None, name="KMSKeyArn")
    tracing_config: dict[str, Any] | None = None
    layers: list[str] | None = None
    file_system_configs: list[Any] | None = None
    ephemeral_storage: dict[str, Any] | None = None
    snap_start: dict[str, Any] | None = None
    tenancy_config: dict[str, Any] | None = None

    def changed(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """The changes to a Config; `other` are its members without an effect so far."""
        said = {
            "runtime": self.runtime,
            "role": self.role,
            "handler": self.handler,
            "description": self.description,
            "timeout": self.timeout,
            "memory": self.memory_size,
            "environment": None if self.environment is None else self.environment.variables,
            "other": {**other, **self._other(other)},
        }
        logged = {} if self.logging_config is None else self.logging_config.changed()
        return {name: value for name, value in said.items() if value is not None} | logged

    def _log_group(self, other: Mapping[str, Any]) -> dict[str, str]:
        """The log group: the only part of a LoggingConfig that is kept and has no effect here."""
        given = None if self.logging_config is None else self.logging_config.log_group
        kept = other.get("LoggingConfig", {}).get("LogGroup")
        return {"LogGroup": group} if (group := given or kept) else {}

    def _other(self, other: Mapping[str, Any]) -> dict[str, Any]:
        said = {
            "VpcConfig": self.vpc_config,
            "DeadLetterConfig": self.dead_letter_config,
            "KMSKeyArn": self.kms_key_arn,
            "TracingConfig": self.tracing_config,
            "Layers": None if self.layers is None else [{"Arn": arn, "CodeSize": 0} for arn in self.layers],
            "FileSystemConfigs": self.file_system_configs,
            "EphemeralStorage": self.ephemeral_storage,
            "SnapStart": None if self.snap_start is None else {**self.snap_start, "OptimizationStatus": "Off"},
            "TenancyConfig": self.tenancy_config,
            "LoggingConfig": None if self.logging_config is None else self._log_group(other),
        }
        return {name: value for name, value in said.items() if value is not None}


class Create(Configured, rename="pascal"):
    """CreateFunction."""

    function_name: str = ""
    code: CodeAsked = msgspec.field(default_factory=CodeAsked)
    publish: bool = False
    package_type: str = "Zip"
    tags: dict[str, str] = {}
    architectures: tuple[str, ...] = ("x86_64",)


class UpdateCode(CodeAsked, rename=_CODE):
    """UpdateFunctionCode."""

    publish: bool = msgspec.field(default=False, name="Publish")
    dry_run: bool = msgspec.field(default=False, name="DryRun")
    revision_id: str | None = msgspec.field(default=None, name="RevisionId")
    architectures: tuple[str, ...] | None = msgspec.field(default=None, name="Architectures")


class Publish(msgspec.Struct, rename={"sha256": "CodeSha256", "description": "Description", "revision_id": "RevisionId"}):
    """PublishVersion."""

    sha256: str | None = None
    description: str | None = None
    revision_id: str | None = None


class Routing(msgspec.Struct, rename="pascal"):
    """A RoutingConfig."""

    additional_version_weights: dict[str, float] = {}


class AliasAsked(msgspec.Struct, rename="pascal"):
    """CreateAlias and UpdateAlias."""

    name: str = ""
    function_version: str | None = None
    description: str | None = None
    routing_config: Routing | None = None
    revision_id: str | None = None

    @property
    def weights(self) -> Mapping[str, float] | None:
        """The versions that get a share of the invocations, with their weights."""
        return None if self.routing_config is None else self.routing_config.additional_version_weights
