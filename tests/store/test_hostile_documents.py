"""Hostile documents, by chance: any member of a good one, replaced by anything, comes in whole or not at all."""

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import holdfast
from holdfast import DurableContext, durable_execution
from holdfast.cli import show as shown
from holdfast.cli.arguments import StorePlace
from holdfast.durable.exceptions import StepError
from holdfast.model.errors import ExportInvalid, HoldfastError, PayloadNotJson
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from tests.unit.test_importing import DOCUMENT, STEP, closed


def test_whatever_is_broken_in_a_document_nothing_crashes_and_nothing_is_half_written(tmp_path: Path) -> None:
    """Any member, replaced by anything: it is refused in our words, or it is good and can be looked at in every way."""
    chance = random.Random(7)
    odd: list[Any] = [None, True, -1, 0, 1, 2**53, 2**70, 1.5, "", "x", "RUNNING", STEP, [], [1], {}, {"a": 1}, "\u0000", "x" * 1000]
    good = 0
    with Client.open(str(tmp_path / "odd.db"), create=True) as client:
        for _ in range(1_000):
            document = copy.deepcopy(DOCUMENT)
            if chance.random() < 0.3:
                closed(document)
            for _ in range(chance.choice([1, 1, 1, 2])):
                at, key = chance.choice(list(members(document)))
                if chance.random() < 0.1:
                    del at[key]
                else:
                    at[key] = chance.choice(odd)
            try:
                header = client.import_execution(document).header
            except ExportInvalid:
                assert list(client._store.list(Filter())) == []
                continue
            good += 1
            looked_at_in_every_way(client, header.id)
            with contextlib.suppress(HoldfastError):
                holdfast.replay(document, order)
            client._store._writer.execute("DELETE FROM executions")  # type: ignore[attr-defined]
            client._store._writer.execute("DELETE FROM operations")  # type: ignore[attr-defined]
            client._store._writer.execute("DELETE FROM events")  # type: ignore[attr-defined]
    assert good > 50, "some changes do no harm"


@durable_execution
def order(event: Any, context: DurableContext) -> Any:
    with contextlib.suppress(StepError):
        context.step(lambda _: 1, name="pay")
    return context.create_callback(name="approval").result()


def looked_at_in_every_way(client: Client, execution: str) -> None:
    place = StorePlace.of(None, None)
    with contextlib.suppress(PayloadNotJson):  # a result may be any text
        told, operations = client.describe(execution), client.operations(execution)
        shown.description_page(told, told.status, operations, place, 0)
        json.dumps(shown.description_json(told, operations))
    shown.history_table(client.history(execution))
    found = client.get(execution)
    shown.executions_table([(found, client.trouble(found))], 0)
    client.export(execution)


def members(document: Any) -> Any:
    """Every place in a document where something stands."""
    places = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in list(places):
        yield document, key
        yield from members(value)
