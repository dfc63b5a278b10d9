"""An author changes the package name in the imports and nothing else: same modules, names, signatures, defaults and fields."""

import ast
import dataclasses
import enum
import importlib
import inspect
import logging
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

import pytest

OURS, OFFICIAL = "holdfast.durable", "aws_durable_execution_sdk_python"

MODULES = [
    "concurrency.models",
    "config",
    "context",
    "exceptions",
    "execution",
    "filesystem_serdes",
    "lambda_service",
    "logger",
    "plugin",
    "plugin_discovery",
    "preview",
    "retries",
    "serdes",
    "types",
    "waits",
]

INSIDE = "machinery of the official SDK that no author touches; ours works otherwise"
PORT = "the service's operations and the client: here they are holdfast.model and the port"

# Names the official module defines and ours does not, each with its reason. A name that arrives must be taken off.
MISSING: dict[str, dict[str, str]] = {
    "serdes": dict.fromkeys(
        [
            "BytesCodec",
            "Codec",
            "ContainerCodec",
            "DateTimeCodec",
            "DecimalCodec",
            "EncodedValue",
            "PrimitiveCodec",
            "TYPE_CODEC",
            "TypeCodec",
            "UuidCodec",
        ],
        INSIDE,
    ),
    "context": {"PASS_THROUGH_SERDES": INSIDE},
    "plugin": dict.fromkeys(["PluginExecutor", "PluginHost"], INSIDE),
    "execution": {
        "LAMBDA_RESPONSE_SIZE_LIMIT": INSIDE,
        "handle_checkpoint_error": INSIDE,
        "DurableExecutionInvocationInput": PORT,
        "DurableExecutionInvocationInputWithClient": PORT,
        "InitialExecutionState": PORT,
    },
    "concurrency.models": dict.fromkeys(["Branch", "BranchEvent", "BranchEventKind", "BranchStatus", "Executable"], INSIDE),
    "lambda_service": dict.fromkeys(
        [
            "CallbackDetails",
            "CallbackOptions",
            "ChainedInvokeDetails",
            "ChainedInvokeOptions",
            "CheckpointOutput",
            "CheckpointUpdatedExecutionState",
            "ContextDetails",
            "ContextOptions",
            "DurableExecutionInvocationOutput",
            "DurableServiceClient",
            "ExecutionDetails",
            "LambdaClient",
            "Operation",
            "OperationPayload",
            "OperationUpdate",
            "ReplayChildren",
            "StateOutput",
            "StepDetails",
            "StepOptions",
            "TimeoutSeconds",
            "TimestampConverter",
            "WaitDetails",
            "WaitOptions",
        ],
        PORT,
    ),
}

# Names ours defines on top. Kept short: an author may depend on each of these names and lose it on AWS.
ADDED: dict[str, set[str]] = {
    "context": {"AsyncDurableContext"},
    "exceptions": {"wire_name"},
    "execution": {"DurableFunction", "succeeded"},
    "logger": {"HasExecutionArn", "HasIdentity"},
}

# Fields ours has on top, keyword-only and with a default.
ADDED_FIELDS: dict[str, set[str]] = {"StepConfig": {"timeout"}, "InvokeConfig": {"cascade"}}

# Methods of the official classes that ours lack or take otherwise, each with its reason. The SDK makes these objects, no author does.
OTHERWISE: dict[str, dict[str, str]] = {
    "Callback": {"__init__": INSIDE},
    "DurableContext": {
        "__init__": INSIDE,
        "create_child_context": INSIDE,
        "from_lambda_context": INSIDE,
        "is_virtual": INSIDE,
    },
}


def module_pair(name: str) -> tuple[ModuleType, ModuleType]:
    return importlib.import_module(f"{OURS}.{name}"), importlib.import_module(f"{OFFICIAL}.{name}")


def defined(module: ModuleType) -> set[str]:
    """The public names a module's own text defines; type variables and loggers are not part of the interface."""
    names: set[str] = set()
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                names.add(node.name)
            case ast.Assign():
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case _:
                pass
    return {n for n in names if not n.startswith("_") and not isinstance(getattr(module, n), TypeVar | ParamSpec | logging.Logger)}


def shared(kind: type) -> list[Any]:
    """Every name both sides have that is of this kind, as (ours, official)."""
    return [
        pytest.param(getattr(ours, public), getattr(official, public), id=f"{name}.{public}")
        for name in MODULES
        for ours, official in [module_pair(name)]
        for public in sorted(defined(official))
        if hasattr(ours, public) and isinstance(getattr(official, public), kind)
    ]


def plain(default: object) -> object:
    """A default as text, so that values of two packages can be compared; of a function only that it is one, of an object its class."""
    if type(default).__repr__ is object.__repr__:
        return type(default).__name__
    return "a function" if isinstance(default, FunctionType) else repr(default)


def parameters(function: Any) -> list[tuple[str, Any, object]]:
    """Name, kind and default of each parameter."""
    return [(p.name, p.kind, plain(p.default)) for p in inspect.signature(function).parameters.values()]


