"""What a file declares is read from its source; nothing in it runs."""

from pathlib import Path
from typing import Any

import pytest

from holdfast import ToolCall, tool
from holdfast.contract.checking import problems_of
from holdfast.workers.tools.declarations import declarations_of
from holdfast.workers.tools.seam import Effect

REFUND = '''
from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker
raise SystemExit("this file must not be run")

@tool(effect="write", secrets=["PAY_KEY"], approval=True)
def refund_payment(call: ToolCall, order_id: str, cents: int) -> dict:
    """Pays money back."""
    return {}

@refund_payment.reconcile
def found(call: ToolCall, order_id: str, cents: int):
    return call.unknown()

@tool
async def notify(call, to: list[str], text: str = "hi", *, urgent: bool = False, more: "dict[str, int] | None" = None): ...

@worker("refund-worker.md", include=["rules.json", "texts/*.md"])
async def refund(inputs: dict, ctx: WorkerContext) -> dict:
    return {}
'''


def test_tools_and_worker_are_found_without_running_the_file() -> None:
    found = declarations_of(REFUND)
    assert found.problems == ()
    pay, notify = found.tools
    assert (pay.name, pay.effect, pay.secrets, pay.approval, pay.timeout_seconds) == (
        "refund_payment",
        Effect.WRITE,
        ("PAY_KEY",),
        True,
        None,
    )
    assert (pay.reconciles, pay.line) == (True, 6)
    assert pay.arguments_schema == {
        "type": "object", "required": ["order_id", "cents"], "additionalProperties": False,
        "properties": {"order_id": {"type": "string"}, "cents": {"type": "integer"}},
    }  # fmt: skip
    assert (notify.effect, notify.reconciles, notify.approval, notify.secrets) == (Effect.WRITE, False, False, ())
    (worker,) = found.workers
    assert (worker.function, worker.page, worker.include) == ("refund", "refund-worker.md", ("rules.json", "texts/*.md"))


@pytest.mark.parametrize("arguments,fits", [
    ({"to": ["a"]}, True), ({"to": ["a"], "text": "x", "urgent": True, "more": {"a": 1}}, True), ({"to": ["a"], "more": None}, True),
    ({}, False), ({"to": "a"}, False), ({"to": [1]}, False), ({"to": [], "extra": 1}, False), ({"to": [], "more": {"a": "b"}}, False),
])  # fmt: skip
def test_the_signature_is_the_schema_of_the_arguments(arguments: dict[str, Any], fits: bool) -> None:
    notify = declarations_of(REFUND).tools[1]
    assert (problems_of(arguments, notify.arguments_schema) == ()) is fits


@pytest.mark.parametrize("head", [
    "from holdfast import tool as t\n@t(effect='read')", "import holdfast\n@holdfast.tool(effect='read')",
    "import holdfast as h\n@h.tool(effect='read', timeout_seconds=3)", "if True:\n    from holdfast import tool\n@tool(effect='read')",
])  # fmt: skip
def test_a_tool_is_found_by_whatever_name_it_was_imported(head: str) -> None:
    assert [found.effect for found in declarations_of(f"{head}\ndef look(call): ...").tools] == [Effect.READ]


@pytest.mark.parametrize("annotation,schema", [
    ("", {}), (": float", {"type": "number"}), (": int | None", {"type": ["integer", "null"]}),
    (": Optional[str]", {"type": ["string", "null"]}),
    (": Literal['a', 'b']", {"enum": ["a", "b"]}), (": Any", {}), (": Order", {}), (": dict", {"type": "object"}),
    (": list[dict[str, float]]", {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}}),
    (": typing.Sequence[int]", {"type": "array", "items": {"type": "integer"}}),
    (": list[int] | str", {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}),
    (": Annotated[int, 'x']", {"type": "integer"}), (": Any | None", {}), (": 'broken ['", {}),
])  # fmt: skip
def test_an_annotation_says_what_is_allowed(annotation: str, schema: Any) -> None:
    found = declarations_of(f"from holdfast import tool\n@tool\ndef f(call, x{annotation}): ...")
    assert found.tools[0].arguments_schema["properties"]["x"] == schema


@pytest.mark.parametrize("source,line,words", [
    ("KEYS = ['A']\n@tool(secrets=KEYS)\ndef f(call): ...", 3, "secrets= must be a literal"),
    ("@tool(effect='delete')\ndef f(call): ...", 2, "'read' or 'write'"),
    ("@tool(effect='pure')\ndef f(call): ...", 2, "'read' or 'write'"),
    ("@tool(approved=True)\ndef f(call): ...", 2, "does not know approved="),
    ("@tool(**options)\ndef f(call): ...", 2, "does not know **"),
    ("@tool('name')\ndef f(call): ...", 2, "by name"),
    ("@tool(approval='yes')\ndef f(call): ...", 2, "wrong type"),
    ("@tool(secrets='KEY')\ndef f(call): ...", 2, "list of texts"),
    ("@tool(timeout_seconds=True)\ndef f(call): ...", 2, "wrong type"),
    ("@tool(timeout_seconds=0)\ndef f(call): ...", 2, "above 0"),
    ("@tool(name='a-b')\ndef f(call): ...", 2, "must be a Python identifier"),
    ("@tool\ndef f(): ...", 3, "first parameter must be the call"),
    ("@tool\ndef f(call, *args): ...", 3, "name every argument"),
    ("@tool\ndef f(call, **more): ...", 3, "name every argument"),
    ("@tool\ndef f(call, a, /): ...", 3, "by name"),
    ("@tool\ndef f(call): ...\n@tool\ndef f(call): ...", 5, "replace the first"),
    ("@tool\ndef f(call): ...\n@tool(name='f')\ndef g(call): ...", 5, "Two tools"),
    ("class A:\n    @tool\n    def f(self, call): ...", 4, "stand at the top"),
    ("@nothing.reconcile\ndef f(call): ...", 2, "has no function nothing with @tool"),
    ("@worker\ndef f(inputs, ctx): ...", 2, "must name its page"),
    ("@worker(PAGE)\ndef f(inputs, ctx): ...", 2, "must be a literal"),
    ("@worker('p.md', include='x')\ndef f(inputs, ctx): ...", 2, "list of texts"),
    ("def f(:", 2, "not Python"),
])  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_line(source: str, line: int, words: str) -> None:
    found = declarations_of("from holdfast import tool, worker\n" + source)
    assert [(problem.line, words in problem.message) for problem in found.problems] == [(line, True)], found.problems


@pytest.mark.parametrize("source", ["\0", "x = (" * 5000, b"\xff\xfe\x00", "# coding: nonsense\n", "1" * 10_000])
def test_a_file_that_is_no_python_is_told_and_does_no_harm(source: str | bytes) -> None:
    assert len(declarations_of(source).problems) <= 1


def test_every_problem_is_told_at_once() -> None:
    found = declarations_of("from holdfast import tool\n@tool\ndef f(): ...\n@tool(effect=1)\ndef g(call): ...\n")
    assert [problem.line for problem in found.problems] == [3, 4]


def test_a_tool_called_from_a_worker_says_where_to_call_it(tmp_path: Path) -> None:
    @tool(effect="read")
    def look(call: ToolCall, at: str) -> str:
        return f"{at} {call.idempotency_key}"

    assert look(ToolCall(run_id="r", tool="look", idempotency_key="k"), at="this") == "this k"
    with pytest.raises(TypeError, match=r"ctx\.tools\.look"):
        look(at="this")
