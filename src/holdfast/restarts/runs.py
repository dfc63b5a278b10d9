"""Plans and starts restarts of runs, with a worker service or with only a store.

`prepare` finds the run, checks that it may be restarted, chooses the graph, finds the nodes that run again, and returns the plan; it writes
nothing. `restart_run` and `restart_in_store` start the new run. They do not ask for an agreement: a caller that wants one shows the plan
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.checking import told_of
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RunLimits
from holdfast.costs.estimates import Estimates, without_workers
from holdfast.descriptions.pipeline_view import pipeline_view
from holdfast.engine.restarts import check_restartable, restarted
from holdfast.hosts.evaluator.schema_check import problems_now
from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, LimitReached
from holdfast.model.execution import Execution, ExecutionStatus, GraphText
from holdfast.model.history import KIND
from holdfast.model.ids import IdSource, new_span_id
from holdfast.model.operations import Kind
from holdfast.model.restart_errors import RestartRefused
from holdfast.model.starts import Restart, Start, Started
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.estimate.amounts import UNKNOWN, Amount
from holdfast.pipelines.estimate.estimate import Begun, rest_of
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.pipelines.graph.structure import structure_of
from holdfast.pipelines.restart.forerunners import Forerunners
from holdfast.pipelines.restart.restart_plan import NodePlan, RestartPlan, below, check_names, planned
from holdfast.pipelines.run.served_pipeline import PACKAGE, ServedPipeline
from holdfast.store.one_write import write_one
from holdfast.store.seam import CommitStore, ExecutionStore, Filter
from holdfast.workers import accept
from holdfast.workers.accepted_request import AcceptedRequest, RunRestart
from holdfast.workers.earlier_runs import check_kept, earlier_run
from holdfast.workers.run_lookup import Caller, find_run, response_of
from holdfast.workers.service import WorkerService

_PAGE: Final = 500
_MOST_BELOW: Final = 100_000
"""If a run has more runs below it than this, it cannot be restarted."""


class RestartAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for: a retry, or a restart. A restart is from certain nodes, or with other inputs, or both."""

    nodes: tuple[str, ...] = ()
    """The nodes that run again, together with all nodes after them."""
    inputs: dict[str, Any] | None = None
    """The inputs of the new run; None: those of the earlier run."""
    resend: tuple[str, ...] = ()
    """Of the nodes that run again: those that make their writes again. For any other node, a write that an earlier run made is not made
    again."""
    is_retry: bool = False
    """Whether it is a retry. In a retry, the parts of the run that failed are run again."""


RETRY = RestartAsked(is_retry=True)


def restart_asked(
    nodes: str | Sequence[str] = (), inputs: Mapping[str, Any] | None = None, resend: str | Sequence[str] = ()
) -> RestartAsked:
    """What a caller asks for, from the caller's arguments. Without arguments it is a retry."""
    return RestartAsked(
        nodes=(nodes,) if isinstance(nodes, str) else tuple(nodes),
        inputs=None if inputs is None else dict(inputs),
        resend=(resend,) if isinstance(resend, str) else tuple(resend),
        is_retry=not nodes and inputs is None and not resend,
    )


