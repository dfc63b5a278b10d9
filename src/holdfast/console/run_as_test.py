"""Writes a Python test from a recorded run: the input, the answers that the run got from tools, workers and people, and its result. Pure.

Another module takes the secrets out first (sources/run_tests.py). This module does not look for secrets. It writes each value as a Python
literal, so that a text from outside cannot become code.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

MOST_CHARACTERS: Final = 50_000
"""If a value has more characters as a Python literal, the test has None in its place, with a comment."""
_WIDTH: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


class Gave(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded answer of a worker, a function or a tool: a value, or an error with a code. `given` is the input that the worker or the
    function got; None for a tool."""

    given: Any = None
    value: Any = None
    error: str | None = None
    message: str = ""


class CallbackAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that a callback of the run got: a text, or an error. `name` is the name of the callback; None if it has none."""

    name: str | None
    text: str | None = None
    error: str | None = None


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is written into the test of one run."""

    kind: str
    """What ran: `function`, `worker` or `pipeline`."""
    function: str
    run: str
    day: str
    module: str = "your_module"
    attribute: str = ""
    file: str = ""
    inputs: Any = None
    workers: Mapping[str, Sequence[Gave]] = {}
    """The answers of workers, by worker id."""
    functions: Mapping[str, Sequence[Gave]] = {}
    """The answers of functions that were invoked, by name."""
    tools: Mapping[str, Sequence[Gave]] = {}
    """The answers of tools, by the name of the tool, in the order of the calls."""
    callbacks: Sequence[CallbackAnswer] = ()
    decisions: Mapping[str, Sequence[Any]] = {}
    """What people decided, in order, by the name of the node that asked; without a node, by the question or the tool."""
    status: str = ""
    outputs: Any = None
    compares: bool = True
    """Whether the test compares the outputs of the run. It does not if a secret was taken out of them, or if the contract of the run is not
    known."""
    error: str | None = None
    notes: Sequence[str] = ()


def written(recorded: RecordedRun) -> str:
    """The text of the test."""
    return "\n".join(_lines(recorded)) + "\n"


def _lines(one: RecordedRun) -> Iterator[str]:
    yield f"# A test of {one.function!r}, made from the {'execution' if one.kind == 'function' else 'run'} {one.run} of {one.day}."
    for note in one.notes:
        yield f"# {note}"
    yield ""
    yield from _imports(one)
    yield ""
    yield from _value("INPUT", one.inputs)
    if one.compares and one.error is None:
        yield from _value("OUTPUT", one.outputs)
    for name, answers in (("WORKERS", one.workers), ("FUNCTIONS", one.functions)):
        if answers:
            yield from _answers(name, answers)
    if one.tools:
        yield from _tools(one.tools)
    if one.decisions:
        yield from _value("DECISIONS", {name: list(said) if len(said) > 1 else said[0] for name, said in one.decisions.items()})
    if one.workers or one.functions:
        yield from _recorded_answer()
    yield ""
    yield ""
    yield from (_function(one) if one.kind == "function" else _run(one))


def _imports(one: RecordedRun) -> Iterator[str]:
    errors = any(gave.error for answers in one.workers.values() for gave in answers)
    tool_errors = any(gave.error for answers in one.tools.values() for gave in answers)
    if one.workers or one.functions:
        yield "from collections.abc import Callable, Sequence"
        yield "from typing import Any"
        yield ""
    if one.kind == "function":
        module = one.module if _NAME.fullmatch(one.module) and not _has_keyword(one.module) else "your_module"
        attribute = _attribute(one)
        yield f"from {module} import {attribute}" + ("  # change this: the module that has the function" if module == "your_module" else "")
        yield ""
    if errors:
        yield "from holdfast import WorkerError"
    yield {
        "function": "from holdfast.testing import Runner, crash_everywhere",
        "worker": "from holdfast.testing import worker_kit",
        "pipeline": "from holdfast.testing import pipeline_kit",
    }[one.kind]
    if tool_errors:
        yield "from holdfast.workers.tools.seam import ToolFailed"
    if one.kind != "function":
        yield ""
        yield f"FILE = {one.file!r}  # change this: the path of its file, from the folder in which pytest runs"


def _function(one: RecordedRun) -> Iterator[str]:
    attribute = _attribute(one)
    more = (", stubs=stubs" if one.functions else "") + (", workers=workers" if one.workers else "")
    yield f"def test_{_identifier(one.function)}_{'ends_as_it_did' if one.error is None else 'fails_as_it_did'}() -> None:"
    yield from _local(one)
    yield f"    with Runner({attribute}{more}) as runner:"
    if one.callbacks:
        yield "        execution = runner.run_async(INPUT)"
        for called in one.callbacks:
            verb, said = ("success", called.text) if called.error is None else ("failure", called.error)
            yield f"        runner.send_callback_{verb}(runner.wait_for_callback(execution, {called.name!r}), {said!r})"
        yield "        result = runner.wait_for_result(execution)"
    else:
        yield "        result = runner.run(INPUT)"
    yield f"    assert result.status == {one.status!r}"
    if one.error is not None:
        yield f"    assert result.error is not None and result.error.type == {one.error!r}"
    elif one.compares:
        yield "    assert result.result == OUTPUT"
    why = _no_crash_test(one)
    if why:
        yield ""
        yield ""
        yield f"# There is no test of crashes here: {why}."
    else:
        answers = {called.name or "": called.text or "" for called in one.callbacks}
        yield ""
        yield ""
        yield f"def test_a_crash_of_{_identifier(one.function)}_at_any_point_changes_nothing() -> None:"
        yield from _local(one)
        yield f"    assert crash_everywhere({attribute}, INPUT{f', answers={answers!r}' if answers else ''}{more}) > 0"


