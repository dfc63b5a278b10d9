"""`holdfast queues push`: lines of a file become runs of a queue, with a progress bar, and a line for each mistake."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.author_files.declared_beside import not_declared_told, queues_beside
from holdfast.author_files.function_loader import load
from holdfast.cli.arguments import StorePlace
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.operators_queues import operators_queues
from holdfast.cli.terminal import print_document, printable, say, working
from holdfast.cli.workers import declares_workers
from holdfast.durable.execution import DurableFunction
from holdfast.engine.enqueues import milliseconds
from holdfast.model.admission import Same
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.places import checked_queue
from holdfast.model.queue_errors import QueueFull
from holdfast.queues.declarations import Queue, declared_together
from holdfast.queues.pushes import PushedLine, PushOptions
from holdfast.queues.store_queues import new_queue, note_of_queue
from holdfast.service.client import Client

if TYPE_CHECKING:
    from holdfast.service.worker_pushes import WorkerPush

_LONGEST: Final = MAX_PAYLOAD_BYTES + 1
_SHOWN: Final = 20
"""At most this many mistakes are printed; the others are counted."""


class PushCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One push, as the command line asks for it."""

    target: str
    file: Path | None
    """The file whose lines are pushed; None: stdin."""
    place: StorePlace
    asked: Mapping[str, Any]
    """The arguments of `StoreQueues.push`."""
    options: PushOptions
    """The arguments of `asked`, checked, with times in milliseconds. A push to a worker or a pipeline uses these."""
    config: Path | None = None
    """The operator's file that --config names; None if the user named none."""
    trust: bool = False

    @classmethod
    def of(
        cls,
        queue: str,
        target: str,
        inputs: str,
        place: StorePlace,
        *,
        key_field: str | None,
        lane_field: str | None,
        units_field: str | None,
        tenant: str | None,
        same: str,
        delay: float,
        ttl: float | None,
        head_start: float,
        config: Path | None = None,
        trust: bool = False,
    ) -> PushCommand:
        """Make a push from the options. Raises InvalidParameter if a value is not allowed, or if there is no such file."""
        if same not in [word.value for word in Same]:
            raise InvalidParameter(f"--same is {same!r:.50}; it must be existing, replace or refuse.")
        options = PushOptions(
            queue=checked_queue(queue),
            tenant=tenant,
            key_field=key_field,
            lane_field=lane_field,
            units_field=units_field,
            delay_ms=milliseconds(delay, "--delay"),
            ttl_ms=None if ttl is None else max(1, milliseconds(ttl, "--ttl")),
            head_start_ms=milliseconds(head_start, "--head-start"),
            same=Same(same),
        )
        fields = {"key_field": key_field, "lane_field": lane_field, "units_field": units_field}
        asked = {"queue": queue, "tenant": tenant, "same": same, "delay": delay, "ttl": ttl, "head_start": head_start, **fields}
        return cls(target=target, file=_file_of(inputs), place=place, asked=asked, options=options, config=config, trust=trust)

    def run(self, *, json_output: bool) -> int:
        """Push all lines and print the result. Returns the exit code: 0, or 1 if lines were refused. Raises QueueFull if the queue is full
        or is drained; lines that were pushed before stay in the queue."""
        counted = _Counted()
        target, queues = self._target()
        with contextlib.ExitStack() as stack:
            opened = stack.enter_context(_opened(self.file))
            client = stack.enter_context(self.place.client(create=not isinstance(target, str)))
            client.queues.declare(queues)
            bar = stack.enter_context(_Bar(self.file))
            if not sys.stderr.isatty():
                stack.enter_context(working(f"pushing into queue {self.options.queue}"))
            near = new_queue(client.queues, self.options.queue)
            if near is not None:
                say(f"note: queue {self.options.queue} is new here, and has no limits until a runner or a program declares it.{near}")
            lines = _lines(opened, bar)
            pushing = client.queues.push(target, lines, **self.asked) if isinstance(target, str | DurableFunction) else target.push(lines)
            try:
                for batch in pushing:
                    counted.add(batch)
            except QueueFull:
                counted.note(client, self.options.queue)
                say(counted.told() + ("" if self.options.key_field is None else "; the same command goes on where this one ended"))
                raise
            counted.note(client, self.options.queue)
        if json_output:
            errors = [{"line": one.line, "error": _code_of(one.error), "message": str(one.error)} for one in counted.refused if one.error]
            print_document({"pushed": counted.new, "there_already": counted.there, "refused": counted.refusals, "errors": errors})
        else:
            counted.say_mistakes()
            say(f"queue {self.options.queue}: {counted.told()}")
        return ExitCode.UNSUCCESSFUL if counted.refusals else ExitCode.OK

    def _target(self) -> tuple[DurableFunction | WorkerPush | str, Sequence[Queue]]:
        """The target, and the queues to declare first. The target is the worker or the function of a file, or the name of a function
        that the store knows. The queues are those of the operator's file; for a function of a file also those of its file."""
        if declares_workers(self.target):
            worker = self._worker()
            return worker, declared_together((), worker.settings.queues)
        operators = operators_queues(self.config, trust=self.trust)
        if ":" not in self.target and not self.target.endswith(".py"):
            return self.target, declared_together((), operators)
        with contextlib.redirect_stdout(sys.stderr):
            found = load(self.target)
        return found.function, declared_together(queues_beside(found.beside, found.module), operators)

    def _worker(self) -> WorkerPush:
        """The push to a worker or a pipeline. It has the operator's settings, because the rate that the operator sets applies to the
        worker's lane. The worker does not run here."""
        from holdfast.cli.consent import Consent, operators_settings
        from holdfast.service.worker_pushes import WorkerPush

        file, _, worker = self.target.partition(":")
        told = not_declared_told(Path(file))
        if told is not None:
            say(f"warning: {printable(told)}")
        settings, _ = operators_settings(None, self.config, Consent(trust=self.trust))
        return WorkerPush(
            store=self.place.where,
            file=Path(file),
            worker=worker or None,
            settings=settings,
            codec=self.place.codec(),
            options=self.options,
        )


