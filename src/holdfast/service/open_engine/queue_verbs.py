"""The methods of an open engine that enqueue: one or many executions of functions, workers and pipelines, and parked ones again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import Item, enqueue_of, indexed, of_input
from holdfast.model.audit import principal
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.ids import checked_version
from holdfast.model.queue_errors import QueueFull
from holdfast.queues.redrives import start_again
from holdfast.service.open_engine.open_execution import OpenExecution, input_text, mentioned

if TYPE_CHECKING:
    from holdfast.contract.protocol import WorkerRequest
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime
    from holdfast.workers.service import WorkerService


_T = TypeVar("_T")


class QueueVerbs:
    """The methods of an open engine that enqueue."""

    _engine: Engine
    _runtime: WorkerRuntime | None
    _functions: Mapping[tuple[str, str], DurableFunction]

    async def enqueue(
        self,
        target: str | DurableFunction,
        input: object = None,
        *,
        queue: str,
        key: str | None = None,
        idempotency_key: str | None = None,
        delay: float = 0.0,
        ttl: float | None = None,
        head_start: float = 0.0,
        units: int | None = None,
        same: str = "existing",
        version: int | str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        constraints: Mapping[str, Any] | None = None,
    ) -> OpenExecution:
        """Enqueue an execution of a function, or a run of a worker or of a pipeline. It begins when its queue admits it.

        `key` is the key of its lane: a queue can limit and order the executions of each key, and shares its slots fairly between keys.
        `same` says what a second enqueue with the same `idempotency_key` does: `"existing"` finds the first execution if its input and its
        version are the same, and raises `ExecutionAlreadyStarted` if not; `"replace"` stops the first one, if it is not closed, and
        enqueues a new one; `"refuse"` raises `ExecutionAlreadyStarted`. `delay` (before it enters the queue), `ttl` (how long it may wait)
        and `head_start` (its priority: it is treated as if it had been enqueued this much earlier; an ordered queue ignores it) are in
        seconds. `units` is its estimated number of tokens, for rates of tokens (None or 0: for a function 0; for a worker or pipeline its
        limit of tokens, or 0 if it has none). `user` and `constraints` are only for workers and pipelines. Raises `QueueFull` if the queue
        is full or is drained; then nothing is written. Raises `FunctionNotFound` if this engine has neither a function nor a worker nor a
        pipeline of this name. Raises `InvalidRequest` if the request does not fit the contract of a worker or pipeline."""
        asked = enqueue_of(queue, key=key, delay=delay, ttl=ttl, head_start=head_start, units=units, same=same)
        if isinstance(target, str) and (workers := self._workers_of(target)) is not None:
            request = _request(target, input, version, idempotency_key, user, constraints)
            return self._opened(await workers.enqueue(request, _caller(tenant), asked))
        called, wanted = _function(target, version, user, constraints)
        header = await self._engine.enqueue(called, input_text(input), asked, name=idempotency_key, tenant=tenant, version=wanted)
        return self._opened(header)

    async def enqueue_many(
        self,
        target: str | DurableFunction,
        inputs: Sequence[object],
        *,
        queue: str,
        key: str | None = None,
        idempotency_keys: Sequence[str] | None = None,
        delay: float = 0.0,
        ttl: float | None = None,
        head_start: float = 0.0,
        units: int | None = None,
        same: str = "existing",
        version: int | str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        constraints: Mapping[str, Any] | None = None,
    ) -> Sequence[OpenExecution]:
        """Enqueue many inputs of one function, worker or pipeline, a thousand in each commit. The other arguments are as in `enqueue`.

        All inputs are checked before the first commit: if one of them can never be enqueued, its error names its index, and nothing is
        written. If the store refuses an input (the queue is full, or `same` does not allow its idempotency key a second time), the other
        inputs of the same commit are still enqueued, no further commit is made, and a note of the error (`__notes__`) says how many inputs
        are enqueued. With `idempotency_keys`, one for each input, and the default of `same`, the caller can then repeat the whole call:
        inputs that are enqueued already are found, and not enqueued again.
        """
        keys: Sequence[str | None] = [None] * len(inputs) if idempotency_keys is None else idempotency_keys
        if len(keys) != len(inputs):
            raise InvalidParameter(f"There are {len(inputs)} inputs and {len(keys)} idempotency keys. Give one key for each input.")
        asked = enqueue_of(queue, key=key, delay=delay, ttl=ttl, head_start=head_start, units=units, same=same)
        if isinstance(target, str) and (workers := self._workers_of(target)) is not None:
            requests = _each(zip(inputs, keys, strict=True), lambda one, at: _request(target, one, version, at, user, constraints))
            return self._all_opened(await workers.enqueue_many(requests, _caller(tenant), asked), len(inputs))
        called, wanted = _function(target, version, user, constraints)
        items = _each(zip(inputs, keys, strict=True), lambda one, at: Item(input=input_text(one), name=at))
        done = await self._engine.enqueue_many(called, items, asked, tenant=tenant, version=wanted)
        return self._all_opened([one if isinstance(one, HoldfastError) else one.header for one in done], len(inputs))

    async def redrive(self, execution: str) -> OpenExecution:
        """Enqueue a parked execution or run again, under its name; `execution` is its ARN or id. The parked one stays, superseded by the
        new one. Raises `ExecutionNotFound` if there is none, `InvalidParameter` or `RestartRefused` if it may not be enqueued again, for
        example because it is not parked, and `QueueFull` if its queue accepts no more."""
        return self._opened(await self._engine.redrive(mentioned(self._engine.store, execution).id, start_again))

    def _workers_of(self, target: str) -> WorkerService | None:
        """The worker service, if it serves a worker or a pipeline with this id; else None."""
        service = None if self._runtime is None else self._runtime.worker_service
        return service if service is not None and target in service.served else None

    def _opened(self, header: Execution) -> OpenExecution:
        return OpenExecution(self._engine, header, self._functions)

    def _all_opened(self, done: Sequence[Execution | HoldfastError], wanted: int) -> list[OpenExecution]:
        enqueued = [one for one in done if not isinstance(one, HoldfastError)]
        for index, one in enumerate(done):
            if isinstance(one, HoldfastError):
                one.add_note(f"{len(enqueued)} of {wanted} inputs are enqueued.")
                raise one if isinstance(one, QueueFull) else of_input(one, index)
        return [self._opened(header) for header in enqueued]


def _each(inputs: Iterable[tuple[object, str | None]], make: Callable[[Any, str | None], _T]) -> list[_T]:
    """What `make` returns for each input and its idempotency key, in the order of the inputs. If `make` raises an error, the error names
    the index of the input."""
    made: list[_T] = []
    with indexed(made):
        for one, key in inputs:
            made.append(make(one, key))
    return made


def _caller(tenant: str | None) -> Any:
    from holdfast.workers.run_lookup import Caller

    return Caller(tenant=tenant or "default", principal=principal())


def _function(target: object, version: int | str | None, user: object, constraints: object) -> tuple[str, str | None]:
    """The name and the version of the function `target`. The version is None if `target` is a name and no version was given. Raises
    InvalidParameter if `target` is neither a function nor a name, or if `user` or `constraints` is given, which only workers and pipelines
    accept."""
    if user is not None or constraints is not None:
        raise InvalidParameter("`user` and `constraints` are for workers and pipelines, and this is a function. Leave them out.")
    wanted = None if version is None else checked_version(version)
    if isinstance(target, DurableFunction):
        return target.name, wanted or target.version
    if not isinstance(target, str):
        raise InvalidParameter(f"{target!r:.100} cannot be enqueued. Give a function, or the name of a function, worker or pipeline.")
    return target, wanted


def _request(
    worker: str, inputs: object, version: int | str | None, key: str | None, user: str | None, constraints: Mapping[str, Any] | None
) -> WorkerRequest:
    """The request to a worker. Raises InvalidRequest if its members are wrong. The inputs are checked later, with the contract."""
    from holdfast.contract.protocol import Response
    from holdfast.contract.refusals import InvalidRequest
    from holdfast.workers.accept import read_request

    document: dict[str, Any] = {"worker_id": worker, "inputs": {} if inputs is None else inputs}
    may = {"version": None if version is None else str(version), "idempotency_key": key, "user": user, "constraints": constraints}
    request = read_request(document | {name: value for name, value in may.items() if value is not None})
    if isinstance(request, Response):
        raise InvalidRequest("The request does not fit." if request.error is None else request.error.message)
    return request
