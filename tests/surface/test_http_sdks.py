"""Handlers of the official SDK and of ours, each far from its service: an event in, boto3 to a real server, an output out."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.app import make_app
from holdfast.web.listener import bound, listening
from tests.flow.cases import CASES, OFFICIAL, OURS, Case, Sdk, some_quick
from tests.flow.official.running import Ending, opened
from tests.flow.test_official_sdk import answer_early, assert_as_promised, assert_same_history, by_official, others, run
from tests.surface.http_server import AwayHost, Handler

every_case = some_quick(CASES.values())
OFTEN = [case for case in CASES.values() if case.rests >= 2]
every_case_that_rests_often = some_quick(OFTEN)


async def run_over_http(case: Case, root: str, *, page: int = 1000) -> Ending:
    """A case on a server of its own."""
    sdk = Sdk(root)

    def handlers(client: Any) -> Mapping[str, Handler]:
        decorate: Any = sdk.durable_execution
        sdk.durable_execution = functools.partial(decorate, boto3_client=client)
        return {"handler": case.make(sdk)}

    host = AwayHost(handlers, page=page)
    async with opened(lambda clock: host, others=others(case, sdk)) as running:
        listener = bound("127.0.0.1", 0)
        host.reach(f"http://127.0.0.1:{listener.getsockname()[1]}", running.engine.store.seal)
        async with listening(make_app(LambdaApi(running.engine)), listener, drain_seconds=1):
            execution = await running.start(case.event)
            await answer_early(case, sdk, running, execution)
            await running.drive(execution, copy.deepcopy(case.script))
            return running.ending(execution)


async def in_process(case: Case) -> Ending:
    sdk = Sdk(OFFICIAL)
    return await run(case, sdk, by_official(case, sdk))


@every_case
async def test_a_handler_of_the_official_sdk_leaves_the_same_history_over_http(case: Case) -> None:
    ending = await run_over_http(case, OFFICIAL)
    assert_as_promised(case, ending)
    # Whether the SDK sees an answer in the last moment of an invocation, or in the next one, is its luck on either side.
    assert_same_history(case, ending, await in_process(case))


@every_case_that_rests_often
async def test_a_handler_of_ours_that_reads_its_state_page_by_page_leaves_the_same_history(case: Case) -> None:
    ending = await run_over_http(case, OURS, page=1)
    assert_as_promised(case, ending)
    assert_same_history(case, ending, await in_process(case))