class _Counted:
    def __init__(self) -> None:
        self.new = self.there = self.refusals = 0
        self.refused: list[PushedLine] = []

    def add(self, batch: Sequence[PushedLine]) -> None:
        for one in batch:
            if one.error is not None:
                self.refusals += 1
                if len(self.refused) < _SHOWN:
                    self.refused.append(one)
            elif one.created:
                self.new += 1
            else:
                self.there += 1

    def told(self) -> str:
        there = f", {self.there:,} {'was' if self.there == 1 else 'were'} there already" if self.there else ""
        refused = f", {self.refusals:,} {'line was' if self.refusals == 1 else 'lines were'} refused" if self.refusals else ""
        return f"pushed {self.new:,}{there}{refused}"

    def note(self, client: Client, queue: str) -> None:
        note_of_queue(client.queues, "push", queue, self.told())

    def say_mistakes(self) -> None:
        for one in self.refused:
            assert one.error is not None
            say(f"line {one.line}: error[{_code_of(one.error)}]: {printable(str(one.error))}")
        if self.refusals > len(self.refused):
            say(f"and {self.refusals - len(self.refused):,} more lines with mistakes")


def _code_of(error: HoldfastError) -> str:
    """The code of the error of a refused line: its `error_code` if it has one, as errors of a worker's contract do, else its `code`."""
    return str(getattr(error, "error_code", error.code))


class _Bar:
    """A progress bar on stderr, if that is a terminal. It counts bytes of a file, or lines of stdin."""

    def __init__(self, file: Path | None) -> None:
        self._bytes = None if file is None else file.stat().st_size
        parts = (TextColumn("pushing"), BarColumn(), MofNCompleteColumn(), TextColumn("bytes" if file else "lines"), TimeRemainingColumn())
        self._progress = Progress(*parts, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
        self._task = self._progress.add_task("push", total=self._bytes)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def read(self, line: bytes) -> None:
        self._progress.advance(self._task, 1 if self._bytes is None else len(line))


def _lines(opened: IO[bytes], bar: _Bar) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers. If a line is longer than any payload may be, only its beginning is returned. That
    is still too long, so the push refuses the line."""
    number = 0
    while line := opened.readline(_LONGEST + 1):
        number += 1
        bar.read(line)
        while len(line) > _LONGEST and not line.endswith(b"\n"):
            more = opened.readline(_LONGEST + 1)
            bar.read(more)
            if len(more) <= _LONGEST or more.endswith(b"\n"):
                break
        if line.strip():
            yield number, line


@contextlib.contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise InvalidParameter(f"{file} could not be read: {error.strerror}.") from None
    with opened:
        yield opened


def _file_of(value: str) -> Path | None:
    """The file that `@FILE` names; None for `-`, which is stdin. Raises InvalidParameter for another text, and if there is no such file."""
    if value == "-":
        return None
    if not value.startswith("@"):
        raise InvalidParameter(f"{value!r:.100} names no inputs. Write @FILE, a file with one JSON document on each line, or - for stdin.")
    if not (file := Path(value[1:])).is_file():
        raise InvalidParameter(f"There is no file {file}.")
    return file
