"""Names: ids, ARNs, and the position that a checkpoint token stands for (seal.py makes the token)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from holdfast.model.errors import InvalidParameter

LATEST = "$LATEST"
REGION, ACCOUNT = "local", "000000000000"
_ARN = re.compile(
    r"arn:(?P<partition>[a-zA-Z0-9-]+):lambda:(?P<region>[a-zA-Z0-9-]+):(?P<account>[0-9]{12}):function:(?P<function>[a-zA-Z0-9_-]+)"
    r":(?P<version>\$LATEST(?:\.PUBLISHED)?|[0-9]+)/durable-execution/(?P<name>[a-zA-Z0-9_-]+)/(?P<id>[a-zA-Z0-9_-]+)"
)
_FUNCTION = re.compile(
    r"(?:(?:arn:[a-zA-Z0-9-]+:lambda:(?P<region>[a-zA-Z0-9-]+):)?(?P<account>[0-9]{12}):)?(?:function:)?(?P<name>[a-zA-Z0-9_-]{1,64})"
    r"(?::(?P<version>\$LATEST|[a-zA-Z0-9_-]+))?"
)
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_EXECUTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VERSION = re.compile(r"\$LATEST|[1-9][0-9]*")
_IDS_PER_MS = 1 << 12

IdSource = Callable[[int], str]
"""Makes a new id; its argument is the current time in milliseconds since 1970-01-01 UTC."""


class Ids:
    """Makes UUIDs of version 7. Each is greater than those made before it: they begin with the time, and ids of the same millisecond have a
    counter.

    Because ids grow with time, the rows of new executions are next to each other in the store, and a list with the newest first needs no
    second index.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._last = 0
        self._count = 0

    def __call__(self, now: int) -> str:
        """A new id for the time `now` (milliseconds). It is greater than all ids that this object made before."""
        if now > self._last:
            self._last, self._count = now, 0
        else:
            self._count += 1
            if self._count >= _IDS_PER_MS:
                self._last, self._count = self._last + 1, 0
        text = f"{self._last:012x}7{self._count:03x}{self._chance.getrandbits(62) | 1 << 63:016x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_chance = Random(os.urandom(32))
os.register_at_fork(after_in_child=lambda: _chance.seed(os.urandom(32)))
id_at: IdSource = Ids(_chance)
"""Makes the ids of this process."""


def new_trace_id() -> str:
    """The id of a new trace, as W3C Trace Context defines it."""
    return f"{_chance.getrandbits(128) or 1:032x}"


def new_span_id() -> str:
    """The id of a new span, as W3C Trace Context defines it."""
    return f"{_chance.getrandbits(64) or 1:016x}"


class Arn(NamedTuple):
    """The parts of an execution's ARN that Holdfast uses. `str()` gives the ARN, always with the same region and account."""

    function: str
    version: str
    name: str
    id: str

    def __str__(self) -> str:
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}:{self.version}/durable-execution/{self.name}/{self.id}"

    @classmethod
    def parse(cls, text: object) -> Arn:
        """Read an execution ARN, of any region and account. Raises InvalidParameter if the text is not the ARN of a durable execution."""
        found = _ARN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidParameter(f"Not the ARN of a durable execution: {text!r}")
        return cls(found["function"], found["version"], found["name"], found["id"])


class FunctionName(NamedTuple):
    """The function that a caller names, by its name or its ARN, and the version or alias if the caller gave one."""

    name: str
    version: str | None
    """The version or alias; None if the caller gave none."""

    @classmethod
    def parse(cls, text: object) -> FunctionName:
        """Read a function's name, partial ARN or ARN. Raises InvalidParameter for any other text, and for an ARN whose account or region is
        not Holdfast's fixed one."""
        found = _FUNCTION.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidParameter(f"Not a function's name or ARN: {text!r}")
        if found["account"] not in (None, ACCOUNT):
            raise InvalidParameter("Cannot start a CHAINED_INVOKE on a function in another account.")
        if found["region"] not in (None, REGION):
            raise InvalidParameter("Cannot start a CHAINED_INVOKE on a function in another region.")
        return cls(found["name"], found["version"])


def checked_function(name: object) -> str:
    """The name itself. Raises InvalidParameter if it is not a function name that fits into an ARN."""
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise InvalidParameter(f"Function name {name!r}: use 1 to 64 letters, digits, '-' or '_'.")
    return name


def checked_name(name: object, what: str = "Execution name") -> str:
    """The name itself. Raises InvalidParameter if it is not an execution name that fits into an ARN; the error calls it `what`."""
    if not isinstance(name, str) or not _EXECUTION_NAME.fullmatch(name):
        raise InvalidParameter(f"{what} {name!r:.100}: use 1 to 64 letters, digits, '-' or '_'.")
    return name


def checked_key(key: str | None) -> str | None:
    """The idempotency key of an enqueue, or None. The key becomes the name of the execution, so it must be allowed as such a name;
    otherwise this raises InvalidParameter."""
    return None if key is None else checked_name(key, "Idempotency key")


def checked_mention(execution: object) -> str:
    """The text by which a caller names an execution (its ARN, its id or its name), returned unchanged. Raises InvalidParameter if it is not
    a str. Whether there is such an execution is not checked."""
    if not isinstance(execution, str):
        raise InvalidParameter(f"Name an execution by a text, such as its ARN or its id; {execution!r:.100} is not a str.")
    return execution


def checked_version(version: int | str) -> str:
    """The version as text. Raises InvalidParameter if it is neither `$LATEST` nor a positive integer."""
    text = str(version)
    if not _VERSION.fullmatch(text):
        raise InvalidParameter(f"Version {version!r}: use a positive integer or '{LATEST}'.")
    return text


class Position(NamedTuple):
    """The content of a checkpoint token: which write of which invocation comes next, and up to which revision its sender has read.

    Inside a process this value is the token itself. Before it leaves the process, it is sealed (seal.py).
    """

    execution: str
    """The execution's id."""
    epoch: int
    """The epoch of the invocation."""
    sequence: int
    """How many checkpoints the invocation has written so far."""
    revision: int
    """The execution's revision up to which the sender has read the operations."""
