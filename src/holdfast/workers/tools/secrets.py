"""Secrets: where they come from, and how they are kept out of everything that is stored.

The runner reads a secret from its source and sends it, over a socket, to the process of the tool that declares it. A `Redactor` removes
these values from every result, error and log line of the call, also if they are encoded once or twice: percent-encoding, the escapes of
JSON and HTML, base64 (also in lines), hexadecimal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, quote_plus

from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.encodings import undone
from holdfast.workers.tools.parameters import ParameterFile, Ssm
from holdfast.workers.tools.seam import ToolFailed
from holdfast.workers.tools.secret_beginnings import Beginnings

_SHORTEST: Final = 4
"""A secret with fewer characters than this is replaced only if it is the whole text: otherwise a secret `a` would be replaced in every
text."""
_RUNNERS: Final = "HOLDFAST_"
_SHORTEST_CORE: Final = 8
_SHORTEST_LINE: Final = 16
_AT_ONCE: Final = 2 * 1024
"""The most characters that are searched on the event loop if there are few secrets. This takes some milliseconds at most."""
_FEW_FORMS: Final = 64
_LAYERS: Final = 4
"""How many encodings are undone if a text was encoded several times. Base64 in several lines counts as two, because the lines are joined
first. JSON inside JSON also counts as two."""


Hidden = tuple[int, int, str]
"""One place of a secret in a text: where it begins, where it ends, and the label that replaces it."""


class SecretSource(Protocol):
    """A source of secrets."""

    @property
    def where(self) -> str:
        """The name of this source, for the error about a missing secret."""
        ...

    def get(self, name: str) -> str | None: ...


class EnvironmentSecrets:
    """The runner's own environment, which is passed to no sandbox and no tool. Variables whose names begin with `HOLDFAST_` are never given
    to a tool: some hold secrets of the operator."""

    where = "the runner's environment"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def get(self, name: str) -> str | None:
        """The value of the variable `name`; None if the variable is missing or empty, or if its name begins with `HOLDFAST_`."""
        return None if name.upper().startswith(_RUNNERS) else self._environment.get(name) or None


class FileSecrets:
    """A TOML or JSON file with a table `secrets`, or a folder with one file for each secret (as Docker and Kubernetes mount them)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = f"{path.name}{'/' if path.is_dir() else ''}"

    def get(self, name: str) -> str | None:
        """A secret; None if it is missing, empty or not a text. The file is read at each call, so that a changed secret is used at once.
        Raises ToolFailed if the TOML or JSON file, or the secret's file in a folder, cannot be read. A missing file in a folder is a
        missing secret."""
        try:
            if self._path.is_dir():
                file = self._path / name
                if name != Path(name).name or not file.is_file():
                    return None
                return file.read_text(encoding="utf-8").rstrip("\r\n") or None
        except OSError as error:
            told = f"The secret {name!r} in {self.where} cannot be read: {error.strerror}. Let the user of the runner read its file."
            raise ToolFailed("tool_unavailable", told) from None
        except UnicodeDecodeError:  # its text would show bytes of the secret
            raise ToolFailed("tool_failed", f"The secret {name!r} in {self.where} is not UTF-8 text. Save its file as UTF-8.") from None
        value = ParameterFile(self._path).table("secrets").get(name)
        return value if isinstance(value, str) and value else None


class SsmSecrets:
    """Parameters of AWS Systems Manager under a prefix, SecureString parameters included."""

    def __init__(self, ssm: Ssm, prefix: str = "") -> None:
        self._ssm = ssm
        self._prefix = prefix
        self.where = f"SSM {prefix}*"

    def get(self, name: str) -> str | None:
        """The decrypted value of the parameter whose name is the prefix followed by `name`; None if there is none. Raises ToolFailed if SSM
        refuses the request or cannot be asked."""
        return self._ssm.secret(self._prefix + name)


def secrets_from(text: str) -> SecretSource:
    """The source that a setting names: `ssm:/prefix/` is AWS Systems Manager, anything else is the path of a file or folder."""
    prefix = text.removeprefix("ssm:")
    return SsmSecrets(Ssm(), prefix) if text.startswith("ssm:") else FileSecrets(Path(text))


class Secrets:
    """All sources of secrets, in a fixed order. A secret is taken from the first source that has it."""

    def __init__(self, sources: Sequence[SecretSource]) -> None:
        self._sources = tuple(sources)

    def resolve(self, names: Iterable[str], tool: str) -> dict[str, str]:
        """The values of the secrets with these names. Raises ToolFailed if one is missing, or if a source cannot be read. Blocks, because
        it reads files or asks SSM. `tool` is for the error."""
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
            raise ToolFailed(
                "tool_failed",
                f"The tool {tool!r} needs secrets that were not found: {', '.join(missing)}. These places were searched: {where}.",
            )
        return found


