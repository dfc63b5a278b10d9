"""The subscribers of a server, which get the signals of executions: its stream of events, and the sinks that a file describes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter
from holdfast.model.signals import Subscriber
from holdfast.server.events import Events, EventsStore
from holdfast.signals.broadcast import Broadcaster
from holdfast.signals.sink_addresses import read_sinks
from holdfast.signals.sinks import Sink
from holdfast.signals.webhook import Webhook
from holdfast.web.routing import Route

STREAM: Final = "events"
"""The name of the subscriber for the stream of events. No sink may have this name."""


class ServerSubscribers:
    """All subscribers of one server. Use it with `async with`, around the engine that delivers signals to the subscribers. At the end, the
    streams and the connections of webhooks are closed."""

    def __init__(self, sinks: Mapping[str, Subscriber]) -> None:
        if STREAM in sinks:
            raise InvalidParameter(f"[{STREAM}] is the server's own stream. Give the sink another name.")
        self._sinks = sinks
        self._broadcaster = Broadcaster()
        self.subscribers: Mapping[str, Subscriber] = {STREAM: self._broadcaster, **sinks}

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None, environment: Mapping[str, str], clock: Clock) -> ServerSubscribers:
        """The subscribers of a server: the stream of events, and the sinks that the file `path` describes (signals.sink_addresses). If
        `path` is None, there are no sinks."""
        return cls({} if path is None else read_sinks(path, environment, clock))

    def routes(self, store: EventsStore) -> list[Route]:
        return Events(self._broadcaster, store).routes()

    def dead_letters(self, most: int) -> dict[str, list[dict[str, Any]]]:
        """For each sink that can have dead letters, by its name: the newest signals that it could not deliver and will not try again, at
        most `most` for each sink; none for a sink without a file for them. Blocks."""
        sinks: Mapping[str, object] = self._sinks
        return {name: sink.dead_letters(most) for name, sink in sinks.items() if isinstance(sink, Sink)}

    def end(self) -> None:
        """End all streams of events. Without this call, a server that shuts down would wait for the streams."""
        self._broadcaster.close()

    async def __aenter__(self) -> ServerSubscribers:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()
        for sink in self._sinks.values():
            if isinstance(sink, Webhook):
                await sink.aclose()