class PreparedRestart(msgspec.Struct, frozen=True, kw_only=True):
    """A restart that may begin: the earlier run, the request of the new run, and the plan."""

    header: Execution
    """The header of the earlier run."""
    accepted: AcceptedRequest
    """The accepted request of the new run."""
    plan: RestartPlan
    kind: Kind
    graph: GraphText | None = None
    """The graph of the new run; None for a worker."""
    asked: RestartAsked

    @property
    def is_edited(self) -> bool:
        """Whether the caller gave inputs for the new run."""
        return self.asked.inputs is not None

    def write(self, identity: str, now: int, caller: Caller, **more: Any) -> Start:
        """The write that starts the new run with the id `identity`. `more` has further arguments of `engine.restarts.restarted`."""
        request, again = self.accepted.request, self.accepted.again
        assert again is not None
        return restarted(
            self.header,
            identity,
            now,
            payload=msgspec.json.encode(self.accepted).decode(),
            restart=Restart(self.header.id),
            kind=self.kind,
            graph=self.graph,
            same=None if request.idempotency_key is None else codec.dumps(request.inputs),
            notes=caller.did("retry" if again.is_retry else "restart", self.header.id, self._noted(identity), now),
            **more,
        )

    def _noted(self, identity: str) -> str:
        """The text for the audit log: the id of the new run, and what the caller asked for. It has names of nodes, but no inputs."""
        parts = [f"as {identity}"]
        parts += ["with other inputs"] if self.is_edited else []
        parts += [f"sends again {', '.join(self.asked.resend)}"] if self.asked.resend else []
        parts += [f"from {', '.join(self.asked.nodes)}"] if self.asked.nodes else []
        return "; ".join(parts)


class _Ground(msgspec.Struct, frozen=True, kw_only=True):
    """The code with which the new run will run."""

    graph: Graph | None
    """The graph of the pipeline; None for a worker."""
    text: GraphText | None
    """The text of `graph`; None for a worker."""
    package: str
    """The id of the code that runs, as in `AcceptedRequest.package`."""
    version: str
    limits: RunLimits
    log_fields: tuple[str, ...]
    packages: Mapping[str, tuple[str, str]] = {}
    """The version and the package of each worker that is served, by its id."""


def prepare(
    store: ExecutionStore, run_id: str, caller: Caller, asked: RestartAsked, service: WorkerService | None = None
) -> PreparedRestart:
    """Check a restart and plan it. Nothing is written. With a worker service the new run gets the code that is served now. Without one, it
    gets the graph of the earlier run, and the runner that claims it decides which code of the workers runs. Raises ExecutionNotFound if the
    caller can see no such run, and NodeNotFound if the pipeline has no such node. Raises RestartRefused, InvalidParameter or InvalidRequest
    if the restart is not allowed."""
    header, accepted = find_run(store, run_id, caller)
    check_restartable(header)
    _check_asked(store, header, accepted, asked)
    ground = _stored(store, header, accepted) if service is None else _served(service, accepted)
    first = store.history(header.id, 0, 1)[0].event
    kind = Kind((first.detail or {}).get(KIND, Kind.WORKER.value))
    forced = _forced(ground.graph, accepted, asked)
    inputs = accepted.request.inputs if asked.inputs is None else asked.inputs
    again = _again(store, header, accepted, asked, forced)
    made = msgspec.structs.replace(
        accepted,
        request=msgspec.structs.replace(accepted.request, inputs=inputs),
        version=ground.version,
        limits=ground.limits,
        package=ground.package,
        requested_by=caller.principal,
        link=accepted.link + 1,
        before=(*accepted.before, header.id),
        span_id=new_span_id(),
        log_fields=ground.log_fields,
        again=again,
    )
    plan = RestartPlan(run_id=header.id, worker_id=header.function, inherits=len(made.before))
    if ground.graph is not None:
        found = [earlier_run(store, one, accepted.tenant) for one in reversed(made.before)]
        forerunners = Forerunners(made, [run for run in found if run is not None])
        view = pipeline_view(store, header, accepted)
        costs = {} if view is None else {name: cost.cost_usd for name, cost in view.costs.items()}
        both = (accepted.request.inputs, inputs)
        nodes = planned(ground.graph, forerunners, asked.nodes, forced, both, costs, ground.packages.get)
        most = _most(without_workers() if service is None else service.estimates, ground.graph, nodes, made)
        plan = msgspec.structs.replace(plan, nodes=nodes, may_cost_usd=most.cost_usd, may_use_tokens=most.tokens)
    return PreparedRestart(header=header, accepted=made, plan=plan, kind=kind, graph=ground.text, asked=asked)


