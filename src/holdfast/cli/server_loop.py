"""The event loop of a server: uvloop, which the extra `server` installs together with the other packages that a server needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.model.errors import ExtraMissing

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def server_loop(command: str) -> Callable[[], AbstractEventLoop]:
    """The function that makes the event loop of a server. Raises ExtraMissing, which names the command, if the packages of
    `holdfast[server]` are not installed."""
    try:
        import uvloop

        import holdfast.web.listener  # noqa: F401 (whether it can be imported is the question)
    except ImportError as missing:
        raise ExtraMissing(
            f"`{command}` needs packages that are installed on request: pip install 'holdfast[server]'. ({missing})"
        ) from None
    return uvloop.new_event_loop
