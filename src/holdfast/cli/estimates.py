"""What a run may cost, as `holdfast cost FILE` and `holdfast run --estimate` print it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.arguments import StorePlace
from holdfast.cli.named_worker import meant_worker
from holdfast.cli.terminal import print_document, print_table, printable, say
from holdfast.model.errors import InvalidParameter

if TYPE_CHECKING:
    from holdfast.pipelines.estimate.amounts import Amount
    from holdfast.pipelines.estimate.estimate import Estimate
    from holdfast.service.runtimes.worker_runtime import WorkerSettings


class Estimated(msgspec.Struct, frozen=True):
    """The options of an estimate. No worker runs: a pipeline of the file is built in the sandbox, and the costs of past runs are read from
    the store."""

    file: Path
    worker: str | None
    inputs: Any
    place: StorePlace
    config: Path | None = None
    isolation: str | None = None
    trust: bool = False

    def show(self, *, json_output: bool) -> None:
        """Print the estimate. Raises InvalidParameter if `inputs` is neither None nor a JSON object."""
        from holdfast.cli.consent import Consent, operators_settings

        if self.inputs is not None and not isinstance(self.inputs, dict):
            raise InvalidParameter("--input of a worker must be a JSON object: its inputs by name.")
        settings, _ = operators_settings(self.isolation, self.config, Consent(trust=self.trust))
        told = asyncio.run(self._told(settings))
        if json_output:
            print_document(told.document())
        else:
            _print_estimate(told)

    async def _told(self, settings: WorkerSettings) -> Estimate:
        """Make the estimate. No worker and no tool runs, so the user need not trust the folder of the file or the folder of the store."""
        from holdfast.service.engines import open as open_engine

        opening = open_engine(self.place.where, workers=[self.file], worker_settings=settings, codec=self.place.codec())
        opening.declares = False
        assert opening.runtime is not None
        opening.runtime.chosen = ()  # nothing is run here
        opening.runtime.admits = lambda worker, tool: "An estimate runs no tool."
        async with opening as engine:
            return await engine.estimate(self.worker or meant_worker(engine.worker_service.served, self.file), self.inputs)


def money_of(nanos: int | None) -> str:
    """An amount in billionths of a dollar as a text, such as `$0.0125`; `unknown` for None."""
    from holdfast.costs.reports import dollars

    return "unknown" if nanos is None else f"${dollars(nanos)}"


def _print_estimate(told: Estimate) -> None:
    """Print the estimate as a table, then what is unknown, and where a person may allow another try."""
    rows = []
    for node in told.nodes:
        usual = node.usual
        p50, p95, count = ("-", "-", "-") if usual is None else (_amount(usual.p50), _amount(usual.p95), f"{usual.samples:,}")
        rows.append((node.node, node.kind, f"{node.runs:,}", _amount(node.most), p50, p95, count))
    told_of = (_amount(told.most), "-" if told.p50 is None else _amount(told.p50), "-" if told.p95 is None else _amount(told.p95))
    rows.append(("all", "", "", *told_of, ""))
    print_table(("NODE", "KIND", "RUNS", "MOST", "P50", "P95", "SAMPLES"), rows, folds="NODE")
    for gap in told.gaps:
        say(f"unknown: {printable(gap.node)}: {printable(gap.why)}")
    for name in told.people:
        say(f"note: a person may let {printable(name)} try again, which costs the same amount again")


def _amount(amount: Amount) -> str:
    tokens = "unknown" if amount.tokens is None else f"{amount.tokens:,}"
    return f"{money_of(amount.nanos)} ({tokens} tokens)"