def _most(estimates: object, graph: Graph, nodes: Sequence[NodePlan], accepted: AcceptedRequest) -> Amount:
    """The most that the new run can cost. Nodes that are reused cost nothing. The result is UNKNOWN if `estimates` is not an `Estimates`.
    For a restart without a worker service, the amount comes only from the limits of the run and of its nodes."""
    if not isinstance(estimates, Estimates):
        return UNKNOWN
    states = {one.node: "ok" for one in nodes if one.what == "reused"}
    begun = Begun(states=states, spent={}, inputs=accepted.request.inputs, limits=accepted.limits)
    return rest_of(graph, begun, estimates.known_workers).most


def _check_asked(store: ExecutionStore, header: Execution, accepted: AcceptedRequest, asked: RestartAsked) -> None:
    _check_children(store, header)
    check_kept(store, (*accepted.before, header.id), accepted.tenant)
    response = response_of(store, header, accepted)
    if asked.is_retry and response.status is ResponseStatus.OK and not response.observability.partial:
        raise RestartRefused(f"Run {header.id} succeeded, so there is nothing to retry. Restart it with other inputs, or from a node.")
    if not asked.is_retry and not asked.nodes and asked.inputs is None:
        raise InvalidParameter("A restart needs a node to begin from, or other inputs. Name a node, give inputs, or ask for a retry.")
    if not accepted.package.startswith(PACKAGE) and (asked.nodes or asked.resend):
        raise RestartRefused(
            f"Run {header.id} is a run of a worker, which has no nodes. Restart it with other inputs, or, if it failed, retry it."
        )


def _check_children(store: ExecutionStore, header: Execution) -> None:
    """Raise RestartRefused if a run below this one is still open, or if there are too many runs below it. A stop or a timeout of this run
    may leave an open run below it, at any depth; what that run writes must be known before the restart writes more."""
    above, seen = [header], 0
    while above:
        parent, beyond = above.pop(), None
        while page := store.list(Filter(parent=parent.id, oldest_first=True, beyond=beyond, limit=_PAGE)):
            seen += len(page)
            for child in page:
                if child.status is ExecutionStatus.RUNNING:
                    told = f"Run {child.id} of {child.function}, which run {parent.id} asked for, has not ended yet. Try again when it has."
                    raise RestartRefused(told)
            if seen > _MOST_BELOW:
                raise RestartRefused(f"Run {header.id} has more than {_MOST_BELOW:,} runs below it, which is more than a restart checks.")
            above += [one for one in page if one.graph is not None or one.function == parent.function]  # pipelines, and shards of maps
            beyond = page[-1].id


