"""parameter_store: reads settings of the operator that a worker may know, from a file or from AWS Systems Manager (extra `aws`).

A worker cannot read secrets with it: only tools that are declared with `@tool(secrets=[…])` get values of the file's table `secrets` and
SecureStrings of SSM.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, ToolFailed

ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 1011}},
}
_ABSENT: Final = object()
_BUSY: Final = {"ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded", "Throttling"}
_DENIED: Final = {"AccessDeniedException", "UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException"}


class ParameterSource(Protocol):
    """A source of parameters."""

    def parameter(self, name: str) -> Any:
        """The value of a parameter. Blocks. Raises ToolFailed if there is none, or if the source cannot be read."""
        ...


class ParameterFile:
    """A TOML or JSON file of the operator: table `parameters` for workers, table `secrets` for tools."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def table(self, name: str) -> Mapping[str, Any]:
        """One of the file's tables; empty if the file does not have it. The file is read at each call. Raises ToolFailed if it cannot be
        read."""
        try:
            text = self._path.read_text(encoding="utf-8")
            content = json.loads(text) if self._path.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise ToolFailed("tool_unavailable", f"The parameter file {self._path.name} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise ToolFailed("tool_failed", f"The parameter file {self._path.name} is not valid TOML or JSON: {error}.") from None
        table = content.get(name, {}) if isinstance(content, dict) else {}
        return table if isinstance(table, dict) else {}

    def parameter(self, name: str) -> Any:
        """The value of a parameter. The table `parameters` is searched for the whole name first, then for the parts of the name:
        `/shop/limits/max` is `max` in `[parameters.shop.limits]`. Raises ToolFailed if there is none, or if the file cannot be read."""
        table = self.table("parameters")
        value = table.get(name, table.get(name.strip("/"), _ABSENT))
        if value is _ABSENT:
            value = table
            for part in name.strip("/").split("/"):
                value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is _ABSENT:
            raise ToolFailed("tool_failed", f"There is no parameter {name!r} in {self._path.name}.", details={"reason": "not_found"})
        return _as_json(value)


class Ssm:
    """AWS Systems Manager's parameter store."""

    def __init__(
        self, *, prefix: str = "/", region: str | None = None, endpoint_url: str | None = None, timeout_seconds: float = 5.0
    ) -> None:
        self._prefix = prefix
        self._about = {"region_name": region, "endpoint_url": endpoint_url}
        self._timeout = timeout_seconds
        self._made: Any = None

    def parameter(self, name: str) -> Any:
        """The value of a parameter under the operator's prefix; a StringList is returned as a list. Raises ToolFailed for a name outside
        the prefix, for a missing parameter and for a SecureString, and if SSM refuses the request or cannot be asked."""
        if not name.startswith(self._prefix) or "/../" in name:
            raise ToolFailed("access_denied", f"Workers may read parameters under {self._prefix!r} only, not {name!r:.200}.")
        found = self._get(name, decrypt=False)
        if found is None:
            raise ToolFailed("tool_failed", f"There is no parameter {name!r} in SSM.", details={"reason": "not_found"})
        if found["Type"] == "SecureString":
            raise ToolFailed("access_denied", f"The parameter {name!r} is a SecureString: name it in @tool(secrets=[…]) instead.")
        return found["Value"].split(",") if found["Type"] == "StringList" else found["Value"]

    def secret(self, name: str) -> str | None:
        """The decrypted value of any parameter, whether its name begins with the prefix or not; None if there is none. Raises ToolFailed if
        SSM refuses the request or cannot be asked."""
        found = self._get(name, decrypt=True)
        return None if found is None else str(found["Value"])

    def _get(self, name: str, *, decrypt: bool) -> Mapping[str, Any] | None:
        client = self._client()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found: Mapping[str, Any] = client.get_parameter(Name=name, WithDecryption=decrypt)["Parameter"]
            return found
        except ClientError as error:
            self._refused(error.response["Error"].get("Code", ""), name)
            return None
        except BotoCoreError as error:
            raise ToolFailed("tool_unavailable", f"SSM could not be reached: {type(error).__name__}.") from None

    def _refused(self, code: str, name: str) -> None:
        if code in ("ParameterNotFound", "ParameterVersionNotFound"):
            return
        if code in _BUSY:
            raise ToolFailed(
                "rate_limited",
                "SSM refuses requests for a moment, because there are too many (throttling).",
                retry_after_seconds=1.0,
                closes="tool:parameter_store",
            )
        if code in _DENIED:
            raise ToolFailed("access_denied", f"SSM does not let the runner read {name!r} ({code}).")
        raise ToolFailed("tool_failed" if code.startswith("Validation") else "tool_unavailable", f"SSM answered {code} for {name!r}.")

    def _client(self) -> Any:
        if self._made is None:
            try:
                import boto3
                from botocore.config import Config
            except ImportError:
                raise ToolFailed("tool_failed", "Parameters from SSM need the package `boto3`: pip install 'holdfast[aws]'.") from None
            config = Config(connect_timeout=self._timeout, read_timeout=self._timeout, retries={"total_max_attempts": 1})
            self._made = boto3.client("ssm", config=config, **self._about)
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


def parameters_from(text: str) -> ParameterSource:
    """The source that a setting names: `ssm:/prefix/` is AWS Systems Manager, anything else is the path of a file."""
    return Ssm(prefix=text.removeprefix("ssm:") or "/") if text.startswith("ssm:") else ParameterFile(Path(text))


class ParameterStore:
    """The tool `parameter_store`."""

    name = "parameter_store"
    effect = Effect.READ
    arguments_schema = ARGUMENTS

    def __init__(self, source: ParameterSource) -> None:
        self._source = source

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """An empty reservation: reading a parameter costs no tokens and no money."""
        return Reservation()

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """The value of one parameter. Raises ToolFailed if there is none, or if it may not or cannot be read."""
        return CallResult(await in_thread(Purpose.SECRETS, self._source.parameter, str(arguments["name"])))

    async def close(self) -> None:
        """Close the source's connections, if it has any."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


def _as_json(value: Any) -> Any:
    """The value as a JSON value: each date or time of TOML becomes a text in ISO 8601."""
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
