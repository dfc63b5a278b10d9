"""Finds the values of templates in the results that the run has so far. Large values stay in artifacts; `value` opens an artifact only if
a reference needs its content."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import ArtifactRef
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.paths import EACH, Part
from holdfast.pipelines.graph.resolved_templates import MapItem, Unresolved, resolved
from holdfast.workers.artifacts import Artifacts, artifact_id, moved_out

_MOST_OPENED: Final = 100
"""To find the value of one template, artifacts are opened at no more than this many paths. A template that needs more has no value."""


class Values:
    """Resolves the templates of one run."""

    def __init__(self, artifacts: Artifacts, tenant: str, inline_bytes: int) -> None:
        self._artifacts = artifacts
        self._tenant = tenant
        self._inline = inline_bytes

    async def value(self, template: Template, results: Mapping[str, Any], item: MapItem | None = None) -> Any | Unresolved:
        """The value of a template, or an Unresolved that says why it has none. `results` are the results of nodes by name; `item` is the
        item of a map for which the value is made. Artifacts in the value stay references."""
        found = resolved(template, results, item=item)
        for _ in range(_MOST_OPENED):
            if not isinstance(found, Unresolved) or found.reason != "artifact" or found.source not in results:
                break
            opened = await in_thread(Purpose.ARTIFACTS, self._opened, results[found.source], found.path)
            results = {**results, found.source: opened}
            found = resolved(template, results, item=item)
        return found

    async def inputs(self, value: dict[str, Any]) -> dict[str, Any]:
        """Inputs in the form that a child run takes. An input that is a reference to an artifact stays so; references inside an input are
        replaced by the contents of the artifacts. If the inputs are large, the largest are moved into artifacts."""
        if any(_holds_reference(inner) for part in value.values() for inner in _members(part)):
            value = await in_thread(Purpose.ARTIFACTS, self._brought_in_below, value)
        return await self.kept(value)

    async def opened(self, value: Any) -> Any:
        """If the value is a reference to an artifact, the content of the artifact; else the value itself, unchanged. Artifacts inside the
        content stay references."""
        return value if artifact_id(value) is None else await in_thread(Purpose.ARTIFACTS, self._loaded, value)

    async def whole(self, value: Any) -> Any:
        """The value with every artifact in it opened."""
        return await in_thread(Purpose.ARTIFACTS, self._brought_in, value) if _holds_reference(value) else value

    async def told(self, outputs: dict[str, Any], most: int) -> dict[str, Any]:
        """Outputs in the form in which a supervisor gets them. If they have more than `most` bytes, their largest members are moved into
        artifacts. A member that is a reference to an artifact becomes `{"artifact": …}`, which the runner does not open."""
        small = outputs
        if len(msgspec.json.encode(outputs)) > most:
            small, _ = await moved_out(outputs, self._keep, most)
        return {name: {"artifact": value["$artifact"]} if artifact_id(value) is not None else value for name, value in small.items()}

    def named_again(self, value: dict[str, Any]) -> dict[str, Any]:
        """The reverse of `told`: each member `{"artifact": …}` becomes a reference to the artifact again."""
        return {name: _named_again(member) for name, member in value.items()}

    async def kept(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document (a result or inputs) in the form that the history keeps. If it has more bytes than the operator allows inside a
        history (`inline_artifact_bytes`), its largest members are moved into artifacts."""
        if len(msgspec.json.encode(document)) <= self._inline:
            return document
        kept, _ = await moved_out(document, self._keep, self._inline)
        return kept

    def _keep(self, name: str, text: bytes) -> ArtifactRef:
        return self._artifacts.keep(self._tenant, name, "application/json", io.BytesIO(text).read)

    def _opened(self, value: Any, path: tuple[Part, ...]) -> Any:
        """The value with all artifacts along a path replaced by their contents, from the value itself to the end of the path."""
        value = self._loaded(value)
        if not path:
            return value
        part, rest = path[0], path[1:]
        if part == EACH and isinstance(value, list):
            return [self._opened(inner, rest) for inner in value]
        if isinstance(part, int) and isinstance(value, list) and part < len(value):
            return [self._opened(inner, rest) if index == part else inner for index, inner in enumerate(value)]
        if isinstance(part, str) and isinstance(value, dict) and part in value:
            return {**value, part: self._opened(value[part], rest)}
        return value

    def _brought_in_below(self, value: dict[str, Any]) -> dict[str, Any]:
        return {name: part if artifact_id(part) is not None else self._brought_in(part) for name, part in value.items()}

    def _brought_in(self, value: Any) -> Any:
        value = self._loaded(value)
        if isinstance(value, dict):
            return {name: self._brought_in(inner) for name, inner in value.items()}
        return [self._brought_in(inner) for inner in value] if isinstance(value, list) else value

    def _loaded(self, value: Any) -> Any:
        identity = artifact_id(value)
        return value if identity is None else self._artifacts.value(self._tenant, identity)


def _named_again(member: Any) -> Any:
    inner = member.get("artifact") if isinstance(member, dict) and len(member) == 1 else None
    again = {"$artifact": inner}
    return member if artifact_id(again) is None else again


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [] if artifact_id(value) is not None else list(value.values())
    return value if isinstance(value, list) else []


def _holds_reference(value: Any) -> bool:
    """Whether a value is, or contains at any depth, a reference to an artifact."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if artifact_id(one) is not None:
            return True
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return False
