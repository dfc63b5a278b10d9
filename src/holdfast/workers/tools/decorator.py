"""`@tool`: declares a function as a tool. A process that the runner starts for tools, outside the sandbox, calls the function; the runner
itself only reads the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from holdfast.hosts.toolhost.tool_call import ToolCall

ToolFunction = Callable[..., Any]


class DeclaredTool:
    """A function that workers call through `ctx.tools`."""

    def __init__(self, function: ToolFunction, name: str) -> None:
        self.function = function
        self.holdfast_tool = name
        self.reconciler: ToolFunction | None = None
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<tool {self.holdfast_tool}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, in the author's own tests. Raises TypeError if the first argument is not a ToolCall. (A worker's body
        calls the tool through `ctx.tools` instead.)"""
        if not args or not isinstance(args[0], ToolCall):
            raise TypeError(
                f"Call the tool as ctx.tools.{self.holdfast_tool}(…): it runs outside the sandbox, with its secrets and a receipt. "
                "In a test, pass a ToolCall as the first argument."
            )
        return self.function(*args, **kwargs)

    def reconcile(self, function: ToolFunction) -> ToolFunction:
        """Declare the function that finds out whether a call took place whose answer was lost. Used as a decorator:
        `@my_tool.reconcile`."""
        self.reconciler = function
        return function


@overload
def tool(function: ToolFunction, /) -> DeclaredTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: str = "write",
    secrets: Sequence[str] = (),
    approval: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[ToolFunction], DeclaredTool]: ...


def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    effect: str = "write",
    secrets: Sequence[str] = (),
    approval: bool = False,
    timeout_seconds: float | None = None,
) -> DeclaredTool | Callable[[ToolFunction], DeclaredTool]:
    """Declare a tool: a function outside the sandbox that a worker may call. Workers call it by `name`, or, without `name`, by the name of
    the function.

    `effect` is `write` or `read`. A call of a `write` is repeated only if it is known that it did not take place, for example because the
    function raised an error (not a timeout, a lost connection or an HTTP status 5xx), or because the reconcile function or a person says
    so. A call of a `read` may always be repeated. `secrets` are the names of the secrets that the tool gets. With `approval=True` a person
    must approve each call. A call that takes longer than `timeout_seconds` is ended: its process is killed.

    The arguments must be literals, because the runner reads them from the source and does not run it.
    """

    def declare(function: ToolFunction) -> DeclaredTool:
        return DeclaredTool(function, name or function.__name__)

    return declare if function is None else declare(function)