def same_parameters(ours: Any, official: Any) -> bool:
    """Ours may have more of them, if they are keyword-only and have a default."""
    theirs = inspect.signature(official).parameters
    found = inspect.signature(ours).parameters.values()
    added = {p.name for p in found if p.name not in theirs and p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
    return [p for p in parameters(ours) if p[0] not in added] == parameters(official)


def methods(cls: type) -> dict[str, Any]:
    """The public methods and properties the official package itself gave this class, and its constructor."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith(OFFICIAL):
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_") or name == "__init__"}
    return {n: m for n, m in found.items() if isinstance(m, FunctionType | classmethod | staticmethod | property)}  # not fields


@pytest.mark.parametrize("name", MODULES)
def test_only_the_listed_names_are_missing(name: str) -> None:
    ours, official = module_pair(name)
    assert {n for n in defined(official) if not hasattr(ours, n)} == set(MISSING.get(name, {}))


def test_the_package_itself_has_the_same_names() -> None:
    ours, official = importlib.import_module(OURS), importlib.import_module(OFFICIAL)
    assert set(official.__all__) - set(ours.__all__) == {"__version__"}
    assert set(ours.__all__) - set(official.__all__) == {"AsyncDurableContext"}


@pytest.mark.parametrize("name", MODULES)
def test_only_the_listed_names_are_added(name: str) -> None:
    ours, official = module_pair(name)
    assert {n for n in defined(ours) if not hasattr(official, n)} == ADDED.get(name, set())


@pytest.mark.parametrize("ours, official", shared(FunctionType))
def test_functions_take_the_same_arguments(ours: Any, official: Any) -> None:
    assert same_parameters(ours, official), (inspect.signature(ours), inspect.signature(official))


@pytest.mark.parametrize("ours, official", shared(type))
def test_classes_have_the_same_methods(ours: type, official: type) -> None:
    for name, theirs in methods(official).items():
        if name in OTHERWISE.get(official.__name__, {}) and official.__module__.endswith(".context"):
            assert name == "__init__" or not hasattr(ours, name), "it has arrived: take it off"
            continue
        if name == "__init__":
            assert same_parameters(ours, official), "the constructor"
            continue
        assert type(inspect.getattr_static(ours, name)) is type(theirs), name
        if not isinstance(theirs, property):
            assert same_parameters(getattr(ours, name), getattr(official, name)), name


@pytest.mark.parametrize("name", sorted(methods(importlib.import_module(f"{OFFICIAL}.context").DurableContext)))
def test_both_colours_take_the_same_arguments(name: str) -> None:
    ours = importlib.import_module(f"{OURS}.context")
    if name not in OTHERWISE["DurableContext"]:
        assert parameters(getattr(ours.AsyncDurableContext, name)) == parameters(getattr(ours.DurableContext, name))


@pytest.mark.parametrize("ours, official", [p for p in shared(type) if dataclasses.is_dataclass(p.values[1])])
def test_dataclasses_have_the_same_fields(ours: Any, official: Any) -> None:
    def fields(cls: Any) -> list[tuple[str, object, object]]:
        added = ADDED_FIELDS.get(cls.__name__, set()) if cls is ours else set()
        found = [f for f in dataclasses.fields(cls) if f.name not in added]
        return [
            (f.name, f.kw_only, repr(f.default_factory()) if f.default_factory is not dataclasses.MISSING else plain(f.default))
            for f in found
        ]

    assert fields(ours) == fields(official)
    for name in ADDED_FIELDS.get(ours.__name__, set()):
        (field,) = [f for f in dataclasses.fields(ours) if f.name == name]
        assert field.kw_only
        assert field.default is not dataclasses.MISSING, "a handler that knows nothing of it must not need it"
    assert ours.__dataclass_params__.frozen == official.__dataclass_params__.frozen


@pytest.mark.parametrize("ours, official", shared(enum.EnumType))
def test_enumerations_have_the_same_members(ours: Any, official: Any) -> None:
    assert {m.name: m.value for m in ours} == {m.name: m.value for m in official}


@pytest.mark.parametrize("ours, official", [p for p in shared(type) if issubclass(p.values[1], BaseException)])
def test_an_except_clause_catches_the_same(ours: type, official: type) -> None:
    assert {base.__name__ for base in official.__mro__} <= {base.__name__ for base in ours.__mro__}
    assert issubclass(ours, Exception) == issubclass(official, Exception)


@pytest.mark.parametrize("ours, official", [p for p in shared(type) if hasattr(p.values[1], "__orig_bases__")])
def test_generic_classes_take_as_many_types(ours: Any, official: Any) -> None:
    def types(cls: Any) -> int:
        return max((len(get_args(base)) for base in cls.__orig_bases__ if get_origin(base)), default=0)

    assert types(ours) == types(official)


@pytest.mark.parametrize(
    "signature, same",
    [
        ("a, b=1", True),
        ("a, b=1, *, c=2", True),
        ("a, b=2", False),
        ("a", False),
        ("b=1, *, a", False),
        ("a, b=1, c=2", False),
        ("a, b=1, *, c", False),
    ],
)
def test_the_comparison_can_fail(signature: str, same: bool) -> None:
    def official(a: object, b: int = 1) -> None: ...

    assert same_parameters(eval(f"lambda {signature}: None"), official) is same
