"""Checks of the arguments of `context.run`: a wrong argument raises ValidationError in the author's call, before anything is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.durable import argument_checks
from holdfast.durable.exceptions import ValidationError
from holdfast.model.run_port import RunAsked
from holdfast.model.typed import Unwritable, without_models


def run_asked(worker: object, inputs: object, version: object, constraints: object) -> RunAsked:
    """The request that these arguments make. Raises ValidationError for a wrong argument."""
    worker_id, named = _worker(worker)
    wanted = argument_checks.optional_text(version, "run", "version")
    if named is not None and wanted is not None and named != wanted:
        raise ValidationError(f"run: the worker is {worker!r:.100}, and version= is {wanted!r:.50}. Name the version once.")
    return RunAsked(
        worker_id=worker_id,
        version=named or wanted,
        inputs=_object(inputs, "inputs"),
        constraints={} if constraints is None else _object(constraints, "constraints"),
    )


def _worker(given: object) -> tuple[str, str | None]:
    """The id and the version of a worker, from `id` or `id@version`; the version is None if the text has none. Raises ValidationError for a
    value that is no str, for an empty id, for characters that a store cannot hold, and for a text that looks like the path of a file: here
    a worker is named by its id."""
    if not isinstance(given, str):
        called = getattr(given, "__name__", type(given).__name__)
        raise ValidationError(
            f'run: the worker is {argument_checks.shown(given)}. Name it by its id, as its page does: `context.run("{called}", ...)`.'
        )
    text = argument_checks.text(given, "run", "worker")
    if "/" in text or "\\" in text or text.endswith((".py", ".md")):
        raise ValidationError(
            f"run: {text!r:.100} looks like the path of a file. Serve the file (`workers=[{text!r:.100}]`, or beside the function on the "
            f"command line), and name its worker by the id that its page gives it (`worker_id`)."
        )
    worker_id, _, version = text.partition("@")
    if not worker_id:
        raise ValidationError("run: the worker's id is empty. Write the id that its page gives it (`worker_id`).")
    return worker_id, version or None


def _object(given: object, what: str) -> dict[str, Any]:
    """A mapping, a dataclass or a pydantic model as a dictionary; models inside it become plain JSON values. Raises ValidationError for any
    other value, and for a model that cannot be written as JSON. `what` is the name of the argument, for the message."""
    if isinstance(given, Mapping):
        given = dict(given)
    try:
        plain = without_models(given)
    except (Unwritable, RecursionError) as error:
        raise ValidationError(f"run: the {what} cannot be written as JSON: {error}.") from None
    if not isinstance(plain, dict):
        raise ValidationError(f'run: {what} is {argument_checks.shown(given)}; it must be a dict, such as {{"url": "https://…"}}.')
    return plain
