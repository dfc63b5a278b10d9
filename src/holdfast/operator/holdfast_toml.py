"""Reads the operator's settings for workers from a `holdfast.toml` and from the environment. Errors name the file.

An unknown name in the file is an error, because a misspelled limit would be no limit. Paths are relative to the folder of the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.contract.notes import meant
from holdfast.contract.terms import RateLimit
from holdfast.model import json_structs
from holdfast.model.errors import InvalidParameter
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.wrong_values import wrong_value
from holdfast.operator.approval_settings import with_people
from holdfast.queues.declarations import QueueTable, checked_table
from holdfast.schedules.declarations import Schedule, schedule_from
from holdfast.service.runtimes.worker_runtime import ToolSettings, WorkerSettings
from holdfast.service.runtimes.worker_signals import SignalSettings
from holdfast.signals.spans import wanted
from holdfast.workers.policy import DayCaps, Most, Policy
from holdfast.workers.tools.cassettes import CassetteSettings, cassette_settings
from holdfast.workers.tools.fetch_url import FetchSettings
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.listed_prices import check_source
from holdfast.workers.tools.prices import prices_of
from holdfast.workers.tools.read_repo import RepoSettings

FILE: Final = "holdfast.toml"
_TABLES: Final = (
    "policy",
    "fetch",
    "model",
    "parameters",
    "repos",
    "secrets",
    "artifacts",
    "cassette",
    "signals",
    "tools",
    "queues",
    "schedules",
    "groups",
    "risks",
)
_LONGEST: Final = 1024 * 1024


def read_operator(isolation: str | None = None, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> WorkerSettings:
    """The settings of `file`; if it is None, of the file that $HOLDFAST_CONFIG names; without both, of ./holdfast.toml if it exists, or
    else the defaults. Environment variables such as HOLDFAST_MODEL_KEY and HOLDFAST_CASSETTE win over the file. `isolation`, if it is
    given, replaces that of the file. Raises InvalidParameter if a named file does not exist. Raises InvalidParameter or ScheduleInvalid if
    the file is not valid.

    This is for programs that open an engine; such a program is its own operator. The command line asks for trust first (operator/files.py).
    """
    path = file or Path(environment.get("HOLDFAST_CONFIG") or FILE)
    if not path.is_file() and (file is not None or environment.get("HOLDFAST_CONFIG")):
        raise InvalidParameter(f"There is no file {path}.")
    return isolated(settings_of(load_toml(path) if path.is_file() else {}, path, environment), isolation)


def isolated(settings: WorkerSettings, isolation: str | None) -> WorkerSettings:
    """The settings with this isolation; unchanged if it is None. Raises InvalidParameter for an unknown isolation."""
    if isolation is None:
        return settings
    return msgspec.structs.replace(settings, policy=msgspec.structs.replace(settings.policy, isolation=_isolation(isolation)))


def settings_of(told: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> WorkerSettings:
    """The settings from the content of the file at `path` and from the environment. Raises InvalidParameter or ScheduleInvalid if a setting
    is wrong."""
    policy = with_people(_policy(told.get("policy", {}), path), told, path)
    parameters: str | None = _converted(told.get("parameters"), str | None, path, "parameters")
    artifacts: str | None = _converted(told.get("artifacts"), str | None, path, "artifacts")
    return WorkerSettings(
        policy=policy,
        fetch=_fetch(told.get("fetch", {}), path),
        model=_model(told.get("model", {}), path, environment),
        parameters=None if parameters is None else _beside(path, parameters),
        repos=_repos(told.get("repos", {}), path),
        secrets=tuple(_beside(path, text) for text in _converted(told.get("secrets", []), list[str], path, "secrets")),
        artifacts=_beside(path, artifacts) if artifacts else None,
        cassette=_cassette(environment.get("HOLDFAST_CASSETTE"), told.get("cassette"), path),
        signals=_signals(told.get("signals", {}), path, environment),
        tools=_converted(told.get("tools", {}), ToolSettings, path, "tools"),
        queues=_queues(told.get("queues", {}), path),
        schedules=_schedules(told.get("schedules", {}), path),
    )


def load_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file. Raises InvalidParameter if it cannot be read, is not TOML, is too long, or has an unknown table. Its size
    and depth are limited, because its author may be hostile."""
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
        known = f"it may have {', '.join(_TABLES)}.{meant(unknown[0], _TABLES)}"
        raise InvalidParameter(f"{path} has {', '.join(unknown)}, which Holdfast does not know; {known}")
    return told


_OF_THE_TOP: Final = ("groups", "risks")
"""Members of a policy that have a table of their own in the file."""


def _policy(told: Any, path: Path) -> Policy:
    for name in _OF_THE_TOP:
        if isinstance(told, dict) and name in told:
            raise InvalidParameter(f"{path}: [policy.{name}] is not known; write [{name}].")
    policy: Policy = _converted(told, Policy, path, "policy")
    parts = {
        "caps": (DayCaps, {"caps": told.get("caps", {})}),
        "most": (Most, {"most": told.get("most", {})}),
        "tenant_caps": (DayCaps, told.get("tenant_caps", {})),
    }
    for name, (kind, tables) in {**parts, "rate_limits": (RateLimit, told.get("rate_limits", {}))}.items():
        for key, table in tables.items():
            _converted(table, kind, path, f"policy.{name}" if key == name else f"policy.{name}.{key}")
    return policy


