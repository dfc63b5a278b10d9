"""The contract of a run, if this console knows it; and how the secrets in inputs are hidden.

The contract of a pipeline's run is in the graph of the run. The contract of a worker is known if the console's server serves the worker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.contract.redaction import REDACTED, redacted
from holdfast.contract.terms import Contract
from holdfast.model.execution import Execution
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.input_secrets import secrets_in

_MOST_DEPTH: Final = 100
_PREFIX: Final = 60
"""If a text contains the first so many characters of a longer secret, the whole text is replaced."""
_SHORT: Final = 4
"""Texts with fewer characters are found in too many other texts. So, if the contract is not known, a shorter text of the inputs is not
treated as a secret; and at the end of a text that was cut, a shorter beginning of a secret is not looked for."""
_MOST_LEAVES: Final = 100
_MOST_CHARACTERS: Final = 64 * 1024
_MOST_TOGETHER: Final = 200
_MOST_ESCAPES: Final = 3
"""A secret is also found in JSON that is a text inside other JSON, up to this depth. An example: a result has an event, and the event's
details have a payload."""
_CUT: Final = "…"


def graph_of(viewer: Viewer, header: Execution) -> Graph | None:
    """The graph that an execution runs; None if it has no graph, or if the store does not have the text of the graph."""
    text = None if header.graph is None else viewer.store.graph(header.graph)
    return None if text is None else graph_from(text)


def contract_of(viewer: Viewer, header: Execution, accepted: AcceptedRequest, *, now: bool = False) -> Contract | None:
    """The contract of a run. The console may know two: that of the version which the run had, and that of the version which a restart would
    run. With `now` the second is preferred, else the first. None if the console knows neither."""
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
    """Inputs as a page shows them: the places that the contract marks as secret are hidden. If the contract is not known, every text and
    number is hidden."""
    return blank(value) if contract is None else redacted(value, contract.input_schema)


def blank(value: Any, depth: int = 0) -> Any:
    """A value of the same shape, with a placeholder in each place of a text or a number."""
    if depth > _MOST_DEPTH:
        return REDACTED
    if isinstance(value, dict):
        return {name: blank(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [blank(one, depth + 1) for one in value]
    return value if value is None or isinstance(value, bool) else REDACTED


def with_secrets(edited: Any, shown: Any, original: Any, depth: int = 0) -> Any:
    """The inputs that a person edited, with their secrets. `shown` is what the person saw, with placeholders; `original` has the secrets.
    Where `edited` still has a placeholder, the secret from `original` is put in."""
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
    """Whether two JSON values are equal. Unlike in Python, true and 1 are different."""
    return encoded(one, ordered=True) == encoded(other, ordered=True)


def encoded(value: Any, *, ordered: bool = False) -> str:
    """A JSON value as a text. `ordered`: the members of each object are sorted by name. The value may hold lone surrogates, which UTF-8
    cannot encode: then every character beyond ASCII is escaped in the text."""
    try:
        return msgspec.json.encode(value, order="sorted" if ordered else None).decode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=ordered, default=msgspec.to_builtins)


class Cleaner:
    """Takes the secrets of inputs out of texts that are made from JSON.

    It finds a secret as it is and as JSON escapes it, the first characters of a long secret, and, at the end of a text that was cut, the
    beginning of any secret. If the contract is not known, all texts and numbers of the inputs are treated as secrets, except very short
    ones. If there are too many secrets to look for, every text is replaced by a placeholder.
    """

    def __init__(self, inputs: Any, contract: Contract | None, below: Sequence[tuple[Any, Contract]] | None = ()) -> None:
        """`below`: the inputs and contracts of those runs below the run (which it asked for, itself or through others) whose contract marks
        secrets. None: there are too many of these runs, so every text is replaced by a placeholder."""
        found = [_leaves(inputs) if contract is None else _marked(inputs, contract), *(_marked(*one) for one in below or ())]
        texts = {text for some in found for text in some or ()}
        self._all = below is None or None in found or len(texts) > _MOST_TOGETHER
        forms = set() if self._all else {form for text in texts for form in _escaped(text)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._long = [form[:_PREFIX] for form in self._forms if len(form) > _PREFIX]

    def text(self, text: str) -> str:
        """The text, with a placeholder in place of each secret, and of the beginning of a secret at the end of a text that was cut with …
        Only a placeholder if there are too many secrets, or if the text has the first 60 characters of a longer secret."""
        if self._all:
            return REDACTED
        for form in self._forms:
            text = text.replace(form, REDACTED)
        if any(form in text for form in self._long):
            return REDACTED
        return self._uncut(text) if text.endswith(_CUT) else text

    def _uncut(self, text: str) -> str:
        """For a text that was cut: if it ends with the beginning of a secret, the text with a placeholder instead of that beginning; else
        the text itself."""
        body = text.removesuffix(_CUT)
        for form in self._forms:
            for length in range(min(len(form), _PREFIX, len(body)), _SHORT - 1, -1):
                if body.endswith(form[:length]):
                    return f"{body[:-length]}{REDACTED}{_CUT}"
        return text

    def value(self, value: Any, depth: int = 0) -> Any:
        """A JSON value without the secrets in its texts, its numbers and its names. If there are too many secrets to look for, only a
        placeholder."""
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


def _marked(inputs: Any, contract: Contract) -> list[str] | None:
    """The texts in the places that the contract marks as secret; None if there are too many."""
    found = secrets_in(inputs, contract.input_schema)
    return None if found is None else [text for text in found.values() if text]


def _leaves(inputs: Any) -> list[str] | None:
    """The texts and numbers of the inputs, except very short ones, as texts; None if there are too many."""
    found: dict[str, None] = {}
    waiting, characters = [inputs], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list | tuple):
            waiting.extend(one.values() if isinstance(one, dict) else one)
        elif one is not None and not isinstance(one, bool) and len(text := str(one)) >= _SHORT and text not in found:
            found[text] = None
            characters += len(text)
        if len(found) > _MOST_LEAVES or characters > _MOST_CHARACTERS:
            return None
    return list(found)


def _escaped(text: str) -> set[str]:
    """All forms in which a text can appear: as it is, escaped once as in JSON, and escaped several times as in JSON inside other JSON."""
    found = {text}
    for ascii_only in (True, False):
        form = text
        for _ in range(_MOST_ESCAPES):
            form = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            found.add(form)
    return found
