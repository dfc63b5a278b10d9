"""EventBridge: puts events on an event bus of AWS."""

from __future__ import annotations

import os
from typing import Any

from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.model.errors import DeliveryFailed, ExtraMissing, InvalidParameter
from holdfast.model.signals import StatusSignal
from holdfast.signals.event import DETAIL_TYPE, EventBridgeEvent
from holdfast.signals.sinks import Sink, Wanted


class EventBridge(Sink):
    """Puts events on an event bus. The source of the events is `holdfast`, unless another one is given; AWS reserves the sources that begin
    with `aws.`. The detail type and the detail have the form of AWS's own events; the detail of a quarantine also has `quarantine`."""

    def __init__(
        self,
        bus: str = "default",
        *,
        source: str = "holdfast",
        region: str | None = None,
        client: Any = None,
        pattern: Wanted = None,
        dead_letters: str | os.PathLike[str] | None = None,
        tries: int = 10,
        clock: Clock | None = None,
    ) -> None:
        """`bus` is the name of the event bus, `source` the source that the events name, `region` the AWS region of a new client (None: the
        region in AWS's settings). `client` is a boto3 client for the service `events`; None: this sink makes one. `pattern`: which events
        are put on the bus; None means all. `dead_letters`: the path of a file that gets an event after `tries` failed tries, one after the
        other; None: a signal is tried again without a limit. `clock` None means the clock of this machine. Raises InvalidParameter or
        PatternInvalid if an argument is not valid, ExtraMissing if a client is needed and boto3 is not installed, and boto3's own error if
        boto3 cannot make a client, for example because no region is set."""
        if source.startswith("aws."):
            raise InvalidParameter(f"The source {source!r} begins with 'aws.', which is reserved for AWS. Choose another source.")
        super().__init__(f"EventBridge {bus}", pattern=pattern, dead_letters=dead_letters, tries=tries, clock=clock)
        self._bus = bus
        self._source = source
        self._client = client if client is not None else _new_client(region)

    def __call__(self, signal: StatusSignal) -> None:
        """Put the event of a signal on the bus, if the pattern wants it. Blocks. Raises DeliveryFailed if the event cannot be delivered.
        After `tries` failed tries of this signal, it writes a dead letter instead, if `dead_letters` was given."""
        event = self.wanted(signal)
        if event is None:
            return
        try:
            self._put(event)
        except DeliveryFailed as error:
            self.failed(signal, event, error)

    def _put(self, event: EventBridgeEvent) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        entry = {
            "Source": self._source,
            "DetailType": DETAIL_TYPE,
            "Detail": codec.dumps(event["detail"]),
            "EventBusName": self._bus,
            "Time": event["time"],
            "Resources": event["resources"],
        }
        try:
            answer = self._client.put_events(Entries=[entry])
        except (BotoCoreError, ClientError) as error:
            raise DeliveryFailed(f"{self._name} did not accept an event: {error}") from None
        if answer["FailedEntryCount"]:  # the call succeeded, but AWS refused the entry in it
            (failed,) = answer["Entries"]
            raise DeliveryFailed(f"{self._name} did not accept an event: {failed.get('ErrorCode')}: {failed.get('ErrorMessage')}")


def _new_client(region: str | None) -> Any:
    try:
        import boto3
    except ImportError:
        raise ExtraMissing("EventBridge needs the package `boto3`: pip install 'holdfast[aws]'.") from None
    return boto3.client("events", region_name=region)
