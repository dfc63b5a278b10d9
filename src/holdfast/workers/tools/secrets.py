"""Secrets: where they come from, and how they are kept out of everything that is written down.

A secret goes from its source straight into the pipe of the one tool that named it. The `Redactor` of those values stands behind
every result, error and log line of the call, and knows the usual disguises: base64, URL-encoding, hexadecimal, JSON escapes.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, quote_plus

from holdfast.workers.tools.parameters import ParameterFile, Ssm
from holdfast.workers.tools.seam import ToolFailed

_SHORTEST: Final = 4
"""A shorter secret is found only where it stands alone: else every text with an `a` in it would be full of redactions."""
_SHORTEST_CORE: Final = 8
_SHORTEST_LINE: Final = 16


class SecretSource(Protocol):
    """Somewhere secrets are kept."""

    @property
    def where(self) -> str:
        """For the message that a secret is missing."""
        ...

    def get(self, name: str) -> str | None: ...


class EnvironmentSecrets:
    """The runner's own environment, which no sandbox and no tool sees."""

    where = "the runner's environment"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def get(self, name: str) -> str | None:
        """A variable's value."""
        return self._environment.get(name) or None


class FileSecrets:
    """A TOML or JSON file with a table `secrets`, or a folder with a file per secret (as Docker and Kubernetes mount them)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = f"{path.name}{'/' if path.is_dir() else ''}"

    def get(self, name: str) -> str | None:
        """Read anew each time, so that a changed secret counts at once."""
        if self._path.is_dir():
            file = self._path / name
            if name != Path(name).name or not file.is_file():
                return None
            return file.read_text(encoding="utf-8").rstrip("\r\n") or None
        value = ParameterFile(self._path).table("secrets").get(name)
        return value if isinstance(value, str) and value else None


class SsmSecrets:
    """AWS Systems Manager, SecureString parameters included, under a prefix."""

    def __init__(self, ssm: Ssm, prefix: str = "") -> None:
        self._ssm = ssm
        self._prefix = prefix
        self.where = f"SSM {prefix}*"

    def get(self, name: str) -> str | None:
        """A parameter's value, decrypted."""
        return self._ssm.secret(self._prefix + name)


def secrets_from(text: str) -> SecretSource:
    """From settings: `ssm:/prefix/` is AWS Systems Manager, anything else the path of a file or folder."""
    prefix = text.removeprefix("ssm:")
    return SsmSecrets(Ssm(), prefix) if text.startswith("ssm:") else FileSecrets(Path(text))


class Secrets:
    """All sources, asked in order."""

    def __init__(self, sources: Sequence[SecretSource]) -> None:
        self._sources = tuple(sources)

    def resolve(self, names: Iterable[str], tool: str) -> dict[str, str]:
        """The values of these names; blocking (files, SSM). A missing one fails before anything is sent."""
        found: dict[str, str] = {}
        missing: list[str] = []
        for name in names:
            value = next((value for source in self._sources if (value := source.get(name)) is not None), None)
            if value is None:
                missing.append(name)
            else:
                found[name] = value
        if missing:
            where = ", ".join(source.where for source in self._sources) or "nowhere, no source is set"
            raise ToolFailed("tool_failed", f"The tool {tool!r} needs the secret {', '.join(missing)}, found in none of: {where}.")
        return found


class Redactor:
    """Takes secret values out of texts and JSON, in every form in which they usually travel."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._whole = {value: f"[redacted:{name}]" for name, value in secrets.items() if value}
        forms: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                forms.setdefault(form, f"[redacted:{name}]")
        self._forms = forms
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        """A text without them."""
        if text in self._whole:
            return self._whole[text]
        return text if self._pattern is None else self._pattern.sub(lambda hit: self._forms[hit.group()], text)

    def value(self, value: Any) -> Any:
        """A JSON value without them, in keys too."""
        if not self._whole:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._whole:
            return self._whole[str(value)]
        return value

    def failure(self, failed: ToolFailed) -> ToolFailed:
        """A failure without them."""
        return ToolFailed(
            failed.code,
            self.text(failed.message),
            retry_after_seconds=failed.retry_after_seconds,
            closes=failed.closes,
            known=failed.known,
            usage=failed.usage,
            details=self.value(failed.details) if failed.details else None,
        )


def _forms(value: str) -> set[str]:
    if len(value) < _SHORTEST:
        return set()
    raw = value.encode("utf-8", errors="surrogatepass")
    forms = {
        value,
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    forms |= {raw.hex(), raw.hex().upper(), repr(value)[1:-1]}
    forms |= {core for core in _base64_cores(raw) if len(core) >= _SHORTEST_CORE}
    forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    if len(raw) < _SHORTEST_CORE:
        forms |= {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    return {form for form in forms if len(form) >= _SHORTEST}


def _base64_cores(raw: bytes) -> Iterable[str]:
    """What base64 makes of these bytes wherever they stand in a longer text (`user:password`, say): three phases, without the edges."""
    for phase in range(3):
        padded = b"\0" * phase + raw
        for text in (base64.b64encode(padded).decode(), base64.urlsafe_b64encode(padded).decode()):
            edge = {0: 0, 1: 3, 2: 2}[len(padded) % 3]
            yield text[{0: 0, 1: 2, 2: 3}[phase] : len(text) - edge]
