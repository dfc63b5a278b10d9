"""Schedules as people write them: in Python, in holdfast.toml, in a worker.md or pipeline.md, with `holdfast schedules add`, or over HTTP.
Each of them becomes a `Schedule`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.contract.notes import meant
from holdfast.durable.execution import DurableFunction
from holdfast.model import codec, json_structs
from holdfast.model.durations import HINT, parsed
from holdfast.model.errors import PayloadNotJson
from holdfast.model.ids import LATEST, checked_version
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.schedule_times import ClockChanges, Timing, zone_of
from holdfast.model.schedules import USUAL_CATCH_UP, CatchUp, Definition, Overlap, checked_definition, checked_input, checked_schedule_name
from holdfast.model.typed import Unwritable, without_models
from holdfast.model.wrong_values import wrong_value

_LONGEST_NAME = 40
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Starts a function, a worker or a pipeline at certain times: `Schedule("nightly", report, cron="0 2 * * *", zone="Europe/Berlin")`.

    Give `holdfast.open` a list of schedules. If an operator changes or pauses the schedule later, the operator's change wins over this
    declaration.
    """

    name: str
    """1 to 40 letters, digits, '-' or '_'."""
    run: Any
    """A durable function, or the name of a function, a worker or a pipeline."""
    cron: str | None = None
    """When it is due, as a cron expression of five fields: minute, hour, day of the month, month, day of the week. Give either `cron` or
    `every`."""
    every: str | None = None
    """When it is due, as an interval: `30s`, `15m`, `2h`, `1d`."""
    zone: str = "UTC"
    """The time zone of the times in `cron`, by its IANA name: `Europe/Berlin`."""
    input: Any = {}
    """The input of a function, or the inputs of a worker or a pipeline, as a value that JSON can express."""
    version: int | str | None = None
    """The version to start. None: if `run` is a function object, its version. If `run` is a name, the runner that starts it chooses the
    version: of a function `$LATEST`, or else the highest one; of a worker or a pipeline the one that was added last."""
    tenant: str | None = None
    """The tenant of the executions; None: no tenant."""
    overlap: str = "skip"
    """What happens to an occurrence that is due while an earlier one still runs. `skip`: it is not started. `queue`: it waits until the
    earlier one has ended. `replace`: the earlier one is stopped, and then it is started. `allow`: it is started, and both run."""
    catch_up: str = "latest"
    """Which of the occurrences that no runner could start in time are started later. `latest`: the one with the latest time, unless the
    next occurrence is due already. `all`: the 10 with the latest times. `all:20`: the 20 with the latest times. `none`: none of them."""
    clock: str = "once"
    """What happens to times in `cron` that are missing or come twice because the clocks of the zone change. `once`: a time that comes twice
    starts one occurrence; all times that are missing in one change start one occurrence together. `real`: a missing time starts none, and a
    time that comes twice starts two."""
    jitter: str | None = None
    """Each occurrence begins late, by at most this duration, such as `5m`. The delay differs between schedules and occurrences, so that not
    all begin at once. None: no delay."""
    start: Any = None
    """No occurrence is before this time: a time with its zone, as a `datetime` or as `2026-03-01T00:00:00Z`. None: no bound."""
    end: Any = None
    """No occurrence is after this time, which is written like `start`. None: no bound."""

    def definition(self) -> Definition:
        """The schedule in the form that the store keeps. Raises ScheduleInvalid or InvalidParameter if a value is not allowed."""
        checked_schedule_name(self.name)
        function, version = self._target()
        catch_up, most = _catch_up(self.catch_up)
        timing = Timing(
            cron=self.cron,
            every=None if self.every is None else _seconds("every", self.every),
            zone=self.zone,
            clock=_word(ClockChanges, "clock", self.clock),
            jitter=0 if self.jitter is None else _seconds("jitter", self.jitter),
            start=_moment("start", self.start),
            end=_moment("end", self.end),
        )
        definition = Definition(
            function=function,
            version=version,
            tenant=self.tenant,
            timing=timing,
            overlap=_word(Overlap, "overlap", self.overlap),
            catch_up=catch_up,
            catch_up_most=most,
        )
        return checked_definition(definition)

    def _target(self) -> tuple[str, str | None]:
        if isinstance(self.run, DurableFunction):
            return self.run.name, self.run.version if self.version is None else checked_version(self.version)
        if not isinstance(self.run, str):
            raise ScheduleInvalid(
                f"Schedule {self.name!r}: `run` is {self.run!r:.80}. "
                "Give a durable function, or the name of a function, a worker or a pipeline."
            )
        return self.run, None if self.version is None else str(self.version)

    def input_text(self) -> str:
        """The input as JSON text. Raises ScheduleInvalid if it cannot be written as JSON or is too large, and InvalidParameter if a text in
        it is not valid Unicode."""
        try:
            return checked_input(codec.dumps(without_models(self.input)))
        except (Unwritable, RecursionError, PayloadNotJson) as error:
            raise ScheduleInvalid(f"Schedule {self.name!r}: the input cannot be written as JSON: {error}.") from None


