"""botocore's own model of the operations that read logs, walked: every member is sent, and comes back but for those said not to."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.surface.serve_program import DATA, Program, programs
from tests.surface.test_http_model import Member, members, present
from tests.surface.test_logs_serve import aws

OPERATIONS = ["FilterLogEvents", "GetLogEvents", "DescribeLogGroups", "DescribeLogStreams"]
IGNORED = {"interleaved", "unmask", "accountIdentifiers", "includeLinkedAccounts"}
NEVER: dict[str, set[Member]] = {
    "FilterLogEvents": {("SearchedLogStream", "logStreamName"), ("SearchedLogStream", "searchedCompletely")},
    "DescribeLogGroups": {
        ("LogGroup", "kmsKeyId"),
        ("LogGroup", "dataProtectionStatus"),
        ("LogGroup", "inheritedProperties"),
        ("LogGroup", "retentionPolicyName"),
    },
    "DescribeLogStreams": {("LogStream", "uploadSequenceToken")},
}
GROUP = "/aws/lambda/process-order"


class Witness:
    """Everything that can be asked, and what came back."""

    def __init__(self, logs: Any) -> None:
        self.sent: dict[str, set[Member]] = {name: set() for name in OPERATIONS}
        self.got: dict[str, set[Member]] = {name: set() for name in OPERATIONS}
        self.model = logs.meta.service_model
        logs.meta.events.register("provide-client-params.logs.*", self._sends)
        logs.meta.events.register("after-call.logs.*", self._gets)

    def _sends(self, params: Any, model: Any, **_: Any) -> None:
        self.sent[model.name] |= set(present(model.input_shape, params))

    def _gets(self, parsed: Any, model: Any, **_: Any) -> None:
        self.got[model.name] |= set(present(model.output_shape, parsed))


def live(server: Program) -> None:
    """Two functions, and two processes of one of them."""
    server.invoke("Tax", {"price": 1})
    for qualifier in ("live", "$LATEST"):
        arn = server.invoke(f"process-order:{qualifier}", {"order_id": "1"}, InvocationType="Event")["DurableExecutionArn"]
        server.approve(arn)
        server.ended(arn)


def ask_everything(logs: Any) -> None:
    asked: dict[str, Any] = {"filterPattern": "START", "interleaved": True}
    asked |= {"startTime": 0, "endTime": 1 << 45, "limit": 1, "startFromHead": True, "unmask": False}
    page = logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix="2", **asked)
    logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix="2", **asked, nextToken=page["nextToken"])
    stream = logs.describe_log_streams(logGroupName=GROUP)["logStreams"][0]["logStreamName"]
    assert logs.filter_log_events(logGroupIdentifier=GROUP, logStreamNames=[stream], **asked)["events"]
    del asked["filterPattern"], asked["interleaved"]
    got = logs.get_log_events(logGroupName=GROUP, logStreamName=stream, **asked)
    logs.get_log_events(logGroupIdentifier=GROUP, logStreamName=stream, nextToken=got["nextForwardToken"])
    listed: dict[str, Any] = {"limit": 1, "descending": True}
    first = logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="2", orderBy="LogStreamName", **listed)
    again = {"logStreamNamePrefix": "2", "orderBy": "LogStreamName", "nextToken": first["nextToken"]}
    second = logs.describe_log_streams(logGroupIdentifier=GROUP, **again, **listed)
    assert first["logStreams"] != second["logStreams"]
    more: dict[str, Any] = {"limit": 1, "logGroupClass": "STANDARD", "accountIdentifiers": ["000000000000"], "includeLinkedAccounts": True}
    begun = logs.describe_log_groups(logGroupNamePrefix="/aws/", **more)
    rest = logs.describe_log_groups(logGroupNamePrefix="/aws/", **more, nextToken=begun["nextToken"])
    assert [one["logGroupName"] for one in begun["logGroups"] + rest["logGroups"]] == ["/aws/lambda/Tax", GROUP]
    assert [one["logGroupName"] for one in logs.describe_log_groups(logGroupNamePattern="order")["logGroups"]] == [GROUP]
    (named,) = logs.describe_log_groups(logGroupIdentifiers=[begun["logGroups"][0]["arn"]])["logGroups"]
    assert named == begun["logGroups"][0]
    assert logs.describe_log_groups(logGroupClass="DELIVERY")["logGroups"] == []
    for name in ("describe_log_groups", "describe_log_streams"):
        group = {} if name.endswith("groups") else {"logGroupName": GROUP}
        pages = list(logs.get_paginator(name).paginate(**group, PaginationConfig={"PageSize": 1}))
        assert len(pages) >= 2


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    folder = tmp_path_factory.mktemp("logs")
    shutil.copytree(DATA / "orders", folder / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    with programs(folder) as serve:
        server = serve("orders")
        live(server)
        with aws(server) as logs:
            seen = Witness(logs)
            ask_everything(logs)
            yield seen


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_input_member_of_the_model_is_accepted(witness: Witness, operation: str) -> None:
    assert members(witness.model.operation_model(operation).input_shape) - witness.sent[operation] == set()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_output_member_of_the_model_appears(witness: Witness, operation: str) -> None:
    missing = members(witness.model.operation_model(operation).output_shape) - witness.got[operation]
    assert missing == NEVER.get(operation, set())


def test_every_operation_and_what_it_leaves_out_is_documented() -> None:
    page = (ROOT / "docs/reference/http.md").read_text()
    (section,) = re.findall(r"^## Logs\n(.*?)(?=^## )", page, re.M | re.S)
    left_out = {member for missing in NEVER.values() for shape, member in missing if shape != "SearchedLogStream"}
    for word in (*OPERATIONS, *IGNORED, *left_out, "searchedLogStreams"):
        assert f"`{word}`" in section, word
