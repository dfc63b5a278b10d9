"""The requests of function management, as they are in JSON. Members that have no effect here are kept, so that GetFunction shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.lambda_api.operations.lookup import changed_terms
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Terms

_CODE = {"zip_file": "ZipFile", "bucket": "S3Bucket", "key": "S3Key", "image": "ImageUri"}


class Environment(msgspec.Struct, rename="pascal"):
    """The member Environment."""

    variables: dict[str, str] = {}


class Durable(msgspec.Struct, rename="pascal"):
    """The member DurableConfig."""

    execution_timeout: int | None = None
    retention_period_in_days: int | None = None

    def terms(self, before: Terms | None) -> Terms:
        """The terms of the function's executions. A member that is absent gets its value from `before`, the terms until now, or else the
        default. Raises InvalidParameter if ExecutionTimeout is absent and `before` is None, or if a value is not allowed."""
        if self.execution_timeout is None and before is None:
            raise InvalidParameter("You cannot create a function with a durable configuration without an executionTimeout")
        return changed_terms(before or Terms(), self.execution_timeout, self.retention_period_in_days)


class Logging(msgspec.Struct, rename="pascal", omit_defaults=True):
    """The member LoggingConfig. Only its format and its levels have an effect here. If one of them is absent, the function keeps the value
    that it has; but the format Text removes the levels."""

    log_format: Literal["Text", "JSON"] | None = None
    application_log_level: str | None = None
    system_log_level: str | None = None
    log_group: str | None = None

    def changed(self) -> dict[str, Any]:
        """The members of a Config that change, with their new values. Only the format JSON has levels, so the format Text sets them to
        None."""
        levels = {"application_log_level": self.application_log_level, "system_log_level": self.system_log_level}
        said = {"log_format": self.log_format, **levels}
        forgotten = dict.fromkeys(levels) if self.log_format == "Text" else {}
        return forgotten | {name: value for name, value in said.items() if value is not None}


class CodeAsked(msgspec.Struct, rename=_CODE):
    """The member Code of CreateFunction, and the same members of UpdateFunctionCode."""

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
        """The members of a Config that change, with their new values; DurableConfig is not among them. `other` has the members without an
        effect that the Config has until now; in the result, those that the request gives are replaced, and the rest stay."""
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
        """The LogGroup, from the request or else from `other`. It has no effect here, but is kept and shown."""
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
    """A request CreateFunction."""

    function_name: str = ""
    code: CodeAsked = msgspec.field(default_factory=CodeAsked)
    publish: bool = False
    package_type: str = "Zip"
    tags: dict[str, str] = {}
    architectures: tuple[str, ...] = ("x86_64",)


class UpdateCode(CodeAsked, rename=_CODE):
    """A request UpdateFunctionCode."""

    publish: bool = msgspec.field(default=False, name="Publish")
    dry_run: bool = msgspec.field(default=False, name="DryRun")
    revision_id: str | None = msgspec.field(default=None, name="RevisionId")
    architectures: tuple[str, ...] | None = msgspec.field(default=None, name="Architectures")


class Publish(msgspec.Struct, rename={"sha256": "CodeSha256", "description": "Description", "revision_id": "RevisionId"}):
    """A request PublishVersion."""

    sha256: str | None = None
    description: str | None = None
    revision_id: str | None = None


class Routing(msgspec.Struct, rename="pascal"):
    """The member RoutingConfig."""

    additional_version_weights: dict[str, float] = {}


class AliasAsked(msgspec.Struct, rename="pascal"):
    """A request CreateAlias or UpdateAlias."""

    name: str = ""
    function_version: str | None = None
    description: str | None = None
    routing_config: Routing | None = None
    revision_id: str | None = None

    @property
    def weights(self) -> Mapping[str, float] | None:
        """The other version that gets a part of the invocations, with its weight from 0 to 1. Empty: all invocations go to one version.
        None if the request does not say."""
        return None if self.routing_config is None else self.routing_config.additional_version_weights
