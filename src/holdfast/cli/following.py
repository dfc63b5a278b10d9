"""Following one execution to its end: run it here, say what it waits for, and leave in good order when interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.arguments import StorePlace
from holdfast.cli.terminal import printable, say
from holdfast.model import codec
from holdfast.model.clock import SystemClock, monotonic
from holdfast.model.errors import ExecutionQuarantined, FunctionNotFound, Unsuccessful
from holdfast.model.execution import State
from holdfast.model.ids import checked_name, id_at
from holdfast.service.describing import Description
from holdfast.service.engines import OpenEngine
from holdfast.service.engines import open as open_engine
from holdfast.service.loading import Loaded
from holdfast.service.open_execution import OpenExecution
from holdfast.store.backends import shown
from holdfast.store.seam import Filter

_LOOK_SECONDS = 0.2
_LOOK_SHARE = 20
"""Looking takes at most one part in so many of the time, however large the execution grows."""
_INTERRUPTED = 130


class Order(msgspec.Struct, frozen=True):
    """What the user asked for."""

    target: str
    payload: str | None
    """The text of the input; None when none was given."""
    name: str | None
    place: StorePlace
    again: bool = False
    """Start the name again if its execution failed."""

    @property
    def on_failed(self) -> str:
        """The same as a start has it."""
        return "restart" if self.again else "find"


def follow(order: Order, loaded: Loaded) -> Description:
    """Run the execution and return how it ended. An interrupt leaves it in the store, and says how to go on."""
    following = _Following(order, loaded)
    try:
        return asyncio.run(following.to_the_end())
    except KeyboardInterrupt:
        following.say_how_to_go_on()
        raise typer.Exit(_INTERRUPTED) from None


class _Following:
    def __init__(self, order: Order, loaded: Loaded) -> None:
        self._order = order
        self._loaded = loaded
        self._execution: OpenExecution | None = None
        self._told: set[str] = set()

    async def to_the_end(self) -> Description:
        place = self._order.place
        async with open_engine(place.where, functions=self._loaded.beside, codec=place.codec()) as engine:
            name = id_at(SystemClock().now()) if self._order.name is None else checked_name(self._order.name)
            say(f"{self._loaded.function.name}/{name} is in {shown(place.where)}")  # first: the function may print as soon as it begins
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

    async def _last(self, engine: OpenEngine, execution: OpenExecution) -> Description:
        """How it ended; one that continued as others ended where the last of them did."""
        told = await execution.describe()
        while told.continued_as is not None:
            told = await (await engine.get(told.continued_as)).describe()
        return told

    async def _begun(self, engine: OpenEngine, name: str) -> OpenExecution:
        """The execution that has the name, if no input asks for a particular one; else a start, which finds or makes it."""
        order, function = self._order, self._loaded.function
        if order.payload is None and order.name is not None and not order.again:
            for found in await engine.list(Filter(function=function.name, name=order.name, limit=1)):
                if all((f.name, f.version) != (found.function, found.version) for f in self._loaded.beside):
                    raise FunctionNotFound(
                        f"{found.function}/{found.name} was started with version {found.version}, which {order.target} does not have."
                    )
                return await engine.get(found.id)
        payload = order.payload or (await self._input_before(engine, name) if order.again else None) or "{}"
        return await engine.start(function, codec.loads(payload), name=name, on_failed=order.on_failed)

    async def _input_before(self, engine: OpenEngine, name: str) -> str | None:
        """What the execution that has the name was started with: a name is started again with that, unless another input is given."""
        for found in await engine.list(Filter(function=self._loaded.function.name, name=name, limit=1)):
            return codec.dumps((await (await engine.get(found.id)).describe()).input)
        return None

    async def _watch(self, execution: OpenExecution, show: Callable[[str], None]) -> None:
        """Tell people where it stands. Ends only for what nobody here can bring to an end."""
        while True:
            began = monotonic()
            told = await execution.describe()
            show(told.why)
            self._tell_waits(self._not_aside(told))
            await asyncio.sleep(max(_LOOK_SECONDS, _LOOK_SHARE * (monotonic() - began)))

    def _not_aside(self, told: Description) -> Description:
        """Refuse what nobody here can bring to an end, with the command that releases it."""
        if told.state == State.QUARANTINED:
            again = self._order.place.command("executions", "release", f"{told.function}/{told.name}")
            raise ExecutionQuarantined(f"{told.function}/{told.name}: {told.why} Then: {again}", told.quarantine)
        return told

    def _tell_waits(self, told: Description) -> None:
        """What only a person can bring on: a callback's answer, the release of an execution that it invoked."""
        if told.state != State.SUSPENDED:
            return
        for pending in told.waits_for:
            if pending.quarantined is not None and pending.quarantined not in self._told:
                self._told.add(pending.quarantined)
                look = self._order.place.command("executions", "show", pending.quarantined)
                say(f"waits for {printable(pending.woken_by)}; see why with: {look}")
            if pending.callback_id is not None and pending.callback_id not in self._told:
                self._told.add(pending.callback_id)
                answer = self._order.place.command("callbacks", "succeed", pending.callback_id, "--result", "TEXT")
                say(f"waits for {printable(pending.name or pending.kind)}; answer it with: {answer}")

    def say_how_to_go_on(self) -> None:
        if self._execution is None:
            say("interrupted before anything was started")
            return
        again = self._order.place.command("run", self._order.target, "--name", self._execution.name)
        say(f"interrupted: the execution stays in {shown(self._order.place.where)}. Go on with: {again}")


async def _end(execution: OpenExecution) -> None:
    with contextlib.suppress(Unsuccessful, ExecutionQuarantined):  # a quarantine is told with the command for this store
        await execution.result()


@contextlib.contextmanager
def _status(name: str) -> Iterator[Callable[[str], None]]:
    """A line that tells where it stands, in a terminal; nothing elsewhere, so that logs stay short and stable."""
    if not sys.stderr.isatty():
        yield lambda why: None
        return
    with Console(stderr=True).status(Text(name)) as status:
        yield lambda why: status.update(Text(f"{name}: {printable(why)}"))
