"""Secrets: where they come from, and how they are kept out of everything that is written down.

A secret goes from its source straight into the pipe of the one tool that named it. The `Redactor` of those values stands behind
every result, error and log line of the call, and knows the usual disguises, two on top of each other too: percent-encoding, the escapes
of JSON and HTML, base64 (also in lines), hexadecimal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, quote_plus

from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.disguises import undone
from holdfast.workers.tools.parameters import ParameterFile, Ssm
from holdfast.workers.tools.seam import ToolFailed

_SHORTEST: Final = 4
"""A shorter secret is found only where it stands alone: else every text with an `a` in it would be full of redactions."""
_RUNNERS: Final = "HOLDFAST_"
_SHORTEST_CORE: Final = 8
_SHORTEST_LINE: Final = 16
_AT_ONCE: Final = 2 * 1024
"""Characters that are looked at on the loop, for a few secrets: some milliseconds, whatever they are made of."""
_FEW_FORMS: Final = 64
_LAYERS: Final = 4
"""How many disguises on top of each other are undone. Lines of base64 that are joined are one of them, and JSON in JSON is two."""


Hidden = tuple[int, int, str]
"""Where a secret begins and ends, and what stands there instead."""


class SecretSource(Protocol):
    """Somewhere secrets are kept."""

    @property
    def where(self) -> str:
        """For the message that a secret is missing."""
        ...

    def get(self, name: str) -> str | None: ...


class EnvironmentSecrets:
    """The runner's own environment, which no sandbox and no tool sees. Its `HOLDFAST_` variables are the runner's alone: the model's key
    and the secret that seals credentials are no tool's, whatever a tool's author names."""

    where = "the runner's environment"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def get(self, name: str) -> str | None:
        """A variable's value."""
        return None if name.upper().startswith(_RUNNERS) else self._environment.get(name) or None


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
        # Below a disguise that was undone the secret stands as it is, or in base64 at any offset: few forms for texts that may be many.
        self._bare = {form: forms[form] for value in secrets.values() for form in _bare(value)}
        self._shortest = min(map(len, forms), default=0)

    def text(self, text: str) -> str:
        """A text without them."""
        if text in self._whole:
            return self._whole[text]
        if not self._forms or len(text) < self._shortest:
            return text
        found = [*_standing(text, self._forms)]
        for view in undone(text, _LAYERS):
            found += [(*view.place(start, end), label) for start, end, label in _standing(view.text, self._bare)]
        hidden = _merged(found)
        if not hidden:
            return text
        parts: list[str] = []
        end = 0
        for start, stop, label in hidden:
            parts += (text[end:start], label)
            end = stop
        return "".join((*parts, text[end:]))

    async def cleaned(self, value: Any) -> Any:
        """The same as `value`, on the loop of a server: what is large is looked at beside it."""
        if not self._whole or _weight(value) * (1 + len(self._bare) // _FEW_FORMS) <= _AT_ONCE:
            return self.value(value)
        return await in_thread(Purpose.WORK, self.value, value)

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


def _weight(value: Any) -> int:
    """About how many characters there are to look at, counted only as far as it matters."""
    waiting, weight = [value], 0
    while waiting and weight <= _AT_ONCE:
        part = waiting.pop()
        weight += len(part) if isinstance(part, str) else 1
        if isinstance(part, Mapping):
            waiting.extend((*part.keys(), *part.values()))
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return weight


def _standing(text: str, forms: Mapping[str, str]) -> Iterator[Hidden]:
    """Where any of these forms stands."""
    for form, label in forms.items():
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), label
            at = text.find(form, at + len(form))


def _merged(found: list[Hidden]) -> list[Hidden]:
    """In order, and those that touch or overlap as one."""
    merged: list[Hidden] = []
    for start, end, label in sorted(found, key=lambda hidden: (hidden[0], -hidden[1])):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end), before[2])
        else:
            merged.append((start, end, label))
    return merged


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
    for inner in (raw, *(form.encode("utf-8", errors="surrogatepass") for form in sorted(forms))):
        forms |= {core for core in _base64_cores(inner) if len(core) >= _SHORTEST_CORE}
    forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    if len(raw) < _SHORTEST_CORE:
        forms |= {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    return {form for form in forms if len(form) >= _SHORTEST}


def _bare(value: str) -> set[str]:
    if len(value) < _SHORTEST:
        return set()
    raw = value.encode("utf-8", errors="surrogatepass")
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    return {value, raw.hex(), raw.hex().upper(), *lines, *(core for core in _base64_cores(raw) if len(core) >= _SHORTEST_CORE)}


def _base64_cores(raw: bytes) -> Iterable[str]:
    """What base64 makes of these bytes wherever they stand in a longer text (`user:password`, say): three phases, without the edges."""
    for phase in range(3):
        padded = b"\0" * phase + raw
        for text in (base64.b64encode(padded).decode(), base64.urlsafe_b64encode(padded).decode()):
            edge = {0: 0, 1: 3, 2: 2}[len(padded) % 3]
            yield text[{0: 0, 1: 2, 2: 3}[phase] : len(text) - edge]
