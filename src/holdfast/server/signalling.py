"""What a server tells the world of executions: its stream of events, and the sinks that a file describes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter
from holdfast.model.signals import Subscriber
from holdfast.server.events import EventStream, with_events
from holdfast.signals.broadcast import Broadcaster
from holdfast.signals.sink_addresses import read_sinks
from holdfast.signals.webhook import Webhook
from holdfast.store.seam import Store
from holdfast.web.asgi import ASGIApp

STREAM: Final = "events"
"""The subscriber that the stream is, and so no sink's name."""


class Signalling:
    """The subscribers of a server. Use it with `async with`, around the engine that delivers to them."""

    def __init__(self, sinks: Mapping[str, Subscriber]) -> None:
        if STREAM in sinks:
            raise InvalidParameter(f"[{STREAM}] is the server's own stream. Give the sink another name.")
        self._sinks = sinks
        self._broadcaster = Broadcaster()
        self.subscribers: Mapping[str, Subscriber] = {STREAM: self._broadcaster, **sinks}

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None, environment: Mapping[str, str], clock: Clock) -> Signalling:
        """With the sinks of a file (signals.reading), if there is one."""
        return cls({} if path is None else read_sinks(path, environment, clock))

    def around(self, app: ASGIApp, store: Store) -> EventStream:
        """The app with its stream of events."""
        return with_events(app, self._broadcaster, store)

    def end(self) -> None:
        """End the streams: a server that leaves would wait for them."""
        self._broadcaster.close()

    async def __aenter__(self) -> Signalling:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()
        for sink in self._sinks.values():
            if isinstance(sink, Webhook):
                await sink.aclose()
