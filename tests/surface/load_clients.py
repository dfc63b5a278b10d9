"""boto3 clients that put a server under load, and do not care whether it is killed: their own retries carry them over.

Each client invokes functions of data/load, answers what they ask, and keeps what it was told. `Outside` writes checkpoints itself, from
another process than the function's.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from botocore.config import Config

from tests.surface.serve_program import until

COUNT = 6
"""Checkpoints of a raw function."""
WORK_SECONDS = 0.05
"""How long a step takes."""
PATIENCE_SECONDS = 90.0


@contextlib.contextmanager
def patient(url: str) -> Iterator[Any]:
    """A client with boto3's standard retries, enough of them for a server that comes back."""
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    config = Config(retries={"mode": "standard", "total_max_attempts": 30}, read_timeout=PATIENCE_SECONDS)
    made = boto3.client("lambda", region_name="us-east-1", endpoint_url=url, config=config, **keys)
    with contextlib.closing(made):
        yield made


class Kept(NamedTuple):
    """What a client knows about an execution that has ended well."""

    name: str
    function: str
    arn: str
    result: list[str]


class Client(threading.Thread):
    """One client: so many executions, one after the other."""

    def __init__(self, url: str, number: int, count: int, journal: Path) -> None:
        super().__init__(name=f"client-{number}")
        self._url = url
        self._names = [f"client-{number}-{each}" for each in range(count)]
        self._kinds = [(self._walk, self._ask, self._raw)[(number + each) % 3] for each in range(count)]
        self._journal = str(journal)
        self.kept: list[Kept] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Do all of it, or keep why not."""
        try:
            with patient(self._url) as client:
                for name, kind in zip(self._names, self._kinds, strict=True):
                    self.kept.append(kind(client, name))
        except BaseException as error:
            self.failed = error

    def _invoke(self, client: Any, function: str, name: str, how: str, **more: Any) -> Any:
        payload = json.dumps({"journal": self._journal, "name": name, "work": WORK_SECONDS, **more})
        asked = {"FunctionName": f"{function}:live", "InvocationType": how, "DurableExecutionName": name}
        return client.invoke(Payload=payload, **asked)

    def _walk(self, client: Any, name: str) -> Kept:
        answer = self._invoke(client, "walk", name, "RequestResponse")
        with contextlib.closing(answer["Payload"]) as stream:
            result = json.loads(stream.read())
        assert "FunctionError" not in answer, result
        return Kept(name, "walk", answer["DurableExecutionArn"], result)

    def _ask(self, client: Any, name: str) -> Kept:
        arn = self._invoke(client, "ask", name, "Event")["DurableExecutionArn"]

        def waits() -> str | None:
            for event in client.get_durable_execution_history(DurableExecutionArn=arn)["Events"]:
                if event["EventType"] == "CallbackStarted":
                    found: str = event["CallbackStartedDetails"]["CallbackId"]
                    return found
            return None

        callback = until(waits, f"the callback of {name}", PATIENCE_SECONDS)
        # A retry of an answer that was taken is told so.
        with contextlib.suppress(client.exceptions.CallbackTimeoutException):
            client.send_durable_execution_callback_success(CallbackId=callback, Result=f"answer of {name}".encode())
        return Kept(name, "ask", arn, self._ended(client, arn))

    def _raw(self, client: Any, name: str) -> Kept:
        arn = self._invoke(client, "raw", name, "Event", count=COUNT)["DurableExecutionArn"]
        return Kept(name, "raw", arn, self._ended(client, arn))

    def _ended(self, client: Any, arn: str) -> list[str]:
        def over() -> Any:
            found = client.get_durable_execution(DurableExecutionArn=arn)
            return None if found["Status"] == "RUNNING" else found

        found = until(over, f"the end of {arn}", PATIENCE_SECONDS)
        assert found["Status"] == "SUCCEEDED", found
        result: list[str] = json.loads(found["Result"])
        return result


class Outside(threading.Thread):
    """Writes checkpoints with the tokens of a function that only holds still, until there are enough; keeps what was acknowledged."""

    def __init__(self, url: str, place: Path) -> None:
        super().__init__(name="outside")
        place.mkdir()
        self._url = url
        self._place = place
        self._events: set[Path] = set()
        self.acknowledged: dict[str, str] = {}
        self.stale = 0
        self.enough = threading.Event()
        self.arn = ""
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Write until the execution has ended, or keep why not."""
        try:
            with patient(self._url) as client:
                payload = json.dumps({"place": str(self._place)})
                asked = {"FunctionName": "held:live", "InvocationType": "Event", "DurableExecutionName": "outside"}
                self.arn = client.invoke(Payload=payload, **asked)["DurableExecutionArn"]
                while not self._written(client):
                    self.stale += 1
        except BaseException as error:
            self.failed = error
        finally:
            (self._place / "done").touch()

    def _written(self, client: Any) -> bool:
        """Go on with the newest invocation; False when it is not the newest any more."""
        event = until(self._handed_out, "another invocation", PATIENCE_SECONDS)
        _, *operations = event["InitialExecutionState"]["Operations"]
        done = {operation["Name"]: operation["StepDetails"]["Result"] for operation in operations}
        assert self.acknowledged.items() <= done.items(), "a new invocation is told of everything that was acknowledged"
        token = event["CheckpointToken"]
        self.acknowledged |= done  # what was committed last may have lost its answer with the server
        while not self.enough.wait(WORK_SECONDS):
            number = len(self.acknowledged)
            name, value = f"outside-{number}", f"{number} of {self.stale}"
            update = {"Id": name, "Name": name, "Type": "STEP", "Action": "SUCCEED", "Payload": value}
            asked = {"DurableExecutionArn": self.arn, "CheckpointToken": token, "ClientToken": f"{self.stale}-{number}"}
            try:
                answer = client.checkpoint_durable_execution(Updates=[update], **asked)
            except client.exceptions.InvalidParameterValueException as error:
                if error.response["Error"]["Message"] != "Invalid checkpoint token":
                    raise
                return False
            self.acknowledged[name] = value
            token = answer["CheckpointToken"]
        end = {"Id": "end", "Type": "EXECUTION", "Action": "SUCCEED", "Payload": json.dumps(list(self.acknowledged.values()))}
        with contextlib.suppress(client.exceptions.InvalidParameterValueException):
            client.checkpoint_durable_execution(DurableExecutionArn=self.arn, CheckpointToken=token, Updates=[end], ClientToken="end")
        return bool(client.get_durable_execution(DurableExecutionArn=self.arn)["Status"] == "SUCCEEDED")

    def _handed_out(self) -> Any:
        new = set(self._place.glob("*.json")) - self._events
        if not new:
            return None
        newest = max(new, key=lambda path: path.stat().st_mtime_ns)
        self._events |= new
        return json.loads(newest.read_text())
