"""The list of public names is complete: a caller can import every error that is raised at it, and every type that it must give."""

from __future__ import annotations

from collections import Counter

from tests.drawings.argument_types import unnamed_types
from tests.drawings.public_names import public
from tests.drawings.raised_errors import error_classes, raised_errors
from tests.drawings.returned_types import member_types, returned_types


def test_every_error_that_a_public_docstring_names_is_a_public_name() -> None:
    shown = {name.value.__name__ for name in public().values()}
    raised = raised_errors()
    assert len(raised) > 40
    assert {name: by[:3] for name, by in raised.items() if name not in shown} == {}


def test_the_families_of_errors_are_public_names() -> None:
    assert {
        "HoldfastError",
        "Rejected",
        "Retryable",
        "Fatal",
        "Unsuccessful",
        "DurableExecutionsError",
    } <= public().keys() & error_classes()


def test_no_name_stands_for_two_things() -> None:
    returned = returned_types()
    names = [*public(), *(kind.__name__ for kind in (*returned, *member_types(returned)))]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_a_caller_can_make_or_get_every_argument_of_a_public_name() -> None:
    assert unnamed_types() == {}