def _no_crash_test(one: RecordedRun) -> str:
    """Why the file has no test of crashes for a function; empty if it has one."""
    names = [called.name for called in one.callbacks]
    if one.error is not None:
        return "the execution failed"
    if any(called.error is not None for called in one.callbacks):
        return "a callback failed"
    return "several callbacks have the same name" if len(set(names)) < len(names) else ""


def _local(one: RecordedRun) -> Iterator[str]:
    if one.functions:
        yield "    stubs = {name: recorded(answers) for name, answers in FUNCTIONS.items()}"
    if one.workers:
        yield "    workers = {name: recorded(answers) for name, answers in WORKERS.items()}"


def _run(one: RecordedRun) -> Iterator[str]:
    kit = "worker_kit" if one.kind == "worker" else "pipeline_kit"
    which = f", worker={one.function!r}" if one.kind == "worker" else f", name={one.function!r}"
    more = (", workers=workers" if one.workers else "") + (", tools=TOOLS" if one.tools else "")
    more += ", decisions=DECISIONS" if one.decisions else ""
    yield f"def test_{_identifier(one.function)}_{'ends_as_it_did' if one.error is None else 'fails_as_it_did'}() -> None:"
    yield from _local(one)
    yield f"    ran = {kit}.run(FILE, INPUT{more}{which})"
    yield f"    assert ran.status == {one.status!r}, ran.error"
    if one.error is not None:
        yield f"    assert ran.error is not None and ran.error.error_code == {one.error!r}"
    elif one.compares:
        yield "    assert ran.outputs == OUTPUT"
    yield ""
    yield ""
    if one.error is not None:
        yield "# There is no test of crashes here: the run failed."
    else:
        yield f"def test_a_crash_of_{_identifier(one.function)}_at_any_point_changes_nothing() -> None:"
        yield from _local(one)
        yield f"    assert {kit}.crash_everywhere(FILE, INPUT{more}{which}) > 0"


def _recorded_answer() -> Iterator[str]:
    yield ""
    yield ""
    yield "def recorded(answers: Sequence[tuple[Any, Any]]) -> Callable[[Any], Any]:"
    yield '    """Make a function that gives the recorded answer to the same question."""'
    yield ""
    yield "    def answer(asked: Any) -> Any:"
    yield "        gave = next((gave for given, gave in answers if given == asked), None)"
    yield '        assert gave is not None, f"The run never asked this: {asked!r}"'
    yield "        if isinstance(gave[0], Exception):"
    yield "            raise gave[0]"
    yield "        return gave[0]"
    yield ""
    yield "    return answer"


def _answers(name: str, answers: Mapping[str, Sequence[Gave]]) -> Iterator[str]:
    yield f"{name}: dict[str, list[tuple[Any, Any]]] = {{"
    for worker, all_ in answers.items():
        yield f"    {worker!r}: ["
        for gave in all_:
            yield f"        ({_literal(gave.given, 8)}, ({_answer(gave, 'WorkerError', 8)},)),"
        yield "    ],"
    yield "}"


def _tools(tools: Mapping[str, Sequence[Gave]]) -> Iterator[str]:
    yield "TOOLS = {"
    for tool, answers in tools.items():
        yield f"    {tool!r}: ["
        for gave in answers:
            yield f"        {_answer(gave, 'ToolFailed', 8)},"
        yield "    ],"
    yield "}"


def _answer(gave: Gave, error: str, indent: int) -> str:
    return _literal(gave.value, indent) if gave.error is None else f"{error}({gave.error!r}, {gave.message!r})"


def _value(name: str, value: Any) -> Iterator[str]:
    yield f"{name} = {_literal(value)}"


def _literal(value: Any, indent: int = 0) -> str:
    """A JSON value as a Python literal. For a value that is too large or too deep, the literal is None with a comment that says why.
    `indent` is the number of spaces at the beginning of the line in which the literal starts."""
    try:
        size = len(repr(value))
        if size > MOST_CHARACTERS:
            return _left_out(f"it has {size:,} characters", indent)
        return _laid_out(value, indent)
    except RecursionError:
        return _left_out("it is too deep", indent)


def _left_out(why: str, indent: int) -> str:
    """The code `None` with a comment that says why the value is left out. Inside other code (`indent` above 0), it is in parentheses on
    lines of its own, because a comment ends only at the end of its line."""
    return f"(\n{' ' * (indent + 4)}None  # left out: {why}\n{' ' * indent})" if indent else f"None  # left out: {why}"


def _laid_out(value: Any, indent: int) -> str:
    """A value as Python code. A short value, and any value without members, is on one line. Else each member begins on a new line."""
    whole = repr(value)
    if len(whole) + indent <= _WIDTH or not isinstance(value, dict | list) or not value:
        return whole
    inner = " " * (indent + 4)
    if isinstance(value, dict):
        members = [f"{inner}{name!r}: {_laid_out(one, indent + 4)},\n" for name, one in value.items()]
        return f"{{\n{''.join(members)}{' ' * indent}}}"
    members = [f"{inner}{_laid_out(one, indent + 4)},\n" for one in value]
    return f"[\n{''.join(members)}{' ' * indent}]"


def _attribute(one: RecordedRun) -> str:
    name = one.attribute or one.function
    return name if name.isidentifier() and not keyword.iskeyword(name) else "function"


def _has_keyword(module: str) -> bool:
    return any(keyword.iskeyword(part) for part in module.split("."))


def _identifier(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60] or "it"
