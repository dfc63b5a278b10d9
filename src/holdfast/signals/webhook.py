"""Webhooks: a sink that sends each event by POST, with a signature."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.model.errors import DeliveryFailed, ExtraMissing, InvalidParameter
from holdfast.model.signals import StatusSignal
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.event import EventBridgeEvent
from holdfast.signals.signatures import key_of, signature
from holdfast.signals.sinks import Sink, Wanted

if TYPE_CHECKING:
    import httpx

_ANSWER_BYTES: Final = 64 * 1024
"""At most about this many bytes of an answer are read. They are not used; reading them lets the connection be used again."""

_is_sending: Final = ContextVar("holdfast_webhook_is_sending", default=False)


def _may_be_logged(record: logging.LogRecord) -> bool:
    """A filter for the log of httpx, which writes the whole address of each request at level INFO: the address of a webhook may contain
    secrets, so the lines about requests of webhooks are dropped."""
    return not _is_sending.get()


class Webhook(Sink):
    """Sends each event to an address, in a request of its own. A status from 200 to 299 means that the receiver accepted the event; any
    other status is a failed delivery. A redirect is not followed: give the final address. An address may contain secrets, so errors and
    logs show only its scheme, host and port; the lines that httpx logs about these requests are dropped."""

    def __init__(
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        pattern: Wanted = None,
        dead_letters: str | os.PathLike[str] | None = None,
        tries: int = 10,
        timeout_seconds: float = 10.0,
        clock: Clock | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """`secret`: one secret or several. With several, each request has one signature for each secret, so that receivers can change from
        the old secret to the new one. `pattern`: which events are sent; None means all. `dead_letters`: the path of a file that gets an
        event after `tries` failed tries, one after the other; None: a signal is tried again without a limit. `clock` None means the clock
        of this machine. `timeout_seconds`: how long a request may take until the status of the answer arrives. `client`: a client of the
        caller, for example with proxies or certificates, which the caller must close; None: this sink makes a client. Raises
        InvalidParameter or PatternInvalid if an argument is not valid, and ExtraMissing if a client is needed and httpx is not
        installed."""
        self._host = _host_of(url)
        super().__init__(self._host, pattern=pattern, dead_letters=dead_letters, tries=tries, clock=clock)
        self._url = url
        self._keys = [key_of(each) for each in ([secret] if isinstance(secret, str) else secret)]
        if not self._keys:
            raise InvalidParameter("A webhook needs at least one secret to sign its events; the list of secrets is empty.")
        self._timeout_seconds = timeout_seconds
        self._own = client is None
        self._client = client or _new_client()
        logging.getLogger("httpx").addFilter(_may_be_logged)  # the same filter is added only once

    async def __call__(self, signal: StatusSignal) -> None:
        """Send the event of a signal, if the pattern wants it. Raises DeliveryFailed if the event cannot be delivered, or if the receiver
        does not accept it. After `tries` failed tries of this signal, it writes a dead letter instead, if `dead_letters` was given."""
        event = self.wanted(signal)
        if event is None:
            return
        try:
            await self._send(event)
        except DeliveryFailed as error:
            await in_thread(Purpose.STORE, self.failed, signal, event, error)

    async def aclose(self) -> None:
        """Close the client that this sink made, with its connections. A client that the caller passed to `__init__` is not closed."""
        if self._own:
            await self._client.aclose()

    async def _send(self, event: EventBridgeEvent) -> None:
        body = codec.dumps(event).encode()
        now = self._clock.now() // 1000
        headers = {
            "content-type": "application/json",
            "user-agent": "holdfast",
            "webhook-id": event["id"],
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._keys, event["id"], now, body),
        }
        status, sending = 0, _is_sending.set(True)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                request = self._client.stream("POST", self._url, content=body, headers=headers, follow_redirects=False)
                async with request as answer:
                    status = answer.status_code
                    await _skim(answer)
        except TimeoutError:
            if not status:  # with a status, the receiver has answered, and the rest of its answer does not matter
                raise DeliveryFailed(f"{self._host} did not answer within {self._timeout_seconds:g} seconds.") from None
        except Exception as error:  # the text of any error may have the address in it
            if not status:
                raise DeliveryFailed(f"{self._host} could not be reached, or gave no valid answer: {type(error).__name__}.") from None
        finally:
            _is_sending.reset(sending)
        if 300 <= status < 400:
            raise DeliveryFailed(f"{self._host} answered {status}, a redirect, which is not followed. Give the final address.")
        if not 200 <= status < 300:
            raise DeliveryFailed(f"{self._host} answered {status}.")


async def _skim(answer: httpx.Response) -> None:
    if answer.is_stream_consumed:
        return
    read = 0
    async for chunk in answer.aiter_raw():
        read += len(chunk)
        if read > _ANSWER_BYTES:
            return


def _host_of(url: str) -> str:
    """The scheme, the host and the port of an address, as `https://host:port`; messages may show these. Raises InvalidParameter if the
    address is not a valid URL, does not begin with http:// or https://, or has no host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidParameter("The webhook's address is not a valid URL. Write https://host/path.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidParameter("A webhook's address must begin with https:// or http:// and name a host.")
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _new_client() -> httpx.AsyncClient:
    """A client that does not use settings of the environment: no proxies from environment variables, and no passwords from a .netrc
    file."""
    try:
        import httpx
    except ImportError:
        raise ExtraMissing("Webhooks need the package `httpx`: pip install 'holdfast[server]'.") from None
    return httpx.AsyncClient(trust_env=False)
