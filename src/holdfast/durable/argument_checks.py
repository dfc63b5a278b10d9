"""Checks of the arguments of durable calls: a wrong argument raises ValidationError in the author's call, before anything is recorded. Some
values that the author's functions return during the call, such as delays and names, are checked in the same way.

A member of a text enum becomes a plain str, and an instance of a subclass of int a plain int: stores and the wire accept only these.

In the functions below, `call` is the name of the durable call and `what` the name of the argument, for the error message.
"""

from __future__ import annotations

import inspect
import math
from datetime import timedelta
from typing import Final

from holdfast.durable.author_lines import author_line
from holdfast.durable.exceptions import ValidationError

MAX_NAME: Final = 256
"""The most characters that the service accepts in the name of an operation."""


def name(given: object, call: str, what: str = "name") -> str | None:
    """The name of an operation as a plain str; None if `given` is None. Raises ValidationError if `given` is no str, has more than MAX_NAME
    characters, or has characters that a store cannot hold. `call` and `what` name the durable call and the argument in the message."""
    if given is None:
        return None
    text = given if type(given) is str else _plain(given, call, what)
    if len(text) > MAX_NAME:
        raise ValidationError(f"{call}: {what} has {len(text)} characters; a name has at most {MAX_NAME}.")
    if text.isascii() and "\0" not in text:
        return text
    return _written(text, call, what)


def text(given: object, call: str, what: str) -> str:
    """A required text as a plain str. Raises ValidationError for a value that is no str, or has characters that a store cannot hold. `call`
    and `what` name the durable call and the argument in the message."""
    return _written(given if type(given) is str else _plain(given, call, what), call, what)


def optional_text(given: object, call: str, what: str) -> str | None:
    """An optional text as a plain str; None if `given` is None. Raises the errors that `text` raises for any other value."""
    return None if given is None else text(given, call, what)


def seconds(duration: object, call: str, what: str = "duration") -> int:
    """The whole seconds of a Duration, or of any object with `to_seconds()`. Raises ValidationError for any other value, and if
    `to_seconds()` returns no finite number. `call` and `what` name the durable call and the argument in the message."""
    say = getattr(duration, "to_seconds", None)
    if not callable(say):
        raise _refused(f"{call}: {what} is {shown(duration)}, at {author_line()}. {_as_duration(duration, call, what)}")
    return whole(say(), call, what)


def _as_duration(given: object, call: str, what: str) -> str:
    """The part of an error message that says how to write the argument as a Duration."""
    if isinstance(given, timedelta):
        cure = "Duration.from_seconds(the_timedelta.total_seconds())"
    else:
        number = given if isinstance(given, int | float) and not isinstance(given, bool) else 5
        cure = f"Duration.from_seconds({number})"
    there = f"context.{call}({cure})" if what == "duration" else f"{what}={cure}"
    return f"It must be a Duration: write `{there}`, with `from holdfast import Duration`."


def function(given: object, call: str, what: str = "its function") -> None:
    """Raise ValidationError for an object that cannot be called, and for a function under @durable_step or a similar decorator that was not
    called with its arguments. `call` and `what` name the durable call and the argument in the message."""
    decorator = getattr(given, "_binds_arguments", None)
    if decorator is not None:
        called = getattr(given, "__name__", "f")
        raise _refused(
            f"{call}: {called} is a @{decorator} that was not called, at {author_line()}. Write `{called}(...)`, with its arguments and "
            f"without its context: `context.{call}({'[' if call == 'parallel' else ''}{called}(...){']' if call == 'parallel' else ''})`."
        )
    if not callable(given):
        hint = "Pass the function itself, without calling it." if inspect.iscoroutine(given) else "It must be a function."
        if inspect.iscoroutine(given):
            given.close()  # so that Python does not also warn about the coroutine
        raise _refused(f"{call}: {what} is {shown(given)}, at {author_line()}. {hint}")


def address(given: object, call: str, what: str) -> str:
    """The name of a function to invoke, as a plain str. Raises ValidationError for an ordinary Python function, for any other value that is
    no str, and for characters that a store cannot hold. `call` and `what` name the durable call and the argument in the message."""
    if not isinstance(given, str) and callable(given):
        called = getattr(given, "__name__", type(given).__name__)
        decorator = getattr(given, "_binds_arguments", None)
        cure = "" if decorator is None else f" To run the @{decorator} here, write `context.step({called}(...))`."
        raise _refused(
            f"{call}: {called} is not a durable function, at {author_line()}. Pass a function under @durable_execution or "
            f"@plain_function, or the name of one.{cure}"
        )
    return text(given, call, what)


def _refused(message: str) -> ValidationError:
    """A ValidationError with this message. The message already names the author's line, so the line is not added to it again."""
    error = ValidationError(message)
    error.tells_line = True
    return error


def whole(given: object, call: str, what: str) -> int:
    """A number of seconds as an int; fractions are cut off. Raises ValidationError for a value that is no finite number. `call` and `what`
    name the durable call and the argument in the message."""
    if type(given) is int:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValidationError(f"{call}: {what} is {shown(given)}; it must be a finite number of seconds.")
    return int(given)


def shown(given: object) -> str:
    """At most 60 characters of a value's `repr`, and the name of its type, for a message. If `repr` raises, the words `a value` stand in
    its place."""
    try:
        said = f"{given!r:.60}"
    except Exception:  # a user's __repr__ is user code
        said = "a value"
    return f"{said} ({type(given).__name__})"


def _plain(given: object, call: str, what: str) -> str:
    if not isinstance(given, str):
        raise ValidationError(f"{call}: {what} is {shown(given)}; it must be a str.")
    return str.__str__(given)


def _written(text: str, call: str, what: str) -> str:
    """The text itself. Raises ValidationError if a store cannot hold it: if it is not valid Unicode or has a NUL character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(f"{call}: {what} is not valid Unicode: {error.reason} (at character {error.start}).") from None
    if "\0" in text:
        raise ValidationError(f"{call}: {what} has a NUL character (at character {text.index(chr(0))}), which is not allowed.")
    return text