def _schedules(told: Any, path: Path) -> tuple[Schedule, ...]:
    tables: dict[str, Any] = _converted(told, dict[str, Any], path, "schedules")
    found = tuple(schedule_from(name, table, f"{path}: [schedules.{name}]") for name, table in tables.items())
    for schedule in found:
        try:
            schedule.definition()  # both are checked here, so that the error names the file
            schedule.input_text()
        except (ScheduleInvalid, InvalidParameter) as wrong:
            raise type(wrong)(f"{path}: [schedules.{schedule.name}]: {wrong}") from None
    return found


def _fetch(told: Any, path: Path) -> FetchSettings:
    fetch: FetchSettings = _converted(told, FetchSettings, path, "fetch")
    return fetch if fetch.ca_file is None else msgspec.structs.replace(fetch, ca_file=_beside(path, fetch.ca_file))


def _repos(told: Any, path: Path) -> dict[str, RepoSettings]:
    """The folders that workers may read. Raises InvalidParameter if a folder does not exist or a limit is below 1: so the error is found
    now, and not by the first run."""
    tables: dict[str, Any] = _converted(told, dict[str, Any], path, "repos")
    found: dict[str, RepoSettings] = {}
    for name, table in tables.items():
        repo: RepoSettings = _converted(table, RepoSettings, path, f"repos.{name}")
        folder = path.parent / repo.folder
        if not folder.is_dir():
            raise InvalidParameter(f"{path}: repos.{name} is wrong: there is no folder {repo.folder}.")
        if min(repo.max_file_bytes, repo.max_bytes, repo.max_lines) < 1:
            raise InvalidParameter(f"{path}: repos.{name} is wrong: max_file_bytes, max_bytes and max_lines must be at least 1.")
        found[name] = msgspec.structs.replace(repo, folder=str(folder.absolute()))
    return found


def _model(told: Any, path: Path, environment: Mapping[str, str]) -> ModelSettings:
    given: dict[str, Any] = _converted(told, dict[str, Any], path, "model")
    prices = _converted(given.pop("prices", {}), dict[str, dict[str, Any]], path, "model.prices")
    settings: ModelSettings = _converted(given, ModelSettings, path, "model")
    found: dict[str, Any] = {
        "api_key": environment.get("HOLDFAST_MODEL_KEY") or environment.get("OPENAI_API_KEY"),
        "base_url": environment.get("HOLDFAST_MODEL_URL") or environment.get("OPENAI_BASE_URL"),
        "model": environment.get("HOLDFAST_MODEL"),
    }
    try:
        check_source(settings.price_source)
        found["prices"] = prices_of(prices)
    except InvalidParameter as wrong:
        raise InvalidParameter(f"{path}: [model]: {wrong}") from None
    return msgspec.structs.replace(settings, **{name: value for name, value in found.items() if value})


def _cassette(said: str | None, told: Any, path: Path) -> CassetteSettings:
    """The cassette, which records or plays back calls of tools: the one that the environment names; else the one that the file names; else
    none. A path in the file is relative to the file's folder."""
    if said or told is None:
        return cassette_settings(said)
    if isinstance(told, dict):
        settings: CassetteSettings = _converted(told, CassetteSettings, path, "cassette")
    else:
        try:
            settings = cassette_settings(str(told))
        except InvalidParameter as wrong:
            raise InvalidParameter(f"{path}: {wrong}") from None
    return msgspec.structs.replace(settings, path=_beside(path, settings.path)) if settings.path else settings


def _signals(told: Any, path: Path, environment: Mapping[str, str]) -> SignalSettings:
    """The settings for logs, metrics and traces. If the file does not set `otel`, the environment decides whether traces are sent, as is
    usual with OpenTelemetry."""
    settings: SignalSettings = _converted(told, SignalSettings, path, "signals")
    if "otel" not in told:
        settings = msgspec.structs.replace(settings, otel=wanted(environment))
    return settings if settings.log in ("off", "stderr") else msgspec.structs.replace(settings, log=_beside(path, settings.log))


def _queues(told: Any, path: Path) -> dict[str, QueueTable]:
    """The queues that the file declares, by name, each as a table."""
    if not isinstance(told, dict):
        raise InvalidParameter(f"{path}: queues is wrong: write a table for each queue, such as [queues.emails].")
    try:
        return {name: checked_table(name, table) for name, table in told.items()}
    except InvalidParameter as wrong:
        raise InvalidParameter(f"{path}: {wrong}") from None


def _beside(path: Path, text: str) -> str:
    return text if text.startswith("ssm:") or "://" in text else str(path.parent / text)


def _converted(value: Any, kind: Any, path: Path, setting: str) -> Any:
    known = getattr(kind, "__struct_fields__", None)
    if kind is Policy and known is not None:
        known = tuple(name for name in known if name not in _OF_THE_TOP)
    unknown = [name for name in value if name not in known] if known is not None and isinstance(value, dict) else []
    if known is not None and unknown:
        raise InvalidParameter(
            f"{path}: [{setting}] has {', '.join(unknown)}, which Holdfast does not know; it may have {', '.join(known)}."
            f"{meant(unknown[0], known)}"
        )
    try:
        return json_structs.converted(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"{path}: {setting} is wrong: {wrong_value(error, kind)}.") from None


def _isolation(word: str) -> Any:
    if word not in ("all", "process", "inline"):
        raise InvalidParameter(f"--isolation (in a program: isolation=) is {word!r}; it must be all, process or inline.")
    return word
