"""Trace context goes out with what a call calls."""

from __future__ import annotations

import msgspec

from holdfast.hosts.toolhost.tool_call import ToolCall
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.seam import Remaining
from tests.tools.calls import a_call
from tests.tools.models import a_model

HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_model_is_told_below_which_span_it_is_asked() -> None:
    async with a_model() as model:
        tool = LanguageModel(ModelSettings(base_url=model.url, model="m"))
        arguments = {"prompt": "hello"}
        for traceparent in (HEADER, None):
            call = msgspec.structs.replace(a_call("language_model"), traceparent=traceparent)
            await tool.call(call, arguments, tool.reserve(arguments, Remaining()))
        await tool.close()
        sent = [asked.headers.get("traceparent") for asked in model.web.asked]
    assert sent == [HEADER, None]
    assert tool.model_of({"model": "other"}) == "other"


async def test_the_clients_of_an_authors_tool_send_it_along() -> None:
    call = ToolCall(run_id="r", tool="t", idempotency_key="k", traceparent=HEADER)
    assert call.http.headers["traceparent"] == call.async_http.headers["traceparent"] == call.traceparent == HEADER
    await call.aclose()
    plain = ToolCall(run_id="r", tool="t", idempotency_key="k")
    assert "traceparent" not in plain.http.headers
    await plain.aclose()
