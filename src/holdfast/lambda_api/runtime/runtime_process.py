"""RuntimeProcess: one warm process. It asks for jobs and answers them through its private listener.

    starting → idle ⇄ busy → returning → idle → … → dying → gone

If the process ends while it has a job, the job fails only when the process and all processes that it started have ended. So none of them
can write a checkpoint after the engine learned that the job failed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.lambda_api.runtime import jobs, platform_log
from holdfast.lambda_api.runtime.environment import command_of, environment_of, is_tried, wrapped
from holdfast.lambda_api.runtime.guarded_process import GuardedProcess
from holdfast.lambda_api.runtime.home_folders import make_home
from holdfast.lambda_api.runtime.interpreters import Interpreters
from holdfast.lambda_api.runtime.jobs import Job
from holdfast.lambda_api.runtime.process_output import OutputLog, ProcessOutput, stream_of
from holdfast.lambda_api.runtime.runtime_description import PoolLimits, Runtime
from holdfast.lambda_api.runtime.runtime_listener import RuntimeListener
from holdfast.model.clock import Clock, monotonic
from holdfast.model.operations import Failure
from holdfast.model.threads import Purpose, in_thread

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_RETURN_SECONDS: Final = 5.0
"""A runtime that does not ask for the next job within this time after its answer is killed."""
_LOOK_SECONDS: Final = 0.1
"""The time between two measurements of the memory of a process that starts or has a job."""


class Stage(Enum):
    """The stages in the life of a process."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    RETURNING = "returning"
    DYING = "dying"
    GONE = "gone"


class ProcessSetup(Protocol):
    """The objects that all processes of a host share."""

    @property
    def clock(self) -> Clock: ...
    @property
    def limits(self) -> PoolLimits: ...
    @property
    def log(self) -> OutputLog | None: ...
    @property
    def interpreters(self) -> Interpreters: ...
    def app(self, process: RuntimeProcess) -> ASGIApp:
        """The app that the listener of a process serves."""
        ...


OnReady = Callable[["RuntimeProcess"], None]
"""Called when a process asks for a job."""
OnGone = Callable[["RuntimeProcess", Failure | None], None]
"""Called when a process and all processes that it started have ended. The failure says why the process ended before it asked for its first
job: the pool fails one waiting job with it. None if the process had asked, or if the pool itself ended it."""


