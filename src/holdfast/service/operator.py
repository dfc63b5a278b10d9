"""The operator's word on workers: `holdfast.toml`, and what the environment says. One file, read once, told of by name when it is wrong.

A name that nobody knows is an error everywhere in it: a cap with a slip of the pen would be no cap. Paths begin where the file lies.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.contract.terms import RateLimit
from holdfast.model.errors import InvalidParameter
from holdfast.service.observing import SignalSettings
from holdfast.service.worker_runtime import ToolSettings, WorkerSettings
from holdfast.signals.spans import wanted
from holdfast.workers.policy import Caps, Most, Policy
from holdfast.workers.tools.cassettes import CassetteSettings, cassette_settings
from holdfast.workers.tools.fetching import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.prices import prices_of

FILE: Final = "holdfast.toml"
_TABLES: Final = ("policy", "fetch", "model", "parameters", "secrets", "artifacts", "cassette", "signals", "tools")
_LONGEST: Final = 1024 * 1024


def read_operator(isolation: str | None = None, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> WorkerSettings:
    """The settings of `file`, else of $HOLDFAST_CONFIG, else of ./holdfast.toml if it is there; the environment adds keys and cassettes.

    For programs, which are their own operators. The command line asks first whether the folder is trusted (service/operators_file.py).
    """
    path = file or Path(environment.get("HOLDFAST_CONFIG") or FILE)
    if not path.is_file() and (file is not None or environment.get("HOLDFAST_CONFIG")):
        raise InvalidParameter(f"There is no file {path}.")
    return isolated(settings_of(load_toml(path) if path.is_file() else {}, path, environment), isolation)


def isolated(settings: WorkerSettings, isolation: str | None) -> WorkerSettings:
    """The settings with the isolation that a command names, if it names one."""
    if isolation is None:
        return settings
    return msgspec.structs.replace(settings, policy=msgspec.structs.replace(settings.policy, isolation=_isolation(isolation)))


def settings_of(told: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> WorkerSettings:
    """The settings that the file at `path` tells, and the environment's."""
    policy = _policy(told.get("policy", {}), path)
    parameters: str | None = _converted(told.get("parameters"), str | None, path, "parameters")
    artifacts: str | None = _converted(told.get("artifacts"), str | None, path, "artifacts")
    return WorkerSettings(
        policy=policy,
        fetch=_fetch(told.get("fetch", {}), path),
        model=_model(told.get("model", {}), path, environment),
        parameters=None if parameters is None else _beside(path, parameters),
        secrets=tuple(_beside(path, text) for text in _converted(told.get("secrets", []), list[str], path, "secrets")),
        artifacts=_beside(path, artifacts) if artifacts else None,
        cassette=_cassette(environment.get("HOLDFAST_CASSETTE"), told.get("cassette"), path),
        signals=_signals(told.get("signals", {}), path, environment),
        tools=_converted(told.get("tools", {}), ToolSettings, path, "tools"),
    )


def load_toml(path: Path) -> dict[str, Any]:
    """What the file says, with tables that are known; its size and its depth have bounds, since its writer may be unknown."""
    try:
        with path.open("rb") as opened:
            data = opened.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise InvalidParameter(f"{path} is longer than {_LONGEST:,} bytes.")
        told = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not TOML: {error}.") from None
    except RecursionError:
        raise InvalidParameter(f"{path} is not TOML: it is nested too deep.") from None
    except OSError as error:
        raise InvalidParameter(f"{path} could not be read: {error.strerror}.") from None
    unknown = [name for name in told if name not in _TABLES]
    if unknown:
        raise InvalidParameter(f"{path} has {', '.join(unknown)}, which nobody knows; it may have {', '.join(_TABLES)}.")
    return told


def _policy(told: Any, path: Path) -> Policy:
    policy: Policy = _converted(told, Policy, path, "policy")
    parts = {
        "caps": (Caps, {"caps": told.get("caps", {})}),
        "most": (Most, {"most": told.get("most", {})}),
        "tenant_caps": (Caps, told.get("tenant_caps", {})),
    }
    for name, (kind, tables) in {**parts, "rate_limits": (RateLimit, told.get("rate_limits", {}))}.items():
        for key, table in tables.items():
            _converted(table, kind, path, f"policy.{name}" if key == name else f"policy.{name}.{key}")
    return policy


def _fetch(told: Any, path: Path) -> FetchSettings:
    fetch: FetchSettings = _converted(told, FetchSettings, path, "fetch")
    return fetch if fetch.ca_file is None else msgspec.structs.replace(fetch, ca_file=_beside(path, fetch.ca_file))


def _model(told: Any, path: Path, environment: Mapping[str, str]) -> ModelSettings:
    given: dict[str, Any] = _converted(told, dict[str, Any], path, "model")
    prices = _converted(given.pop("prices", {}), dict[str, dict[str, Any]], path, "model.prices")
    settings: ModelSettings = _converted(given, ModelSettings, path, "model")
    found = {
        "api_key": environment.get("HOLDFAST_MODEL_KEY") or environment.get("OPENAI_API_KEY"),
        "base_url": environment.get("HOLDFAST_MODEL_URL") or environment.get("OPENAI_BASE_URL"),
        "model": environment.get("HOLDFAST_MODEL"),
    }
    return msgspec.structs.replace(settings, prices=prices_of(prices), **{name: value for name, value in found.items() if value})


def _cassette(said: str | None, told: Any, path: Path) -> CassetteSettings:
    """As the environment says, else as the file does: there a path begins where the file lies."""
    if said or told is None:
        return cassette_settings(said)
    if isinstance(told, dict):
        settings: CassetteSettings = _converted(told, CassetteSettings, path, "cassette")
    else:
        settings = cassette_settings(str(told))
    return msgspec.structs.replace(settings, path=_beside(path, settings.path)) if settings.path else settings


def _signals(told: Any, path: Path, environment: Mapping[str, str]) -> SignalSettings:
    """Traces go out also when only the environment asks for them, as OpenTelemetry has it."""
    settings: SignalSettings = _converted(told, SignalSettings, path, "signals")
    if "otel" not in told:
        settings = msgspec.structs.replace(settings, otel=wanted(environment))
    return settings if settings.log in ("off", "stderr") else msgspec.structs.replace(settings, log=_beside(path, settings.log))


def _beside(path: Path, text: str) -> str:
    return text if text.startswith("ssm:") or "://" in text else str(path.parent / text)


def _converted(value: Any, kind: Any, path: Path, setting: str) -> Any:
    known = getattr(kind, "__struct_fields__", None)
    unknown = [name for name in value if name not in known] if known is not None and isinstance(value, dict) else []
    if known is not None and unknown:
        raise InvalidParameter(f"{path}: [{setting}] has {', '.join(unknown)}, which nobody knows; it may have {', '.join(known)}.")
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"{path}: {setting} is wrong: {error}.") from None


def _isolation(word: str) -> Any:
    if word not in ("all", "process", "inline"):
        raise InvalidParameter(f"--isolation is {word!r}; it is all, process or inline.")
    return word
