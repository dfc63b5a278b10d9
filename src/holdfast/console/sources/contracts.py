"""The contract of a run, where this console knows it: what the server serves now, else what the graph of the run holds."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.contract.redaction import REDACTED, redacted
from holdfast.contract.terms import Contract
from holdfast.model.execution import Execution
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.text import graph_from
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.input_secrets import secrets_in

_MOST_DEPTH: Final = 100
_PREFIX: Final = 60
"""Of a longer secret, already so many characters are taken out."""


def graph_of(viewer: Viewer, header: Execution) -> Graph | None:
    """The graph that an execution runs; None if it runs none."""
    text = None if header.graph is None else viewer.store.graph(header.graph)
    return None if text is None else graph_from(text)


def contract_of(viewer: Viewer, header: Execution, accepted: AcceptedRequest, *, now: bool = False) -> Contract | None:
    """The contract of a run: of its own version if that is known, else of the version that a restart gets. `now` turns this around."""
    served = [] if viewer.served is None else list(viewer.served.contracts(header.function))
    own = next((one for one in served if one.version == accepted.version), None)
    graph = graph_of(viewer, header)
    if graph is not None:
        try:
            own = contract_in(graph)
        except PipelineInvalid:
            own = None
    newest = served[-1] if served else None
    return (newest or own) if now else (own or newest)


def without_secrets(value: Any, contract: Contract | None) -> Any:
    """Inputs as a page shows them: without the places that the contract marks as secret."""
    return value if contract is None else redacted(value, contract.input_schema)


def with_secrets(edited: Any, shown: Any, original: Any, depth: int = 0) -> Any:
    """What a person edited, with the old secrets in the places where the person left the placeholder."""
    if depth > _MOST_DEPTH:
        return edited
    if shown == REDACTED and edited == REDACTED:
        return original
    if isinstance(edited, dict) and isinstance(shown, dict) and isinstance(original, dict):
        return {
            name: with_secrets(value, shown[name], original[name], depth + 1) if name in shown and name in original else value
            for name, value in edited.items()
        }
    if isinstance(edited, list) and isinstance(shown, list) and isinstance(original, list):
        known = min(len(shown), len(original))
        return [with_secrets(value, shown[at], original[at], depth + 1) if at < known else value for at, value in enumerate(edited)]
    return edited


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: true is not 1."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


class Cleaner:
    """Takes the secrets of inputs out of texts that are made of JSON: whole ones, escaped ones, and the beginnings of long ones that a text
    shows cut."""

    def __init__(self, inputs: Any, contract: Contract | None) -> None:
        found = {} if contract is None else secrets_in(inputs, contract.input_schema)
        self._all = found is None
        texts = {text for text in (found or {}).values() if text}
        forms = {form for text in texts for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])}
        self._forms = sorted(forms, key=len, reverse=True)
        self._long = [form[:_PREFIX] for form in self._forms if len(form) > _PREFIX]

    def text(self, text: str) -> str:
        """The text without the secrets."""
        if self._all:
            return REDACTED
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return REDACTED if any(form in text for form in self._long) else text

    def value(self, value: Any, depth: int = 0) -> Any:
        """A JSON value without the secrets, in all its texts and names."""
        if self._all or depth > _MOST_DEPTH:
            return REDACTED
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(one, depth + 1) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(one, depth + 1) for one in value]
        if isinstance(value, str):
            return self.text(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return REDACTED if is_number and str(value) in self._forms else value