class RuntimeProcess:
    """A process of one function version."""

    def __init__(self, runtime: Runtime, name: str, around: ProcessSetup, ready: OnReady, gone: OnGone) -> None:
        self.runtime = runtime
        self.stage = Stage.STARTING
        self.served = 0
        self.idle_since = 0.0
        self.invoking = 0
        """How many invocations of other functions this process has requested and waits for."""
        self._ready = ready
        self._gone = gone
        self._around = around
        self._loop = asyncio.get_running_loop()
        self.job: Job | None = None
        """The current job of the process; None if it has none."""
        self._asked: asyncio.Future[tuple[Job, bytes]] | None = None
        self._asked_by: tuple[str, int] | None = None
        self._verdict: Failure | None = None
        self._exit_code: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looker: asyncio.TimerHandle | None = None
        self._is_out_of_memory = False
        self._began = monotonic()
        self._init_ms: float | None = None
        self.deadline = 0
        """When its current or last job reaches its timeout, in milliseconds since 1970; 0 before the first job."""
        stream = stream_of(runtime.version, name, around.clock.now())
        self._output = ProcessOutput(runtime, stream, around.clock.now, around.log)
        self._spawned: GuardedProcess | None = None
        self._listener: RuntimeListener | None = None
        self._opening = self._loop.create_task(self._start(stream))

    @property
    def tail(self) -> bytes:
        """The last 4 KB of its log since its current or last job began; before the first job, since the process began."""
        return self._output.tail()

    # --- its life

    async def _start(self, stream: str) -> None:
        limits = self._around.limits
        try:
            listener = self._listener = RuntimeListener(self._around.app(self), self.hung_up, self._guard)
            await listener.open()
            command = await self._command()
            home = make_home()
            environment = environment_of(self.runtime, command, listener.address, stream, home)
            self._output.say(platform_log.beginning(self.runtime))
            self._spawned = GuardedProcess(
                wrapped(self.runtime, command), environment, self.runtime.folder, home, self, limits.kill_seconds
            )
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
        """Read bytes that the process wrote to its standard output or standard error."""
        self._output.take(data)

    def logged(self, framed: bytes) -> None:
        """Read bytes of telemetry frames that the runtime client wrote."""
        self._output.log(framed)

    def exited(self, code: int) -> None:
        """Note that the runtime ended by itself, and its exit code (negative: the number of the signal)."""
        self._exit_code = code
        self._leave(Stage.DYING)

    def kill(self) -> None:
        """Begin to kill the process and every process that it started. Returns at once; `gone` is called at the end."""
        if self.stage in (Stage.DYING, Stage.GONE):
            return
        self._leave(Stage.DYING)
        if self._spawned is not None:
            self._spawned.kill()

    def abandon(self) -> None:
        """Begin to kill the process. Its job gets no result."""
        self.job = None
        self.kill()

    def close_now(self) -> None:
        """End the process without the help of the event loop. Its job gets no result. Blocks until the guard has ended."""
        self._leave(Stage.GONE)
        self._opening.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._spawned is not None:
            self._spawned.close_now()

    def _leave(self, stage: Stage) -> None:
        """Enter the stage DYING or GONE. While the process is DYING, its request for a job stays unanswered: an answer would only make it
        log an error."""
        self.stage = stage
        self._stop_timer()
        if stage is Stage.GONE and self._asked is not None and not self._asked.done():
            self._asked.cancel()

    def gone(self) -> None:
        """If the process has a job, end the job with an error. Then tell the pool. Called when the process and all processes that it
        started have ended, or when the process could not be started."""
        never_asked = self._init_ms is None
        self._leave(Stage.GONE)
        if self._listener is not None:
            self._listener.close()
        self._output.close()
        failure = self._verdict
        job, self.job = self.job, None
        if failure is None and (job is not None or (never_asked and self._exit_code is not None)):
            code = -signal.SIGKILL if self._exit_code is None else self._exit_code
            failure = Failure(message=jobs.exit_reason(code), type=jobs.EXITED)
        if job is not None:
            assert failure is not None
            self._finish(job, failure, None)
        if failure is not None and never_asked:
            took = (monotonic() - self._began) * 1000
            self._output.say(platform_log.not_begun(took, self._kind(failure)))
        self._gone(self, failure if never_asked else None)

    def _limit(self, seconds: float) -> None:
        """Begin to watch a start or a job: kill the process after `seconds`, or when it uses more memory than it may."""
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
        """Accept the request of the process for a job. `client` is the address from which the process asks. Returns a future of the next
        job and its payload. Returns None if the process has a job, asks already, or has ended. While the process is being killed, the
        future gets no job."""
        if self.stage is Stage.DYING:  # an answer would only make the process log an error before it is killed
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
        """Called when a connection of the process ended. If the process asked for a job on this connection and has not got it, it cannot
        get it any more, so the process is killed."""
        if self.stage is Stage.IDLE and client == self._asked_by:
            self.kill()

    def take(self, job: Job, payload: bytes) -> None:
        """Give a job to the process, which must be IDLE. `payload` is the event of the function."""
        assert self.stage is Stage.IDLE
        assert self._asked is not None
        seconds = self.runtime.timeout_seconds
        self.stage = Stage.BUSY
        self.job = job
        self.served += 1
        self._began = monotonic()
        self.deadline = self._around.clock.now() + round(seconds * 1000)
        self._limit(seconds)
        if self._spawned is not None:
            self._spawned.drain()  # output printed between two jobs does not belong to this job
        self._output.begin(job.request.id, job.request.execution, job.request.tenant)
        self._output.say(platform_log.started(job.request, self.runtime.version))
        self._asked.set_result((job, payload))

    def answer(self, request: str, payload: bytes) -> bool:
        """End the current job with what the function returned (`payload`). Does nothing and returns False if the current job does not have
        this request id, if there is none, or if the process is being killed."""
        job = self._answered(request)
        if job is not None:
            self._finish(job, None, payload)
        return job is not None

    def fail(self, request: str, failure: Failure, payload: bytes | None = None) -> bool:
        """End the current job with an error: the function raised it, or its answer is too large. `payload` is what the caller gets; if it
        is None, the caller gets the error in Lambda's form. Does nothing and returns False if the current job does not have this request
        id, if there is none, or if the process is being killed."""
        job = self._answered(request)
        if job is not None:
            self._finish(job, failure, payload)
        return job is not None

    def fail_init(self, failure: Failure) -> None:
        """Called when the runtime reports that it cannot start. Kills the process; `failure` says why. Does nothing if the process has
        asked for a job already, or is being killed."""
        if self.stage is Stage.STARTING:
            self._verdict = failure
            self.kill()

    def _answered(self, request: str) -> Job | None:
        job = self.job
        if job is None or job.request.id != request or self.stage is not Stage.BUSY:
            return None
        self.job = None
        self._stop_timer()
        self.stage = Stage.RETURNING
        self._timer = self._loop.call_later(_RETURN_SECONDS, self.kill)
        if self._spawned is not None:
            self._spawned.drain()  # read what it printed before it answered
        return job

    def _finish(self, job: Job, failure: Failure | None, payload: bytes | None) -> None:
        output = self._output
        if failure is not None and jobs.is_platforms(failure):
            output.say(platform_log.fault(job.request, failure))
        ended = self._ended(job, failure)
        output.say(ended.done())
        output.say(ended.report())
        if failure is None:
            assert payload is not None
            job.returned(payload, output.tail())
        else:
            job.failed(failure, output.tail(), payload)

    def _ended(self, job: Job, failure: Failure | None) -> platform_log.EndedRequest:
        size = self.runtime.memory_mb
        used = size if self._is_out_of_memory else self._spawned.memory_mb() if self._spawned is not None else 0
        return platform_log.EndedRequest(
            request=job.request,
            failure=failure,
            kind=None if failure is None else self._kind(failure),
            took_ms=(monotonic() - self._began) * 1000,
            memory_mb=size,
            used_mb=min(used, size),  # `used` may include shared files, which do not count against the limit
            init_ms=self._init_ms if self.served == 1 else None,
        )

    def _kind(self, failure: Failure) -> str | None:
        return jobs.OUT_OF_MEMORY if self._is_out_of_memory else failure.type
