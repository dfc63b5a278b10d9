"""A foreground run: runs one execution to its end in this process, prints what it waits for, and stops cleanly when interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from holdfast.author_files.declared_beside import queues_beside
from holdfast.author_files.function_loader import LoadedFunction
from holdfast.cli.arguments import StorePlace
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.operators_queues import operators_queues
from holdfast.cli.terminal import printable, say
from holdfast.descriptions.executions import Description
from holdfast.model import codec
from holdfast.model.clock import SystemClock, monotonic
from holdfast.model.errors import ExecutionQuarantined, FunctionNotFound, Unsuccessful
from holdfast.model.execution import State
from holdfast.model.ids import checked_name, id_at
from holdfast.queues.declarations import declared_together
from holdfast.service.engines import EngineOpening, OpenEngine
from holdfast.service.engines import open as open_engine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.store.seam import Filter
from holdfast.store.shown_address import shown

_LOOK_SECONDS = 0.2
_LOOK_SHARE = 20
"""The command reads the state of the execution again and again. Before the next read it waits at least this many times as long as the last
read took, so a large execution is read less often."""


class WorkerOptions(msgspec.Struct, frozen=True):
    """The options for the workers that the function runs."""

    files: tuple[Path, ...] = ()
    isolation: str | None = None
    config: Path | None = None
    trust: bool = False


class RunOptions(msgspec.Struct, frozen=True):
    """The options of the command line."""

    target: str
    payload: str | None
    """The text of the input; None if the user gave none."""
    name: str | None
    place: StorePlace
    again: bool = False
    """Whether to start the function again under the same name, if the execution of this name failed, timed out or was stopped."""
    workers: WorkerOptions = WorkerOptions()

    @property
    def on_failed(self) -> str:
        """The argument `on_failed` for `engine.start`: `restart` if `again` is set: an execution of this name that failed, timed out or was
        stopped is then started again. Else `find`: it is found like any other execution of the name."""
        return "restart" if self.again else "find"


def follow(options: RunOptions, loaded: LoadedFunction) -> Description:
    """Run the execution to its end and return its description. If other executions continued it, return the description of the last one of
    them. Raises ExecutionQuarantined if the execution is quarantined. If the user interrupts the command, this prints the command that
    continues the execution, which stays in the store, or that nothing was started; then it raises typer.Exit."""
    following = _ForegroundRun(options, loaded)
    try:
        return asyncio.run(following.to_the_end())
    except KeyboardInterrupt:
        following.say_how_to_go_on()
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class _ForegroundRun:
    def __init__(self, options: RunOptions, loaded: LoadedFunction) -> None:
        self._options = options
        self._loaded = loaded
        self._execution: OpenExecution | None = None
        self._told: set[str] = set()

    async def to_the_end(self) -> Description:
        place = self._options.place
        async with self._opening() as engine:
            name = id_at(SystemClock().now()) if self._options.name is None else checked_name(self._options.name)
            say(
                f"{self._loaded.function.name}/{name} is in {shown(place.where)}"
            )  # print this first: the function may print as soon as it begins
            self._execution = execution = await self._begun(engine, name)
            with _status(execution.name) as show:
                watching = asyncio.create_task(self._watch(execution, show))
                ending = asyncio.create_task(_end(execution))
                try:
                    await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
                    if not ending.done():
                        watching.result()
                    await ending
                finally:
                    watching.cancel()
                    ending.cancel()
            return self._not_aside(await self._last(engine, execution))

    def _opening(self) -> EngineOpening:
        """An engine, not open yet, with the functions of the file, and with the workers that they run, if there are any. May ask the user
        for trust."""
        place, asked = self._options.place, self._options.workers
        files = [*asked.files, *self._named()]
        queues = declared_together(queues_beside(self._loaded.beside, self._loaded.module), {})
        if not files:
            queues = declared_together(queues, operators_queues(asked.config, trust=asked.trust))
            return open_engine(place.where, functions=self._loaded.beside, queues=queues, codec=place.codec())
        from holdfast.author_files.worker_search import served_files
        from holdfast.cli.consent import run_terms

        terms = run_terms(served_files(files), place, asked.isolation, asked.config, trust=asked.trust)
        functions, settings = self._loaded.beside, terms.settings
        opening = open_engine(place.where, functions=functions, workers=files, queues=queues, worker_settings=settings, codec=place.codec())
        opening.declares = False
        assert opening.runtime is not None
        terms.check(opening.runtime.packages)
        opening.runtime.admits = lambda worker, tool: terms.refusal
        return opening

    def _named(self) -> Sequence[Path]:
        """The files of the workers and pipelines that functions of the target file run (`context.run("…")`), without the files that the
        user named with --worker. Empty if the target is a module.

        A file without the text `.run(` runs no worker. For such a file this function does not import Holdfast's code for workers.
        """
        file = Path(self._options.target.partition(":")[0])
        if file.suffix != ".py" or not file.is_file() or b".run(" not in file.read_bytes():
            return ()
        from holdfast.author_files.worker_search import worker_files

        given = {path.resolve() for path in self._options.workers.files}
        return [found for found in worker_files(file) if found.resolve() not in given]

    async def _last(self, engine: OpenEngine, execution: OpenExecution) -> Description:
        """The description of the ended execution. If other executions continued it, one after the other, the description of the last one of
        them."""
        told = await execution.describe()
        while told.continued_as is not None:
            told = await (await engine.get(told.continued_as)).describe()
        return told

    async def _begun(self, engine: OpenEngine, name: str) -> OpenExecution:
        """Find or start the execution. An existing execution of the name is returned if the user gave the name, but neither an input nor
        --again. In every other case `engine.start` finds the execution or makes it.

        Raises FunctionNotFound if the execution was started with a version that the file does not have.
        """
        options, function = self._options, self._loaded.function
        if options.payload is None and options.name is not None and not options.again:
            async for found in engine.list(Filter(function=function.name, name=options.name, limit=1)):
                if all((f.name, f.version) != (found.function, found.version) for f in self._loaded.beside):
                    raise FunctionNotFound(
                        f"{found.function}/{found.name} was started with version {found.version}, which {options.target} does not have. "
                        f"Run a file that has this version, or give another --name."
                    )
                return await engine.get(found.id)
        payload = options.payload or (await self._input_before(engine, name) if options.again else None) or "{}"
        return await engine.start(function, codec.loads(payload), name=name, on_failed=options.on_failed)

    async def _input_before(self, engine: OpenEngine, name: str) -> str | None:
        """The input of the execution that has this name now; None if there is none. It is the input of the new execution if the user gives
        `--again` and no input."""
        async for found in engine.list(Filter(function=self._loaded.function.name, name=name, limit=1)):
            return codec.dumps((await (await engine.get(found.id)).describe()).input)
        return None

    async def _watch(self, execution: OpenExecution, show: Callable[[str], None]) -> None:
        """Show the state of the execution until this task is cancelled. Raises ExecutionQuarantined if the execution is quarantined,
        because it does not end then."""
        while True:
            began = monotonic()
            told = await execution.describe()
            show(told.why)
            self._tell_waits(self._not_aside(told))
            await asyncio.sleep(max(_LOOK_SECONDS, _LOOK_SHARE * (monotonic() - began)))

    def _not_aside(self, told: Description) -> Description:
        """The description itself. Raises ExecutionQuarantined, with the command that releases the execution, if it is quarantined."""
        if told.state == State.QUARANTINED:
            again = self._options.place.command("executions", "release", f"{told.function}/{told.name}")
            raise ExecutionQuarantined(f"{told.function}/{told.name}: {told.why} Then: {again}", told.quarantine)
        return told

    def _tell_waits(self, told: Description) -> None:
        """If the execution is suspended, print what only a person can do: answer a callback, decide an approval, or release an execution
        that this one invoked. Each is printed once."""
        if told.state != State.SUSPENDED:
            return
        for pending in told.waits_for:
            if pending.quarantined is not None and pending.quarantined not in self._told:
                self._told.add(pending.quarantined)
                look = self._options.place.command("executions", "show", pending.quarantined)
                say(f"waits for {printable(pending.woken_by)}; see why with: {look}")
            for approval in pending.approvals:
                if approval not in self._told:
                    self._told.add(approval)
                    look = self._options.place.command("approvals", "show", approval)
                    say(f"waits for {printable(pending.name or pending.kind)}: {printable(pending.woken_by)}; see it with: {look}")
            if pending.callback_id is not None and pending.callback_id not in self._told:
                self._told.add(pending.callback_id)
                answer = self._options.place.command("callbacks", "succeed", pending.callback_id, "--result", "TEXT")
                say(f"waits for {printable(pending.name or pending.kind)}; answer it with: {answer}")

    def say_how_to_go_on(self) -> None:
        if self._execution is None:
            say("interrupted before anything was started")
            return
        again = self._options.place.command("run", self._options.target, "--name", self._execution.name)
        say(f"interrupted: the execution stays in {shown(self._options.place.where)}. Go on with: {again}")


async def _end(execution: OpenExecution) -> None:
    with contextlib.suppress(Unsuccessful, ExecutionQuarantined):  # a quarantine is reported with the command for this store
        await execution.result()


@contextlib.contextmanager
def _status(name: str) -> Iterator[Callable[[str], None]]:
    """A function that shows a text in a status line of the terminal. Without a terminal the function does nothing, so that logs stay short
    and always the same."""
    if not sys.stderr.isatty():
        yield lambda why: None
        return
    with Console(stderr=True).status(Text(name)) as status:
        yield lambda why: status.update(Text(f"{name}: {printable(why)}"))