def _stored(store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> _Ground:
    text = None if header.graph is None else store.graph(header.graph)
    return _Ground(
        graph=None if text is None else graph_from(text),
        text=None if text is None or header.graph is None else GraphText(header.graph, text),
        package=accepted.package,
        version=accepted.version,
        limits=accepted.limits,
        log_fields=accepted.log_fields,
    )


def _served(service: WorkerService, accepted: AcceptedRequest) -> _Ground:
    served = accept.served_version(dict(service.served.get(accepted.request.worker_id, {})) or None, accepted.request)
    contract = served.worker.contract
    latest = {worker: list(versions.values())[-1] for worker, versions in service.served.items()}
    return _Ground(
        graph=served.graph if isinstance(served, ServedPipeline) else None,
        text=served.graph_text,
        package=served.package,
        version=contract.version,
        limits=accept.limits_of(accepted.request, contract),
        log_fields=contract.log_fields,
        packages={worker: (one.worker.contract.version, one.package) for worker, one in latest.items()},
    )


def _forced(graph: Graph | None, accepted: AcceptedRequest, asked: RestartAsked) -> tuple[str, ...]:
    """The nodes that must run again, even if they succeeded: those that the caller names, and all nodes after them. Empty for a worker.
    Raises NodeNotFound for an unknown node, and RestartRefused if a node of `resend` is not among these nodes."""
    if graph is None:
        return ()
    check_names(graph, "--from", asked.nodes)
    check_names(graph, "--resend", asked.resend)
    forced = below(structure_of(graph), asked.nodes)
    for name in asked.resend:
        if name not in forced:
            raise RestartRefused(
                f"{name} cannot be in `resend`, because neither it nor a node before it is named to run again. "
                "Name one of them (in a program in `nodes`, on the command line with --from)."
            )
    return forced


def _again(store: ExecutionStore, header: Execution, accepted: AcceptedRequest, asked: RestartAsked, forced: Sequence[str]) -> RunRestart:
    ended_well = response_of(store, header, accepted).status is ResponseStatus.OK
    kept = ended_well or (accepted.again is not None and accepted.again.kept)
    return RunRestart(of=header.id, nodes=tuple(forced), resend=asked.resend, is_retry=asked.is_retry, kept=kept)


# --- with workers


async def restart_run(service: WorkerService, run_id: str, caller: Caller, asked: RestartAsked) -> tuple[Execution, AcceptedRequest]:
    """Restart a run with the code that is served now. Returns the header and the accepted request of the new run. Raises ExecutionNotFound
    if the caller can see no such run, NodeNotFound if the pipeline has no such node, RestartRefused or InvalidParameter if the restart is
    not allowed, and InvalidRequest if the inputs do not fit or a limit is reached."""
    store, engine = service.engine.store, service.engine
    prepared = await in_thread(Purpose.STORE, prepare, store, run_id, caller, asked, service)
    accepted = prepared.accepted
    served = accept.served_version(dict(service.served[accepted.request.worker_id]), accepted.request)
    contract = served.worker.contract
    if service.estimates is not None and service.estimates.refuses:
        await in_thread(Purpose.STORE, service.estimates.check, served, accepted, engine.clock.now())
    await accept.checked_inputs(accepted.request, contract, accepted.tenant, service.artifacts)
    rate = None if prepared.header.place is not None else accept.rate_of(service.policy, contract)
    charges = accept.charges_of(accepted, service.policy, rate, engine.clock.now())
    terms = accept.terms_of(accepted.limits, prepared.kind, service.retention_days)
    try:
        header = await engine.restart(lambda identity, now: prepared.write(identity, now, caller, charges=charges, terms=terms))
    except LimitReached as limit:
        refused = accept.refusal_of(accepted.request, limit, contract, engine.clock.now()).error
        assert refused is not None
        raise InvalidRequest(refused.message, error_code=refused.error_code, details=refused.details) from None
    return header, accepted


# --- with a store alone


def restart_in_store(store: CommitStore, prepared: PreparedRestart, caller: Caller, clock: Clock, ids: IdSource) -> Execution:
    """Write the start of a prepared restart. A runner that serves the worker or the pipeline claims the new run. Raises InvalidRequest if
    new inputs of a pipeline do not fit, and ExecutionAlreadyStarted if the run was restarted after it was prepared."""
    now = clock.now()
    _check_inputs(prepared)
    return written(store, prepared.write(ids(now), now, caller), now)


def written(store: CommitStore, start: Start, now: int) -> Execution:
    """Write the start of a restart, and return the header of the new execution. If the store refuses it, its error is raised."""
    answer = write_one(store, start, now)
    assert isinstance(answer, Started)
    return answer.header


def _check_inputs(prepared: PreparedRestart) -> None:
    """Check new inputs of a pipeline with the contract in its graph. Raises InvalidRequest if they do not fit. The inputs of a worker are
    not checked here: the runner checks them before the worker's body begins."""
    accepted = prepared.accepted
    if prepared.graph is None or not prepared.is_edited:
        return
    contract = contract_in(graph_from(prepared.graph.text))
    problems = problems_now(contract.input_schema, accepted.request.inputs, f"{accepted.tenant}/{contract.worker_id}")
    if problems:
        raise InvalidRequest(f"The inputs do not fit: {told_of(problems)}.", details=problems)
