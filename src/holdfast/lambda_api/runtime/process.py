"""One warm process: it is started, asks for work, answers, and ends; its private listener is how it speaks.

    starting → idle ⇄ busy → returning → idle → … → dying → gone

Whatever ends it, a job that it had fails when nothing of the process is left, so nobody sees it write after it was told to be dead.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from holdfast.lambda_api.runtime import jobs, platform
from holdfast.lambda_api.runtime.description import Limits, Runtime
from holdfast.lambda_api.runtime.environment import command_of, environment_of, is_tried, wrapped
from holdfast.lambda_api.runtime.homes import make_home
from holdfast.lambda_api.runtime.interpreters import Interpreters
from holdfast.lambda_api.runtime.jobs import Job
from holdfast.lambda_api.runtime.listener import App, Listener
from holdfast.lambda_api.runtime.output import Log, Output, stream_of
from holdfast.lambda_api.runtime.spawning import Spawned
from holdfast.model.clock import Clock, monotonic
from holdfast.model.operations import Failure
from holdfast.model.threads import Purpose, in_thread

_RETURN_SECONDS: Final = 5.0
"""How long a runtime may take from its answer to its next question."""
_LOOK_SECONDS: Final = 0.1
"""How often the memory of a process is looked at that works."""


class Stage(Enum):
    """Where a process stands."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    RETURNING = "returning"
    DYING = "dying"
    GONE = "gone"


class Surroundings(Protocol):
    """What all processes of a host share."""

    @property
    def clock(self) -> Clock: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def log(self) -> Log | None: ...
    @property
    def interpreters(self) -> Interpreters: ...
    def app(self, process: RuntimeProcess) -> App:
        """What its listener serves."""
        ...


Ready = Callable[["RuntimeProcess"], None]
"""Told when a process waits for a job."""
Gone = Callable[["RuntimeProcess", Failure | None], None]
"""Told when nothing of a process is left. A failure means that it never came to ask: whoever waits for it hears why."""


