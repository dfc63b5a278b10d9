"""The events of a run from a server (`GET /v1/runs/{id}/events`). If the connection is lost, the command connects again and asks for the
events after the last event that it has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from holdfast.contract.refusals import Overloaded
from holdfast.model import codec
from holdfast.model.errors import AccessRefused, ExecutionNotFound, HoldfastError, InvalidParameter

_TRIES: Final = 10
"""After this many failed tries in a row, the command gives up."""
_AGAIN_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 60.0
"""A server sends something at least every 15 seconds. If nothing comes for this many seconds, the connection is taken to be lost."""
_MOST_LINE: Final = 32 * 1024 * 1024


class RemoteEvent(msgspec.Struct, frozen=True):
    """One event, as the server sent it."""

    id: int | str | None
    event: str
    data: Any

    @property
    def is_last(self) -> bool:
        """Whether no event of the run follows."""
        return self.event in ("done", "quarantined")


def remote_events(url: str, run: str, token: str | None, after: str | None) -> Iterator[RemoteEvent]:
    """The events of a run, until the run has ended or is quarantined; with `after`, only those after the event with this id. `token` is the
    bearer token to send; None: none is sent. If the connection is lost, it is made again.

    Raises Overloaded if 10 tries in a row fail: the connection, or an answer 429 or 503. If the server refuses, raises ExecutionNotFound
    (404), AccessRefused (401 and 403), or InvalidParameter (other statuses). Raises InvalidParameter also if `url` is not http or https,
    and if the server sends a line that is too long.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidParameter(f"--url: {url!r:.100} is not the address of a server, such as http://127.0.0.1:8080.")
    address = f"{url.rstrip('/')}/v1/runs/{quote(run, safe='')}/events"
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    failed = 0
    with httpx.Client(timeout=httpx.Timeout(10.0, read=_SILENT_SECONDS), trust_env=False) as client:
        while True:
            try:
                with client.stream("GET", address, headers=headers | ({} if after is None else {"last-event-id": after})) as response:
                    if response.status_code == 204:
                        return  # the run is over, and there is no event after `after`
                    _check(response, run)
                    for event in _events(response):
                        failed, after = 0, after if event.id is None else str(event.id)
                        yield event
                        if event.is_last:
                            return
            except (httpx.TransportError, Overloaded) as error:
                failed += 1
                if failed >= _TRIES:
                    raise _lost(url, run, error) from None
            threading.Event().wait(_AGAIN_SECONDS)  # a server that restarts needs a moment


def _lost(url: str, run: str, error: Exception) -> HoldfastError:
    why = str(error).strip().rstrip(".") or type(error).__name__
    return Overloaded(f"The server at {url} could not be reached {_TRIES} times in a row: {why}. This does not change the run {run}.")


def _check(response: httpx.Response, run: str) -> None:
    status = response.status_code
    if status == 200:
        return
    said = _said(response)
    if status == 404:
        raise ExecutionNotFound(said or f"The server has no run {run!r:.100}.")
    if status in (401, 403):
        raise AccessRefused(f"The server refused: {str(said or status).rstrip('.')}. Set HOLDFAST_TOKEN to a token that may see the run.")
    if status in (429, 503):
        raise Overloaded(said or f"The server answered {status}")
    raise InvalidParameter(f"The server answered {status}: {said or 'it did not say why'}")


def _said(response: httpx.Response) -> str:
    """The message in the body of a refusal, at most 500 characters; empty if there is none, or if it cannot be read."""
    try:
        document = codec.loads(response.read())
    except HoldfastError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    said = error.get("message") if isinstance(error, dict) else document.get("message") if isinstance(document, dict) else None
    return str(said or "")[:500]


def _events(response: httpx.Response) -> Iterator[RemoteEvent]:
    """The events that the server sends on one connection."""
    fields: dict[str, str] = {}
    for line in _lines(response):
        name, _, value = line.partition(":")
        if line and name:  # a line that begins with a colon is a comment
            fields[name] = value.removeprefix(" ")
        elif not line and "data" in fields:
            given = fields.get("id")
            id = int(given) if given is not None and given.isdecimal() else given
            yield RemoteEvent(id, fields.get("event", "message"), codec.loads(fields["data"]))
            fields = {}


def _lines(response: httpx.Response) -> Iterator[str]:
    waiting, searched = bytearray(), 0
    for piece in response.iter_bytes():
        waiting += piece
        while (end := waiting.find(b"\n", searched)) >= 0:
            yield waiting[:end].decode(errors="replace").rstrip("\r")
            del waiting[: end + 1]
            searched = 0
        searched = len(waiting)
        if searched > _MOST_LINE:
            raise InvalidParameter(f"The server sent a line of more than {_MOST_LINE:,} bytes.")
