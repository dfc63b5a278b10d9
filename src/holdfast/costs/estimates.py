"""Estimates of runs: what a run of a served worker or pipeline may cost, what the rest of a run may cost, and whether a run may begin.

With `policy.estimate` the operator chooses the estimate by which runs are refused before they start: the most that a run can cost
(`worst`), or what such runs usually cost (`typical`). With `none` no run is refused. The estimate is compared with the caller's cap for the
run, and with what is left today of the tenant's daily limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import Response
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract, RunLimits
from holdfast.costs.reports import CostStore, dollars
from holdfast.descriptions.pipeline_view import PipelineView, pipeline_view
from holdfast.model.admission import MOST_MONEY
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.ledger import NANO, CostSample
from holdfast.pipelines.estimate.amounts import NOTHING, Amount
from holdfast.pipelines.estimate.estimate import Begun, Estimate, NodeEstimate, estimate, rest_of, usual_of_runs
from holdfast.pipelines.estimate.worst import Gap, worker_most
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.workers.accept import ServedVersion
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import Approval
from holdfast.workers.day_usage import spent_today
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import accepted_in
from holdfast.workers.run_usage import Spending
from holdfast.workers.tools.language_model import ModelSettings

ServedVersions = Mapping[str, Mapping[str, ServedVersion]]
_TOLD_GAPS: Final = 3
_FRESH_SECONDS: Final = 5.0
_MOST_READ: Final = 1000
_LEAST_TOLD: Final = 0.000001
UNKNOWN_AMOUNT: Final = "an unknown amount"
"""The words for an amount that is not known where the contracts of the workers are known: no limit bounds it."""
UNKNOWN_HERE: Final = "unknown here"
"""The words for an amount that is not known where the contracts of the workers are not known: a server of the workers may know it."""


class ServedKnownWorkers:
    """The contracts, graphs and prices of the workers that are served, for estimates."""

    def __init__(self, served: ServedVersions, model: ModelSettings) -> None:
        self._served = served
        self._model = model

    def find(self, worker_id: str, version: str | None) -> ServedVersion | None:
        """The named version of a worker or pipeline; if no version is named, the one that was added last. None if it is not served."""
        versions = self._served.get(worker_id)
        if not versions:
            return None
        return list(versions.values())[-1] if version is None else versions.get(version)

    def contract(self, worker_id: str, version: str | None) -> Contract | None:
        """The contract of a worker or a pipeline; None if it is not served."""
        found = self.find(worker_id, version)
        return None if found is None else found.worker.contract

    def graph(self, worker_id: str, version: str | None) -> Graph | None:
        """The graph of a pipeline; None if no such pipeline is served."""
        found = self.find(worker_id, version)
        return found.graph if isinstance(found, ServedPipeline) else None

    def dearest(self) -> Decimal | None:
        """The highest price of one token, in dollars, among the models that the operator allows; None if the price of one of them is not
        known."""
        prices = [self._model.price_of(model) for model in {self._model.model, *self._model.models}]
        known = [price.dearest for price in prices if price is not None]
        return max(known) if len(known) == len(prices) else None


class Estimates:
    """The estimates of one worker service."""

    def __init__(self, served: ServedVersions, model: ModelSettings, policy: Policy) -> None:
        self.known_workers = ServedKnownWorkers(served, model)
        self._policy = policy
        self.store: CostStore | None = None
        """The store with the past runs; None until an engine is attached."""
        self._read: dict[tuple[str, str, str | None], tuple[float | None, Sequence[CostSample]]] = {}

    @property
    def refuses(self) -> bool:
        """Whether runs may be refused because of their estimate."""
        return self._policy.estimate != "none"

    def of(
        self,
        worker_id: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        limits: RunLimits | None = None,
        tenant: str | None = None,
    ) -> Estimate:
        """What a run costs at most, and usually. The usual cost is that of past runs of `tenant`; without a tenant, of all tenants. For a
        worker, only runs that no pipeline asked for are used. `limits` are those of the run; None: those of the contract. Raises
        InvalidParameter if the worker is not served."""
        found = self.known_workers.find(worker_id, version)
        if found is None:
            raise InvalidParameter(f"No worker {worker_id!r:.100} is served here.")
        contract = found.worker.contract
        limits = limits or contract.limits
        if isinstance(found, ServedPipeline):
            return estimate(found.graph, inputs, self.known_workers, samples=partial(self._samples, tenant=tenant), limits=limits)
        most, why = worker_most(worker_id, limits, self.known_workers)
        gaps = () if why is None else (Gap(worker_id, why),)
        usual = usual_of_runs(self._samples(worker_id, "worker", tenant=tenant))
        p50, p95 = (None, None) if usual is None else (usual.p50.at_most(most), usual.p95.at_most(most))
        node = NodeEstimate(node=worker_id, kind="worker", most=most, usual=usual)
        return Estimate(worker_id=worker_id, version=contract.version, most=most, p50=p50, p95=p95, nodes=(node,), gaps=gaps)

    def _samples(self, name: str, kind: str = "pipeline", *, tenant: str | None) -> Sequence[CostSample]:
        """What past runs of a pipeline or worker spent. The answer is reused for a few seconds, because many runs may be accepted in that
        time."""
        if self.store is None:
            return ()
        key = (kind, name, tenant)
        at, found = self._read.get(key, (None, ()))
        if at is None or monotonic() - at > _FRESH_SECONDS:
            read = self.store.cost_samples_of_worker if kind == "worker" else self.store.cost_samples
            found = read(name, tenant)
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            self._read[key] = (monotonic(), found)
        return found

    # --- the rest of a run

    def rest(self, header: Execution, accepted: AcceptedRequest) -> Estimate | None:
        """What the rest of a pipeline's run costs at most, and usually; None for a run of a worker, and if the store does not have the
        graph."""
        assert self.store is not None
        view = pipeline_view(self.store, header, accepted)
        return None if view is None else self.rest_in(view, accepted)

    def rest_in(self, view: PipelineView, accepted: AcceptedRequest) -> Estimate:
        """What the rest of a pipeline's run costs at most, and usually, from the present states of its nodes."""
        begun = Begun(
            states={node_status.node: node_status.state for node_status in view.nodes},
            spent={node: Amount(cost.tokens, int(cost.cost_usd * NANO)) for node, cost in view.costs.items()},
            inputs=accepted.request.inputs,
            limits=accepted.limits,
        )
        return rest_of(view.graph, begun, self.known_workers, samples=partial(self._samples, tenant=accepted.tenant))

    def with_rest(self, approval: Approval) -> Approval:
        """The approval with `may_cost`: what the rest of the outermost run above the approval may cost. `may_cost` is None if that cannot
        be estimated. An approval with an empty `spent` does not name that run, and is returned unchanged."""
        return next(self.with_rests([approval]))

    def with_rests(self, approvals: Iterable[Approval]) -> Iterator[Approval]:
        """The approvals, each with `may_cost`, what the rest of its outermost run may cost (as in `with_rest`). A run that is the outermost
        one of several approvals is read once."""
        known: dict[str, dict[str, Any] | None] = {}
        for approval in approvals:
            outermost = approval.spent[-1].run_id if approval.spent else None
            if outermost is not None and outermost not in known:
                known[outermost] = self._brief_rest(outermost)
            yield approval if outermost is None else msgspec.structs.replace(approval, may_cost=known[outermost])

    def in_response(self, response: Response) -> Response:
        """The response, in which each approval that the run waits for has got `may_cost`: what the rest of the outermost run may cost; None
        if that cannot be estimated. An approval that does not say what was spent gets no `may_cost`. A response without approvals is
        returned unchanged."""
        known: dict[str, dict[str, Any] | None] = {}
        told = []
        for approval in response.approvals:
            for outermost in approval.get("spent", ())[-1:]:
                run_id = outermost["run_id"]
                known[run_id] = known[run_id] if run_id in known else self._brief_rest(run_id)
                approval = approval | {"may_cost": known[run_id]}
            told.append(approval)
        return msgspec.structs.replace(response, approvals=tuple(told)) if told else response

    def _brief_rest(self, run_id: str) -> dict[str, Any] | None:
        if self.store is None:
            return None
        try:
            header = self.store.find(run_id)
            accepted = None if header is None else accepted_in(self.store, header)
            if header is None or accepted is None:
                return None
            told = self.rest(header, accepted) or self._rest_of_worker(header, accepted)
        except HoldfastError:  # an error in the estimate must not hide the approval
            return None
        return told.brief()

    def _rest_of_worker(self, header: Execution, accepted: AcceptedRequest) -> Estimate:
        """What the rest of a worker's run costs at most: its limits, minus what it has used."""
        assert self.store is not None
        most, _ = worker_most(header.function, accepted.limits, self.known_workers)
        used = Spending(self.store).used(header)
        spent = Amount(used.tokens.input + used.tokens.output, int(used.cost_usd * NANO))
        return Estimate(worker_id=header.function, version=accepted.version, most=most.less(spent))

    # --- before a run begins

    def check(self, served: ServedVersion, accepted: AcceptedRequest, now: int) -> None:
        """Raise InvalidRequest (`estimate_exceeded`) if the estimate of a run is higher than one of its caps, or if the run has a cap and
        the estimate is not known. Call this method only if `refuses` is True. Caps are what the caller of the run allows for it, if that
        differs from the contract, and what is left today of the tenant's daily limits."""
        caps = self._caps(served, accepted, now)
        if not caps:
            return
        contract = served.worker.contract
        told = self.of(contract.worker_id, accepted.request.inputs, version=contract.version, tenant=accepted.tenant)
        counts = told.most if self._policy.estimate == "worst" else typical(told)
        for cap, of, what in caps:
            known = counts.nanos if what == "cost_usd" else counts.tokens
            if known is None or known > cap:
                raise InvalidRequest(self._refusal(told, known, cap, of, what), error_code="estimate_exceeded")

    def _caps(self, served: ServedVersion, accepted: AcceptedRequest, now: int) -> list[tuple[int, str, str]]:
        """The caps that a run is compared with: the amount (tokens, or billionths of a dollar), the words for an error, and `tokens` or
        `cost_usd`."""
        own, asked = served.worker.contract.limits, accepted.limits
        caps = []
        if asked.max_cost_usd is not None and asked.max_cost_usd != own.max_cost_usd:
            caps.append((int(asked.max_cost_usd * NANO), "the caller allows {}", "cost_usd"))
        if asked.max_tokens is not None and asked.max_tokens != own.max_tokens:
            caps.append((asked.max_tokens, "the caller allows {}", "tokens"))
        for spent in () if self.store is None else spent_today(self.store, self._policy, [accepted.tenant], now):
            if spent.what in ("cost_usd", "tokens"):
                left = int(spent.left * NANO) if spent.what == "cost_usd" else int(spent.left)
                caps.append((left, f"tenant {accepted.tenant} may use {{}} more today", spent.what))
        return caps

    def _refusal(self, told: Estimate, known: int | None, cap: int, of: str, what: str) -> str:
        allows = of.replace("{}", f"${dollars(cap)}" if what == "cost_usd" else f"{cap:,} tokens", 1)
        if known is None:
            why = "; ".join(f"{gap.node}: {gap.why}" for gap in told.gaps[:_TOLD_GAPS])
            return f"The most that the run can cost is not known ({why or 'no cap'}), and {allows} (policy.estimate)."
        amount = f"${dollars(known)}" if what == "cost_usd" else f"{known:,} tokens"
        return f"The run may cost {amount}, and {allows} (policy.estimate = {self._policy.estimate!r})."

    def money(self, served: ServedVersion, accepted: AcceptedRequest) -> int:
        """What a run usually costs (the estimate `typical`), in billionths of a dollar, at most MOST_MONEY; 0 if that is not known. It is
        for queues that limit the cost of their waiting executions (`most_waiting_usd`)."""
        contract = served.worker.contract
        told = self.of(
            contract.worker_id, accepted.request.inputs, version=contract.version, limits=accepted.limits, tenant=accepted.tenant
        )
        return min(typical(told).nanos or 0, MOST_MONEY)


