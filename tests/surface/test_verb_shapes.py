"""Like verbs return like things: the table of the reference holds for the annotations of all public verbs."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.drawings.public_names import TWINS, methods, public, verb_owners
from tests.drawings.verb_shapes import SHAPES, Shape, annotation, verbs

ENGINES = ("OpenEngine", "OpenExecution")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.kind)
def test_the_verbs_of_one_kind_return_one_shape(shape: Shape) -> None:
    assert [f"{verb} -> {annotation(verb)}" for verb in shape.verbs if not re.fullmatch(shape.pattern, annotation(verb))] == []


def test_the_table_has_every_verb_once() -> None:
    listed = [verb for shape in SHAPES for verb in shape.verbs if not verb.endswith(".remaining")]
    assert sorted(listed) == sorted(verbs())


def test_a_change_returns_what_get_returns() -> None:
    changes = next(shape.verbs for shape in SHAPES if shape.kind.startswith("change of a schedule"))
    assert [verb for verb in changes if annotation(verb) != annotation(f"{verb.partition('.')[0]}.get")] == []


def test_a_verb_of_the_client_returns_what_the_engines_verb_returns() -> None:
    handles = {"get": "OpenExecution", "start": "OpenExecution"}
    of_engine = {name: f"{owner}.{name}" for owner in ENGINES for name in methods(verb_owners()[owner])}
    both = methods(verb_owners()["Client"]).keys() & of_engine.keys()
    assert {"list", "history", "stop", "cost", "release", "succeed_callback"} <= both
    for name in both:
        assert annotation(of_engine[name]) == handles.get(name, annotation(f"Client.{name}")), name


def test_no_public_verb_returns_a_tuple_or_a_mixture_of_types() -> None:
    told = {f"{owner}.{name}": annotation(f"{owner}.{name}") for owner, cls in verb_owners().items() for name in methods(cls)}
    assert [verb for verb, found in told.items() if "tuple[" in found or "|" in found.replace(" | None", "")] == []


@pytest.mark.parametrize("owner", ENGINES)
def test_the_blocking_verb_returns_what_the_async_verb_returns(owner: str) -> None:
    twin = methods(public()[TWINS[owner]].value)
    own = {name: method for name, method in twin.items() if inspect.unwrap(method) is not methods(verb_owners()[owner])[name]}
    assert sorted(own) == (["follow", "list"] if owner == "OpenEngine" else [])
    for name, method in own.items():
        assert method.__annotations__["return"] == annotation(f"{owner}.{name}")