def sendable(schedule: Schedule) -> Schedule:
    """The schedule in a form that can be sent to another process: its function is named by a text, and its input is a JSON value. Raises
    ScheduleInvalid or InvalidParameter if a value is not allowed."""
    definition, text = schedule.definition(), schedule.input_text()
    version = LATEST if schedule.version is None and definition.version == LATEST else schedule.version
    return msgspec.structs.replace(schedule, run=definition.function, version=version, input=codec.loads(text))


def check_declared(schedules: Sequence[object]) -> None:
    """Raise ScheduleInvalid for a value that is not a schedule. Raise ScheduleInvalid or InvalidParameter for a schedule with a setting
    that is not allowed."""
    for schedule in schedules:
        if not isinstance(schedule, Schedule):
            raise ScheduleInvalid(f"{schedule!r:.100} is not a schedule. Write holdfast.Schedule(name, function, cron=…).")
        schedule.definition()


def schedule_from(name: object, table: object, where: str) -> Schedule:
    """A schedule from a table of JSON or TOML values. Raises ScheduleInvalid if the table is wrong; `where` names the table, and is the
    beginning of the error's sentence."""
    if not isinstance(table, dict):
        raise ScheduleInvalid(f"{where} must be a table with `run`, and `cron` or `every`.")
    known = [field for field in Schedule.__struct_fields__ if field != "name"]
    unknown = [str(key)[:50] for key in table if key not in known]
    if unknown:
        may = f"it may have {', '.join(known)}.{meant(unknown[0], known)}"
        raise ScheduleInvalid(f"{where} has {', '.join(unknown)}, which Holdfast does not know; {may}")
    if "run" not in table:
        raise ScheduleInvalid(f'{where} does not say what to run: run = "NAME" of a function, a worker or a pipeline.')
    try:
        return json_structs.converted({**table, "name": name}, Schedule)
    except msgspec.ValidationError as error:
        raise ScheduleInvalid(f"{where} is wrong: {wrong_value(error, Schedule)}.") from None


def page_schedule(worker_id: str, text: str) -> Schedule:
    """The schedule that a page's text describes: a cron expression and perhaps a zone, or `every` and an interval. It has the name of the
    worker; a name that is too long is cut, and ends with a hash."""
    name = worker_id
    if len(worker_id) > _LONGEST_NAME:
        name = f"{worker_id[:31]}-{blake2b(worker_id.encode(), digest_size=4).hexdigest()}"
    words = text.split()
    if words[:1] == ["every"]:
        return Schedule(name, worker_id, every=words[1], input={})
    return Schedule(name, worker_id, cron=" ".join(words[:5]), zone=words[5] if len(words) > 5 else "UTC", input={})


def _seconds(what: str, text: object) -> int:
    seconds = parsed(text)
    if seconds is None:
        raise ScheduleInvalid(f"`{what}` is {text!r:.80}. {HINT}")
    return seconds


def _catch_up(text: str) -> tuple[CatchUp, int]:
    word, _, most = text.partition(":")
    if not most:
        return _word(CatchUp, "catch_up", text), USUAL_CATCH_UP
    if word != "all" or not most.isdecimal() or len(most) > 4:
        raise ScheduleInvalid(
            f"`catch_up` is {text!r:.80}. Write latest, none, all, or all:N for the last N missed occurrences, N from 1 to 100."
        )
    return CatchUp.ALL, int(most)


def _word(words: Any, what: str, text: str) -> Any:
    try:
        return words(text)
    except ValueError:
        raise ScheduleInvalid(f"`{what}` is {text!r:.80}. Write one of {', '.join(word.value for word in words)}.") from None


def _moment(what: str, given: object) -> int | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    raise ScheduleInvalid(f"`{what}` is {str(given)!r:.80}. Write a time with its zone: 2026-03-01T00:00:00Z, or with +01:00 at its end.")


def span_of(words: tuple[str, str], begin: str, end: str, timing: Timing) -> tuple[int, int]:
    """The beginning and the end of a backfill, in milliseconds since 1970-01-01 UTC. `begin` and `end` are texts that a person wrote: times
    with their zones, or dates. A date means its first moment in the zone of the schedule. `words` are the names of the two values, for
    errors. Raises ScheduleInvalid if a text is neither."""
    found = [_moment(what, _first_of_day(text, timing)) for what, text in zip(words, (begin, end), strict=True)]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def _first_of_day(text: str, timing: Timing) -> str | datetime:
    """The first moment of a day in the schedule's zone, if the text is a date like 2026-03-01; else the text."""
    if not _DATE.fullmatch(text):
        return text
    try:
        return datetime.combine(date.fromisoformat(text), time(), zone_of(timing.zone))
    except ValueError:
        return text
