"""Queues as code and the operator's file declare them: what they say, which of the two wins, and which mistakes are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import DurableContext, Limits, Queue, durable_execution
from holdfast.author_files.declared_beside import queues_beside
from holdfast.model.errors import InvalidParameter
from holdfast.operator.holdfast_toml import read_operator
from holdfast.queues.declarations import declared_together
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.store.backends import open_store

emails = Queue("emails", at_once=20, rates="100/m", per_tenant=Limits(at_once=5), ttl="1h", oldest=90)


@durable_execution
def send(event: Any, context: DurableContext) -> None:
    """A function beside a queue."""


def test_a_declaration_says_only_what_differs_from_the_defaults() -> None:
    assert emails.row().declared == {
        "limits": {"at_once": 20, "rates": ["100/m"]},
        "per_tenant": {"at_once": 5},
        "ttl_seconds": 3600,
        "oldest_seconds": 90,
    }
    assert Queue("plain").row().declared == {}


@pytest.mark.parametrize(
    "members, says",
    [
        ({"at_once": 0}, "at_once is 0"),
        ({"at_once": "5"}, "`at_once` is a text, and must be a whole number."),
        ({"rates": "often"}, "'often' is not a rate"),
        ({"rates": ["1/s", "2/m"]}, "limits one kind of unit twice"),
        ({"per_tenant": {"at_once": 2}}, "write it as Limits("),
        ({"waiting": "sleeps"}, "Invalid enum value 'sleeps'"),
        ({"ttl": "1 hour"}, "ttl is '1 hour'"),
        ({"ordered": True, "per_key": Limits(at_once=2)}, "An ordered queue runs one execution of a key at once"),
    ],
)
def test_a_mistake_is_told_with_the_queue_and_its_member(members: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParameter, match=rf"Queue 'emails': .*{re.escape(says)}"):
        Queue("emails", **members)


def test_a_name_that_is_no_name_of_a_queue_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="is not a name of a queue"):
        Queue("e mails")


def test_two_different_declarations_of_one_queue_are_refused_and_two_equal_ones_are_one() -> None:
    assert declared_together([Queue("a", at_once=1), Queue("a", at_once=1)], {}) == (Queue("a", at_once=1),)
    with pytest.raises(InvalidParameter, match="Queue a is declared twice"):
        declared_together([Queue("a", at_once=1), Queue("a")], {})
    with pytest.raises(InvalidParameter, match="'emails' is not a queue"):
        holdfast.open(":memory:", queues=["emails"])  # type: ignore[list-item]


def test_the_operators_file_wins_member_by_member(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('[queues.emails]\nat_once = 3\nper_tenant = { rates = "5/s" }\n[queues.other]\nordered = true\n')
    told = declared_together([emails], read_operator(file=file, environment={}).queues)
    assert [queue.row().declared for queue in told] == [
        {"limits": {"at_once": 3, "rates": ["100/m"]}, "per_tenant": {"rates": ["5/s"]}, "ttl_seconds": 3600, "oldest_seconds": 90},
        {"ordered": True},
    ]


@pytest.mark.parametrize(
    "text, says",
    [
        ("queues = 3", "queues is wrong"),
        ("[queues]\nemails = 3", "queues.emails is 3"),
        ("[queues.emails]\nat_onze = 3", "[queues.emails] has at_onze, which Holdfast does not know; it may have at_once, rates,"),
        (
            "[queues.emails.per_key]\nmost = 3",
            "[queues.emails.per_key] has most, which Holdfast does not know; it may have at_once, rates.",
        ),
        ("[queues.emails]\nper_key = 3", "per_key is 3; write a table"),
        ('[queues."a b"]\nat_once = 3', "is not a name of a queue"),
        ("[queues.emails]\nat_once = -1", "at_once is -1"),
        ('[queues.emails]\nat_once = "many"', "The settings of a queue are not right: `at_once` is a text, and must be a whole number."),
        ("[queues.emails]\nat_onc = 3", "Did you mean `at_once`?"),
    ],
)
def test_a_mistake_in_the_operators_file_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    with pytest.raises(InvalidParameter, match=re.escape(says)) as refused:
        read_operator(file=file, environment={})
    assert str(refused.value).startswith(str(file))


def test_an_engine_declares_its_queues_in_the_store_and_the_operators_settings_stay(tmp_path: Path) -> None:
    where = str(tmp_path / "shop.db")
    operators = WorkerSettings(queues={"emails": {"at_once": 7}})
    with holdfast.open(where, functions=[send], queues=[emails], worker_settings=operators):
        pass
    store = open_store(where, "tester", None)
    try:
        row = store.queue("emails")
        assert row is not None
        assert row.settings().limits == Limits(at_once=7, rates=("100/m",))
    finally:
        store.close()


def test_the_queues_of_a_module_are_found_beside_its_functions_each_once() -> None:
    assert queues_beside([send, send]) == (emails,)