class Redactor:
    """Replaces secret values in texts and JSON, also in their usual encodings, by `[redacted:NAME]`."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.secrets = dict(secrets)
        self._whole = {value: f"[redacted:{name}]" for name, value in secrets.items() if value}
        forms: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                forms.setdefault(form, f"[redacted:{name}]")
        self._forms = forms
        # A text whose encoding was undone is searched for fewer forms (plain, hexadecimal, base64), because there may be many such texts.
        self._bare = {form: forms[form] for value in secrets.values() for form in _bare(value)}
        self._shortest = min(map(len, forms), default=0)

    def text(self, text: str) -> str:
        """The text with the secrets replaced. A secret with fewer than four characters is replaced only if it is the whole text."""
        if text in self._whole:
            return self._whole[text]
        return _without(text, self.found(text))

    def found(self, text: str) -> list[Hidden]:
        """The places of the secrets in a text, in order; no two of them overlap."""
        if not self._forms or len(text) < self._shortest:
            return []
        found = [*_found_in(text, self._forms)]
        for view in undone(text, _LAYERS):
            found += [(*view.place(start, end), label) for start, end, label in _found_in(view.text, self._bare)]
        return _merged(found)

    def and_also(self, secrets: Mapping[str, str]) -> Redactor:
        """A new redactor that replaces these secrets in addition to those of this redactor."""
        return Redactor({**secrets, **self.secrets})

    @cached_property
    def beginnings(self) -> Beginnings:
        """The beginnings of the secrets, for a text that arrives in parts."""
        return Beginnings((*self._forms, *self._whole))

    def released(self, text: str, *, begin: int = 0, is_first: bool, is_last: bool) -> tuple[str, int]:
        """What may be shown now of a text that arrives in parts: `text[begin:end]` with the secrets replaced, and `end`. The caller keeps
        `text[end:]` for the next part. `is_first`: nothing was shown before this text. `is_last`: no part follows."""
        if is_first and text in self._whole:
            return (self._whole[text], len(text)) if is_last else ("", 0)
        end = len(text) if is_last else len(text) - self.beginnings.held(text)
        hidden = self.found(text)
        for start, stop, _ in hidden:
            begin = stop if start < begin < stop else begin
            end = start if start < end < stop else end
        return _without(text[:end], [place for place in hidden if begin <= place[0] < end], begin), end

    async def cleaned(self, value: Any) -> Any:
        """The JSON value with the secrets replaced, also in its keys; a number is replaced if it is a whole secret. A large value is
        searched in a thread, so that the event loop does not wait."""
        if not self._whole or _weight(value) * (1 + len(self._bare) // _FEW_FORMS) <= _AT_ONCE:
            return self.value(value)
        return await in_thread(Purpose.WORK, self.value, value)

    def value(self, value: Any) -> Any:
        """The JSON value with the secrets replaced, also in its keys. A number is replaced if it is a whole secret."""
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
        """A copy of the failure, with the secrets replaced in its message and details."""
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
    """About how many characters of a JSON value must be searched. If there are more than `_AT_ONCE`, the result is only some number above
    `_AT_ONCE`."""
    waiting, weight = [value], 0
    while waiting and weight <= _AT_ONCE:
        part = waiting.pop()
        weight += len(part) if isinstance(part, str) else 1
        if isinstance(part, Mapping):
            waiting.extend((*part.keys(), *part.values()))
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return weight


def _without(text: str, hidden: Sequence[Hidden], begin: int = 0) -> str:
    """The text from the position `begin` on, with each place in `hidden` replaced by its label."""
    parts: list[str] = []
    for start, end, label in hidden:
        parts += (text[begin:start], label)
        begin = end
    return "".join((*parts, text[begin:])) if parts else text[begin:]


def _found_in(text: str, forms: Mapping[str, str]) -> Iterator[Hidden]:
    """The places at which one of the forms occurs in a text. `forms` has the label of each form."""
    for form, label in forms.items():
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), label
            at = text.find(form, at + len(form))


def _merged(found: list[Hidden]) -> list[Hidden]:
    """The places, in the order of the text. Places that overlap are joined into one."""
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
    """The base64 forms of these bytes inside a longer text (such as `user:password`): for each of the three offsets that they may have
    there, and for both alphabets of base64, without the first and last characters that the bytes around them change."""
    for phase in range(3):
        padded = b"\0" * phase + raw
        for text in (base64.b64encode(padded).decode(), base64.urlsafe_b64encode(padded).decode()):
            edge = {0: 0, 1: 3, 2: 2}[len(padded) % 3]
            yield text[{0: 0, 1: 2, 2: 3}[phase] : len(text) - edge]
