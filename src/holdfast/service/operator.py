"""The operator's word on workers: `holdfast.toml`, and what the environment says. One file, read once, told of by name when it is wrong."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.service.staff import StaffSettings
from holdfast.workers.policy import Policy
from holdfast.workers.tools.cassettes import CassetteSettings, cassette_settings
from holdfast.workers.tools.fetching import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.prices import prices_of

FILE: Final = "holdfast.toml"
_TABLES: Final = ("policy", "fetch", "model", "parameters", "secrets", "cassette")


def read_operator(isolation: str | None = None, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> StaffSettings:
    """The settings of `file`, else of $HOLDFAST_CONFIG, else of ./holdfast.toml if it is there; the environment adds keys and cassettes."""
    path = file or Path(environment.get("HOLDFAST_CONFIG") or FILE)
    told: dict[str, Any] = {}
    if path.is_file():
        told = _loaded(path)
    elif file is not None or environment.get("HOLDFAST_CONFIG"):
        raise InvalidParameter(f"There is no file {path}.")
    policy = _converted(told.get("policy", {}), Policy, path, "policy")
    if isolation is not None:
        policy = msgspec.structs.replace(policy, isolation=_isolation(isolation))
    return StaffSettings(
        policy=policy,
        fetch=_converted(told.get("fetch", {}), FetchSettings, path, "fetch"),
        model=_model(told.get("model", {}), path, environment),
        parameters=_converted(told.get("parameters"), str | None, path, "parameters"),
        secrets=_converted(told.get("secrets", []), tuple[str, ...], path, "secrets"),
        cassette=_cassette(environment.get("HOLDFAST_CASSETTE"), told.get("cassette"), path),
    )


def _loaded(path: Path) -> dict[str, Any]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not TOML: {error}.") from None
    unknown = [name for name in told if name not in _TABLES]
    if unknown:
        raise InvalidParameter(f"{path} has {', '.join(unknown)}, which nobody knows; it may have {', '.join(_TABLES)}.")
    return told


def _model(told: dict[str, Any], path: Path, environment: Mapping[str, str]) -> ModelSettings:
    known = {name: value for name, value in told.items() if name != "prices"}
    settings: ModelSettings = _converted(known, ModelSettings, path, "model")
    found = {
        "api_key": environment.get("HOLDFAST_MODEL_KEY") or environment.get("OPENAI_API_KEY"),
        "base_url": environment.get("HOLDFAST_MODEL_URL") or environment.get("OPENAI_BASE_URL"),
        "model": environment.get("HOLDFAST_MODEL"),
    }
    given = {name: value for name, value in found.items() if value}
    return msgspec.structs.replace(settings, prices=prices_of(told.get("prices", {})), **given)


def _cassette(said: str | None, told: Any, path: Path) -> CassetteSettings:
    """As the environment says, else as the file does: there a path begins where the file lies."""
    if said or told is None:
        return cassette_settings(said)
    if isinstance(told, dict):
        settings: CassetteSettings = _converted(told, CassetteSettings, path, "cassette")
    else:
        settings = cassette_settings(str(told))
    return msgspec.structs.replace(settings, path=str(path.parent / settings.path)) if settings.path else settings


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