class RuntimeProcess:
    """A process of one function version."""

    def __init__(self, runtime: Runtime, name: str, around: Surroundings, ready: Ready, gone: Gone) -> None:
        self.runtime = runtime
        self.stage = Stage.STARTING
        self.served = 0
        self.idle_since = 0.0
        self.invoking = 0
        """How many functions it has invoked and waits for."""
        self._ready = ready
        self._gone = gone
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._job: Job | None = None
        self._asked: asyncio.Future[tuple[Job, bytes]] | None = None
        self._asked_by: tuple[str, int] | None = None
        self._verdict: Failure | None = None
        self._exit_code: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looker: asyncio.TimerHandle | None = None
        self._is_out_of_memory = False
        self._began = monotonic()
        self._init_ms: float | None = None
        self._deadline = 0
        stream = stream_of(runtime.version, name, around.clock.now())
        self._output = Output(runtime, stream, around.clock.now, around.log)
        self._spawned: Spawned | None = None
        self._listener: Listener | None = None
        self._opening = self._loop.create_task(self._start(stream))

    @property
    def job(self) -> Job | None:
        """What it works on."""
        return self._job

    @property
    def tail(self) -> bytes:
        """The last of what it printed."""
        return self._output.tail()

    @property
    def deadline(self) -> int:
        """When its job must be over, in milliseconds of the wall clock."""
        return self._deadline

    # --- its life

    async def _start(self, stream: str) -> None:
        limits = self._around.limits
        try:
            listener = self._listener = Listener(self._around.app(self), self.hung_up, self._guard)
            await listener.open()
            command = await self._command()
            home = make_home()
            environment = environment_of(self.runtime, command, listener.address, stream, home)
            self._output.say(platform.beginning(self.runtime))
            self._spawned = Spawned(wrapped(self.runtime, command), environment, self.runtime.folder, home, self, limits.kill_seconds)
        except Exception as error:
            self._verdict = Failure(message=f"{self.runtime.function} could not be started: {error}", type=jobs.NOT_STARTED)
            self.gone()
            return
        if self.stage is Stage.DYING:
            self._spawned.kill()
        else:
            self._limit(limits.init_seconds)

    async def _command(self) -> tuple[str, ...]:
        interpreters = self._around.interpreters
        if is_tried(self.runtime, interpreters):
            return command_of(self.runtime, interpreters)
        return await in_thread(Purpose.HOUSE, command_of, self.runtime, interpreters)

    def _guard(self) -> int | None:
        return None if self._spawned is None else self._spawned.guard

    def printed(self, data: bytes) -> None:
        """It wrote something."""
        self._output.take(data)

    def logged(self, framed: bytes) -> None:
        """It logged something, in frames."""
        self._output.log(framed)

    def exited(self, code: int) -> None:
        """It ended by itself."""
        self._exit_code = code
        self._leave(Stage.DYING)

    def kill(self) -> None:
        """End it, and whatever it started."""
        if self.stage in (Stage.DYING, Stage.GONE):
            return
        self._leave(Stage.DYING)
        if self._spawned is not None:
            self._spawned.kill()

    def abandon(self) -> None:
        """End it; its job shall not hear of it."""
        self._job = None
        self.kill()

    def close_now(self) -> None:
        """The loop is about to end."""
        self._leave(Stage.GONE)
        self._opening.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._spawned is not None:
            self._spawned.close_now()

    def _leave(self, stage: Stage) -> None:
        """It goes. Its question stays open until it is gone: an answer would only make it complain, in its log, that it is ended."""
        self.stage = stage
        self._stop_timer()
        if stage is Stage.GONE and self._asked is not None and not self._asked.done():
            self._asked.cancel()

    def gone(self) -> None:
        """Nothing of it is left."""
        never_asked = self._init_ms is None
        self._leave(Stage.GONE)
        if self._listener is not None:
            self._listener.close()
        self._output.close()
        failure = self._verdict
        job, self._job = self._job, None
        if failure is None and (job is not None or (never_asked and self._exit_code is not None)):
            code = -signal.SIGKILL if self._exit_code is None else self._exit_code
            failure = Failure(message=jobs.exit_reason(code), type=jobs.EXITED)
        if job is not None:
            assert failure is not None
            self._finish(job, failure, None)
        if failure is not None and never_asked:
            took = (monotonic() - self._began) * 1000
            self._output.say(platform.not_begun(took, self._kind(failure)))
        self._gone(self, failure if never_asked else None)

    def _limit(self, seconds: float) -> None:
        """Let it work for so long, and with the memory that it may have."""
        self._timer = self._loop.call_later(seconds, self._out_of_time, seconds)
        self._looker = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if self._spawned is not None and self._spawned.exceeds(self.runtime.memory_mb):
            self._is_out_of_memory = True
            self._verdict = Failure(message=jobs.exit_reason(-signal.SIGKILL), type=jobs.EXITED)
            self.kill()
        else:
            self._looker = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _out_of_time(self, seconds: float) -> None:
        self._verdict = Failure(message=f"Task timed out after {seconds:.2f} seconds", type=jobs.TIMED_OUT)
        self.kill()

    def _stop_timer(self) -> None:
        for timer in (self._timer, self._looker):
            if timer is not None:
                timer.cancel()
        self._timer = self._looker = None

    # --- its work

    def ask(self, client: tuple[str, int] | None) -> asyncio.Future[tuple[Job, bytes]] | None:
        """It asks for a job: the next one, when there is one. None when it has one already, or is to end."""
        if self.stage is Stage.DYING:  # it is killed at any moment; whatever it heard it would only complain about
            if self._asked is None or self._asked.done():
                self._asked = self._loop.create_future()
            return self._asked
        if self.stage not in (Stage.STARTING, Stage.RETURNING):
            return None
        if self._init_ms is None:
            self._init_ms = (monotonic() - self._began) * 1000
        self._stop_timer()
        self._asked = self._loop.create_future()
        self._asked_by = client
        self.stage = Stage.IDLE
        self.idle_since = monotonic()
        self._ready(self)
        return self._asked

    def hung_up(self, client: tuple[str, int] | None) -> None:
        """A connection of it ended; if that was its question, nobody would hear the answer."""
        if self.stage is Stage.IDLE and client == self._asked_by:
            self.kill()

    def take(self, job: Job, payload: bytes) -> None:
        """Work on this."""
        assert self.stage is Stage.IDLE
        assert self._asked is not None
        seconds = self.runtime.timeout_seconds
        self.stage = Stage.BUSY
        self._job = job
        self.served += 1
        self._began = monotonic()
        self._deadline = self._around.clock.now() + round(seconds * 1000)
        self._limit(seconds)
        if self._spawned is not None:
            self._spawned.drain()  # what was printed between two jobs is not this one's
        self._output.begin(job.request.id, job.request.execution, job.request.tenant)
        self._output.say(platform.started(job.request, self.runtime.version))
        self._asked.set_result((job, payload))

    def answer(self, request: str, payload: bytes) -> bool:
        """It returned; False when this is not what it was asked."""
        job = self._answered(request)
        if job is not None:
            self._finish(job, None, payload)
        return job is not None

    def fail(self, request: str, failure: Failure, payload: bytes | None = None) -> bool:
        """It raised, or its answer cannot be taken."""
        job = self._answered(request)
        if job is not None:
            self._finish(job, failure, payload)
        return job is not None

    def fail_init(self, failure: Failure) -> None:
        """It cannot begin at all."""
        if self.stage is Stage.STARTING:
            self._verdict = failure
            self.kill()

    def _answered(self, request: str) -> Job | None:
        job = self._job
        if job is None or job.request.id != request or self.stage is not Stage.BUSY:
            return None
        self._job = None
        self._stop_timer()
        self.stage = Stage.RETURNING
        self._timer = self._loop.call_later(_RETURN_SECONDS, self.kill)
        if self._spawned is not None:
            self._spawned.drain()  # it printed before it answered
        return job

    def _finish(self, job: Job, failure: Failure | None, payload: bytes | None) -> None:
        output = self._output
        if failure is not None and jobs.is_platforms(failure):
            output.say(platform.fault(job.request, failure))
        ended = self._ended(job, failure)
        output.say(ended.done())
        output.say(ended.report())
        if failure is None:
            assert payload is not None
            job.returned(payload, output.tail())
        else:
            job.failed(failure, output.tail(), payload)

    def _ended(self, job: Job, failure: Failure | None) -> platform.Ended:
        size = self.runtime.memory_mb
        used = size if self._is_out_of_memory else self._spawned.memory_mb() if self._spawned is not None else 0
        return platform.Ended(
            request=job.request,
            failure=failure,
            kind=None if failure is None else self._kind(failure),
            took_ms=(monotonic() - self._began) * 1000,
            memory_mb=size,
            used_mb=min(used, size),  # files that all processes share may be in it, and do not count
            init_ms=self._init_ms if self.served == 1 else None,
        )

    def _kind(self, failure: Failure) -> str | None:
        return jobs.OUT_OF_MEMORY if self._is_out_of_memory else failure.type
