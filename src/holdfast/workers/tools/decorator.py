"""`@tool`: marks a function as a tool and does not change it. The tool host calls the function; the runner only reads the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from holdfast.hosts.toolhost.tool_call import ToolCall

Function = Callable[..., Any]


class DeclaredTool:
    """A function that workers may call through `ctx.tools`."""

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.holdfast_tool = name
        self.reconciler: Function | None = None
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<tool {self.holdfast_tool}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly with a ToolCall, for the author's own tests. A worker calls it through `ctx.tools`."""
        if not args or not isinstance(args[0], ToolCall):
            raise TypeError(
                f"Call the tool as ctx.tools.{self.holdfast_tool}(…): it runs outside the sandbox, with its secrets and a receipt."
            )
        return self.function(*args, **kwargs)

    def reconcile(self, function: Function) -> Function:
        """Marks the function that finds out the outcome of a lost call."""
        self.reconciler = function
        return function


@overload
def tool(function: Function, /) -> DeclaredTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: str = "write",
    secrets: Sequence[str] = (),
    approval: bool = False,
    timeout_seconds: float | None = None,
) -> Callable[[Function], DeclaredTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    effect: str = "write",
    secrets: Sequence[str] = (),
    approval: bool = False,
    timeout_seconds: float | None = None,
) -> DeclaredTool | Callable[[Function], DeclaredTool]:
    """Declare a tool. `effect` is `write` (the default: sent at most once) or `read`; `secrets` are the only ones it gets;
    `approval=True` has a person approve each call; at `timeout_seconds` its process is killed.

    The arguments must be literals: they are read from the source, because no author's code is imported next to the runner's keys.
    """

    def declare(function: Function) -> DeclaredTool:
        return DeclaredTool(function, name or function.__name__)

    return declare if function is None else declare(function)
