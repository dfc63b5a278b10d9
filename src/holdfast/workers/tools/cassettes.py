"""Cassettes: recorded calls that are played back, so that tests and CI need no key, no network and no money.

A cassette is a file of JSON lines, one for each call: the tool, the arguments and their hash, the result or the error, and what the call
cost. The n-th call of a tool with the same arguments plays the n-th recording of such a call. If there are fewer recordings, the last of
them is played again. Secrets are removed before a line is written, and the hash is that of the arguments without secrets.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.files import private
from holdfast.model import codec
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.workers.tools.seam import (
    Call,
    CallResult,
    CallVerdict,
    Effect,
    Remaining,
    Reservation,
    Tool,
    ToolFailed,
    Unknown,
    Usage,
    cool_down_keys,
    verdict_on,
)
from holdfast.workers.tools.secrets import Redactor


class CassetteMode(StrEnum):
    """What a cassette does: nothing; record the calls that are made; or play recorded calls, so that no call is made."""

    OFF = "off"
    RECORD = "record"
    REPLAY = "replay"


class CassetteSettings(Struct, frozen=True):
    """Whether calls are recorded or played back, and where."""

    mode: CassetteMode = CassetteMode.OFF
    path: str = ""
    tools: tuple[str, ...] = ()
    """The names of the tools whose calls are recorded or played back; empty: all tools."""


def cassette_settings(text: str | None) -> CassetteSettings:
    """The settings that a text describes: `off`, `record:FILE` or `replay:FILE`. The text comes from `HOLDFAST_CASSETTE` or from a setting;
    None and an empty text mean `off`. Raises InvalidParameter for any other text."""
    word, _, path = (text or "off").partition(":")
    if word == CassetteMode.OFF and not path:
        return CassetteSettings()
    if word not in (CassetteMode.RECORD, CassetteMode.REPLAY) or not path:
        raise InvalidParameter(f"The cassette setting is {text!r}: it must be off, record:FILE or replay:FILE.")
    return CassetteSettings(CassetteMode(word), path)


class Cassette:
    """One file of recorded calls."""

    def __init__(self, settings: CassetteSettings, redactor: Redactor | None = None) -> None:
        self.mode = settings.mode
        self._tools = settings.tools
        self._path = Path(settings.path)
        self._redactor = redactor or Redactor({})
        self._played: dict[str, int] = {}
        self._lines = _read(self._path) if settings.mode is CassetteMode.REPLAY else {}

    def wrap(self, tool: Tool) -> Tool:
        """A tool that records the calls of `tool`, or plays them back. Returns `tool` itself if the cassette is off, if `tool` is pure, or
        if the settings name only other tools."""
        is_for = not self._tools or tool.name in self._tools
        return TapedTool(tool, self) if self.mode is not CassetteMode.OFF and is_for and tool.effect is not Effect.PURE else tool

    def play(self, tool: str, arguments: Mapping[str, Any]) -> CallResult:
        """The recorded result of this call. If an error was recorded, raises it as ToolFailed. Raises ToolFailed with the code
        `tool_failed` if no call of this tool with these arguments was recorded."""
        kept = self._redactor.value(dict(arguments))
        key = _key(tool, kept)
        lines = self._lines.get(key)
        if lines is None:
            raise ToolFailed("tool_failed", self._missed(tool, kept), details={"reason": "cassette_miss"})
        at = self._played.get(key, 0)
        self._played[key] = at + 1
        return _outcome(lines[min(at, len(lines) - 1)])

    def record(self, tool: str, arguments: Mapping[str, Any], outcome: CallResult | ToolFailed) -> None:
        """Append one call and its outcome to the file, in a single write, so that several processes may share the file."""
        kept = self._redactor.value(dict(arguments))
        line: dict[str, Any] = {"tool": tool, "arguments_sha256": _key(tool, kept), "arguments": kept}
        if isinstance(outcome, CallResult):
            line["result"] = self._redactor.value(outcome.result)
        else:
            clean = self._redactor.failure(outcome)
            line["error"] = {"code": clean.code, "message": clean.message, "retry_after_seconds": clean.retry_after_seconds}
            line["error"] |= {"closes": clean.closes, "details": clean.details}
        usage = outcome.usage
        line["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": str(usage.cost_usd)}
        parts = {"cached_tokens": usage.cached_tokens, "reasoning_tokens": usage.reasoning_tokens}
        line["usage"] |= {name: count for name, count in parts.items() if count}
        data = (codec.dumps(line) + "\n").encode()
        descriptor = private.open_file(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def _missed(self, tool: str, arguments: Any) -> str:
        said = f"The cassette {self._path.name} has no call of {tool} with these arguments"
        cure = f"Record it with HOLDFAST_CASSETTE=record:{self._path.name}."
        others = [codec.dumps(line["arguments"]) for lines in self._lines.values() for line in lines if line["tool"] == tool]
        if not others:
            tools = ", ".join(sorted({line["tool"] for lines in self._lines.values() for line in lines})) or "none"
            return f"{said}, and none of that tool at all (it has calls of: {tools}). {cure}"
        wanted = codec.dumps(arguments)
        nearest = max(others, key=lambda text: difflib.SequenceMatcher(None, wanted[:2000], text[:2000]).ratio())
        return f"{said}: asked {wanted[:300]}, nearest {nearest[:300]}. {cure}"


class TapedTool:
    """A tool whose calls a cassette records or plays back."""

    def __init__(self, tool: Tool, cassette: Cassette) -> None:
        self._tool = tool
        self._cassette = cassette

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)  # other attributes of the tool (`approval`, `declared`, `close`)

    @property
    def name(self) -> str:
        return self._tool.name

    @property
    def effect(self) -> Effect:
        return self._tool.effect

    @property
    def arguments_schema(self) -> Mapping[str, Any] | None:
        return self._tool.arguments_schema

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """The reservation that the tool behind the cassette makes, so that budgets also work when calls are played back."""
        return self._tool.reserve(arguments, remaining)

    def cool_down_keys(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The keys, such as a domain, under which a server's `Retry-After` stops calls with these arguments, as the tool behind the
        cassette names them; without the key `tool:NAME`."""
        return cool_down_keys(self._tool, arguments)[1:]

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Play the call back; or make it, and record its result or its ToolFailed. A ToolFailed after which it is unknown whether the call
        took place is not recorded."""
        if self._cassette.mode is CassetteMode.REPLAY:
            played = self._cassette.play(self.name, arguments)
            if call.hears is not None:  # the recording has the whole answer, so followers get it as one text
                call.hears(played.result if isinstance(played.result, str) else codec.dumps(played.result))
            return played
        try:
            called = await self._tool.call(call, arguments, reservation)
        except ToolFailed as failed:
            if failed.known:
                self._cassette.record(self.name, arguments, failed)
            raise
        self._cassette.record(self.name, arguments, called)
        return called

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> CallVerdict:
        """Ask the tool behind the cassette whether a call took place whose answer was lost. Returns Unknown when calls are played back: the
        tool would ask the real world, and the cassette does not know, because the call may have been made before calls were played back."""
        if self._cassette.mode is CassetteMode.REPLAY:
            return Unknown()
        return await verdict_on(self._tool, call, arguments)


def _key(tool: str, arguments: Any) -> str:
    return codec.payload_hash(f"{tool}\n{codec.dumps(arguments)}")


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidParameter(f"The cassette {path.name} cannot be read: {error.strerror}.") from None
    for number, text in enumerate(texts, 1):
        if text.strip():
            try:
                line = codec.loads(text)
                found.setdefault(_key(line["tool"], line["arguments"]), []).append(line)
                _outcome_of(line)
            except (HoldfastError, KeyError, TypeError, InvalidOperation):
                raise InvalidParameter(f"Line {number} of the cassette {path.name} is not a recorded call.") from None
    return found


def _outcome(line: Mapping[str, Any]) -> CallResult:
    outcome = _outcome_of(line)
    if isinstance(outcome, ToolFailed):
        raise outcome
    return outcome


def _outcome_of(line: Mapping[str, Any]) -> CallResult | ToolFailed:
    spent = line.get("usage", {})
    parts = [spent.get(name, 0) for name in ("cached_tokens", "reasoning_tokens")]
    usage = Usage(spent.get("input_tokens", 0), spent.get("output_tokens", 0), Decimal(spent.get("cost_usd", "0")), *parts)
    if "error" not in line:
        return CallResult(line["result"], usage)
    about = line["error"]
    known = {name: about.get(name) for name in ("retry_after_seconds", "closes", "details")}
    return ToolFailed(about["code"], about["message"], usage=usage, **known)
