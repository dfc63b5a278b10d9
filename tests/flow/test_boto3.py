"""Our SDK in a Lambda runtime, with boto3, and our engine as the service: the same ends and histories, to the letter."""

from __future__ import annotations

from tests.flow.away import COLOURED, assert_same, at_home, coloured, handler
from tests.flow.cases import OURS, Case, Sdk
from tests.flow.official.lambda_runtime import LambdaRuntime
from tests.flow.official.running import Ending
from tests.flow.test_official_sdk import assert_as_promised, run


async def by_lambda(case: Case, colour: str, *, page: int = 1000) -> Ending:
    sdk = Sdk(OURS)
    function = handler(case, sdk, colour)
    return await run(case, sdk, lambda clock: LambdaRuntime(function, page=page))


@coloured(COLOURED)
async def test_a_handler_in_a_lambda_runtime_leaves_the_same_history(case: Case, colour: str) -> None:
    ending = await by_lambda(case, colour)
    assert_as_promised(case, ending)
    assert_same(case, ending, await at_home(case))


@coloured([(case, colour) for case, colour in COLOURED if case.rests])
async def test_a_handler_in_a_lambda_runtime_fetches_its_state_page_by_page(case: Case, colour: str) -> None:
    ending = await by_lambda(case, colour, page=1)
    assert_as_promised(case, ending)
    assert_same(case, ending, await at_home(case))
