"""The client of a remote port: boto3's client, imported when it is first needed, or the client that a test runner puts into the event."""

from __future__ import annotations

import functools
import sys
from typing import Any, Protocol

from holdfast.durable.exceptions import ExecutionError
from holdfast.model.errors import ExtraMissing

_NO_BOTO3 = (
    "boto3 is not installed, so this durable function cannot reach the Lambda service. "
    "Install it with `pip install 'holdfast[aws]'`, or pass a client: `durable_execution(boto3_client=...)`."
)
_OLD_BOTO3 = (
    "This boto3 ({version}) is older than Lambda's durable functions. "
    "Pack a newer one with the function: `pip install --upgrade 'holdfast[aws]'`."
)


class LambdaClient(Protocol):
    """The two calls of boto3's Lambda client that a running function makes."""

    def checkpoint_durable_execution(self, **asked: Any) -> Any: ...
    def get_durable_execution_state(self, **asked: Any) -> Any: ...


@functools.cache
def default_client() -> LambdaClient:
    """boto3's Lambda client, made once for all invocations of this process. Raises ExtraMissing if boto3 is missing or too old."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise ExtraMissing(_NO_BOTO3) from None
    # The service may answer a checkpoint only after some tens of seconds; a connection that takes longer than 5 seconds will not come.
    config = Config(connect_timeout=5, read_timeout=50, user_agent_extra="holdfast")
    client: LambdaClient = boto3.client("lambda", config=config)
    if not hasattr(client, "checkpoint_durable_execution"):
        raise ExtraMissing(_OLD_BOTO3.format(version=boto3.__version__))
    return client


class InjectedClient:
    """Wraps the client that AWS's test runner puts into its event. It has the two methods of boto3's client that a running function needs.

    The test runner's client accepts updates only as objects of a class in the test runner's package, and answers with objects of that
    package. The class of the event is in the same package, so the class for updates is found from there, and Holdfast need not import the
    package.
    """

    def __init__(self, event: Any) -> None:
        modules = (sys.modules[kind.__module__] for kind in type(event).__mro__)
        update = next((found for module in modules if (found := getattr(module, "OperationUpdate", None)) is not None), None)
        if update is None:
            raise ExecutionError(
                f"The event ({type(event).__name__}) has a service client, but its package has no class OperationUpdate. Use another "
                f"version of AWS's test runner."
            )
        self._client = event.service_client
        self._update = update.from_dict

    def checkpoint_durable_execution(self, **asked: Any) -> Any:
        updates = [self._update(update) for update in asked["Updates"]]
        answer = self._client.checkpoint(asked["DurableExecutionArn"], asked["CheckpointToken"], updates, None)
        return {"CheckpointToken": answer.checkpoint_token, "NewExecutionState": _page(answer.new_execution_state)}

    def get_durable_execution_state(self, **asked: Any) -> Any:
        token, marker, most = asked["CheckpointToken"], asked["Marker"], asked["MaxItems"]
        return _page(self._client.get_execution_state(asked["DurableExecutionArn"], token, marker, most))


def _page(answer: Any) -> dict[str, Any]:
    return {"Operations": [operation.to_json_dict() for operation in answer.operations], "NextMarker": answer.next_marker}