def without_workers(store: CostStore | None = None) -> Estimates:
    """Estimates for a process that serves no workers. The usual cost comes from the past runs of `store`, if it is given, and the highest
    cost from the limits of the run and its nodes. Everything that needs contracts or prices is unknown."""
    made = Estimates({}, ModelSettings(), Policy())
    made.store = store
    return made


def rest_in_words(may_cost: Mapping[str, Any], unknown: str = UNKNOWN_AMOUNT) -> str:
    """What the rest of a run may cost (`Approval.may_cost`), in words: "at most $0.5, usually $0.1". `unknown` stands for an amount that is
    not known. If it is known that the rest asks no model, "nothing for models"."""
    if may_cost["most"]["cost_usd"] == 0:
        return "nothing for models"
    known = (("most", "at most"), ("p50", "usually"))
    return ", ".join(f"{words} {_dollars(may_cost[name], unknown)}" for name, words in known if may_cost.get(name))


def _dollars(amount: Mapping[str, Any], unknown: str) -> str:
    dollars = amount["cost_usd"]
    if dollars is None:
        return unknown
    return f"${dollars:,.6f}".rstrip("0").rstrip(".") if not 0 < dollars < _LEAST_TOLD else f"less than ${_LEAST_TOLD:f}"


def typical(told: Estimate) -> Amount:
    """What such runs usually cost: the sum over the nodes of the cost that 95 % of past runs did not exceed. For a node without past runs,
    the most that it can cost is added, or 0 if that is not known. The sum is at most the most that the run can cost.
    """
    total = NOTHING
    for node in told.nodes:
        amount = node.most if node.usual is None else node.usual.p95
        total += Amount(amount.tokens or 0, amount.nanos or 0)
    return total.at_most(told.most)
