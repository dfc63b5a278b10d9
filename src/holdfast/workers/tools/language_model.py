"""language_model: asks a model on any server that speaks the OpenAI protocol. It limits the length of the answer, and counts the cost.

- `reserve` estimates the tokens of the input, limits the tokens of the output to what the budget leaves, and computes the price of both.
- `call` sends the limit to the server, reads the answer while the server writes it, and checks it against its schema. It charges what the
  server counted or, if the server reports no count, an estimate.

With a `schema` the result is the JSON value of the answer; without one it is the text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.model import codec
from holdfast.model.clock import monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.listed_prices import listed_price
from holdfast.workers.tools.model_answers import answered, count_of, failed, parts_of, value_of
from holdfast.workers.tools.model_exchange import HEADERS, Exchange, check_plain, current, limited, watched
from holdfast.workers.tools.model_streams import WholeAnswer, answer_of
from holdfast.workers.tools.prices import Price
from holdfast.workers.tools.schema_checks import check_schema
from holdfast.workers.tools.seam import ZERO, Call, CallResult, Effect, Hears, Remaining, Reservation, ToolFailed, Usage
from holdfast.workers.tools.secrets import Redactor
from holdfast.workers.tools.token_estimate import estimated_input

_LEAST_OUTPUT: Final = 16
"""If fewer tokens than this are left for an answer, the call is refused. If the call asks for an answer with even fewer tokens, it is
refused only if fewer than it asks for are left."""
_LAST_SECONDS: Final = 0.5
"""After the last event of a stream, how many seconds the server may take to close the stream."""

ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}],
    "properties": {
        "prompt": {"type": "string", "minLength": 1},
        "system": {"type": "string"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["system", "user", "assistant"]}, "content": {"type": "string"}},
            },
        },
        "schema": {"type": "object"},
        "model": {"type": "string", "minLength": 1},
        "max_output_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "seed": {"type": "integer"},
    },
}
_USUAL_SERVER = "https://api.openai.com/v1"


class ModelSettings(Struct, frozen=True, kw_only=True):
    """The operator's settings for models."""

    base_url: str = _USUAL_SERVER
    model: str = "gpt-4.1-mini"
    models: tuple[str, ...] = ()
    """Further models, beside the default, that a worker may ask for by name."""
    api_key: str | None = None
    max_output_tokens: int = 4096
    """The most tokens of one answer. A call may ask for less, and a budget may force less."""
    timeout_seconds: float = 120.0
    """The time limit of one call."""
    prices: Mapping[str, Price] = {}
    """The operator's prices, by model."""
    price_source: str | None = None
    """Where the prices of models that are not in `prices` come from: `genai-prices`; None: they have no price."""
    cap_field: str | None = None
    """The field of the request that limits the answer: `max_tokens` or `max_completion_tokens`. None: `max_completion_tokens` for servers
    of OpenAI and Azure, else `max_tokens`."""
    schema_mode: str = "json_schema"
    """How a schema is sent: `json_schema`, or `json_object` (with the schema in the prompt) for servers without `json_schema`."""
    stream: bool = True
    """Whether the server is asked to send its answer while it writes it, so that followers of the run see the text. A server that does not
    support this may answer in one piece. Set it to false for a server that refuses such a request."""

    def price_of(self, model: str) -> Price | None:
        """The price of a model: the operator's own, else that of the source that the operator has chosen; None if there is none."""
        found = self.prices.get(model)
        return listed_price(model, self.base_url) if found is None and self.price_source is not None else found

    def __repr__(self) -> str:
        return f"ModelSettings(base_url={self.base_url!r}, model={self.model!r}, api_key={'set' if self.api_key else 'not set'})"


class LanguageModel:
    """The tool `language_model`."""

    name = "language_model"
    effect = Effect.READ
    arguments_schema = ARGUMENTS
    streams: Redactor
    """Removes the tool's own secrets from the text that followers get while it arrives (seam.Hears)."""

    def __init__(self, settings: ModelSettings | None = None) -> None:
        self._settings = settings or ModelSettings()
        if self._settings.cap_field not in (None, "max_tokens", "max_completion_tokens"):
            raise InvalidParameter(f"cap_field is {self._settings.cap_field!r}; it must be max_tokens or max_completion_tokens.")
        self._redactor = self.streams = Redactor({"model_key": self._settings.api_key or ""})
        self._client: Any = None

    # --- before

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """The reservation for a call: the estimated input tokens, and as many output tokens as the call asks for, but not more than the
        operator allows and the budget leaves. Raises ToolFailed if the budget is too small, if a cost limit holds and the model has no
        price, or if the model is not allowed."""
        model = self._model(arguments)
        schema = self._schema_text(arguments)
        tokens_in = estimated_input(self._messages(arguments), schema)
        output = min(int(arguments.get("max_output_tokens", self._settings.max_output_tokens)), self._settings.max_output_tokens)
        wanted = min(output, _LEAST_OUTPUT)
        if remaining.tokens is not None:
            output = min(output, remaining.tokens - tokens_in)
            if output < wanted:
                raise ToolFailed(
                    "budget_exceeded",
                    f"About {tokens_in} tokens of input and an answer do not fit into the {remaining.tokens} tokens that are left.",
                )
        price = self._settings.price_of(model)
        if remaining.cost_usd is None:
            return _reserved(model, price, tokens_in, output)
        if price is None:
            raise ToolFailed(
                "price_unknown",
                f"The run, its pipeline or its tenant has a cost limit, and the operator has set no price for {model!r} ([model.prices]).",
            )
        affordable = price.affordable_output(tokens_in, remaining.cost_usd)
        output = output if affordable is None else min(output, affordable)
        if output < wanted:
            raise ToolFailed(
                "budget_exceeded", f"About {tokens_in} tokens of input and an answer cost more than the ${remaining.cost_usd:f} left."
            )
        return _reserved(model, price, tokens_in, output)

    def model_of(self, arguments: Mapping[str, Any]) -> str:
        """The name of the model that a call with these arguments asks. Observers get it."""
        return str(arguments.get("model", self._settings.model))

    def _model(self, arguments: Mapping[str, Any]) -> str:
        model = str(arguments.get("model", self._settings.model))
        if model != self._settings.model and model not in self._settings.models:
            allowed = ", ".join([self._settings.model, *self._settings.models])
            raise ToolFailed(
                "tool_failed",
                f"The operator does not allow the model {model[:100]!r}. Allowed are: {allowed}.",
                details={"reason": "model"},
            )
        return model

    def _messages(self, arguments: Mapping[str, Any]) -> list[dict[str, str]]:
        messages = [dict(message) for message in arguments.get("messages", [])]
        if "system" in arguments:
            messages.insert(0, {"role": "system", "content": str(arguments["system"])})
        if "prompt" in arguments:
            messages.append({"role": "user", "content": str(arguments["prompt"])})
        if "schema" in arguments and self._settings.schema_mode == "json_object":
            messages.insert(
                0, {"role": "system", "content": f"Answer with one JSON object that fits this JSON Schema: {self._schema_text(arguments)}"}
            )
        return messages

    def _schema_text(self, arguments: Mapping[str, Any]) -> str:
        return codec.dumps(arguments["schema"]) if "schema" in arguments else ""

    # --- the call

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Ask the model once, without retries. Returns the text, or with a `schema` the JSON value. Raises ToolFailed if the model cannot
        be asked, if there is no complete answer, or if the answer does not fit the schema."""
        model = self._model(arguments)
        who = party_of(call.tenant, call.tool)
        if "schema" in arguments:
            await check_schema(arguments["schema"], "The schema", who)
        client, exchange = await self._connected(), Exchange()
        seconds = min(self._settings.timeout_seconds, call.deadline - monotonic())
        if seconds <= 0:
            raise ToolFailed("tool_timeout", "The attempt has no time left to ask the model.")
        try:
            request = {**self._request(model, arguments, reservation), "extra_headers": _traced(call), "timeout": seconds}
            async with asyncio.timeout(seconds):  # the client's own timeout is for one read, and an answer may arrive byte by byte
                data = await _exchanged(client, exchange, request, call.hears)
        except Exception as error:
            failure = failed(error, exchange, call.now, seconds)
            if exchange.billed:
                failure.usage = self._unfinished(model, exchange, reservation)
            raise self._redactor.failure(failure) from None
        counted = self._counted(model, data.get("usage"))
        try:
            text = answered(data, reservation.output_tokens)
            if call.hears is not None and isinstance(exchange.answer, WholeAnswer):
                call.hears(text)
            result = text if "schema" not in arguments else await value_of(text, arguments["schema"], who)
            return CallResult(await self._redactor.cleaned(result), counted or _all(reservation))
        except ToolFailed as failure:
            failure.usage = counted or self._unfinished(model, exchange, reservation)
            raise self._redactor.failure(failure) from None

    def _request(self, model: str, arguments: Mapping[str, Any], reservation: Reservation) -> dict[str, Any]:
        request: dict[str, Any] = {"model": model, "messages": self._messages(arguments)}
        request |= {name: arguments[name] for name in ("temperature", "seed") if name in arguments}
        if self._settings.stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        if reservation.output_tokens is not None:
            request[self._cap_field()] = reservation.output_tokens
        if "schema" in arguments:
            named = {"name": "answer", "schema": json.loads(self._schema_text(arguments))}
            mode = self._settings.schema_mode
            request["response_format"] = {"type": "json_schema", "json_schema": named} if mode == "json_schema" else {"type": "json_object"}
        return request

    def _cap_field(self) -> str:
        if self._settings.cap_field is not None:
            return self._settings.cap_field
        host = urlsplit(self._settings.base_url).hostname or ""
        return "max_completion_tokens" if host.endswith((".openai.com", ".azure.com")) else "max_tokens"

    def _counted(self, model: str, reported: Any) -> Usage | None:
        """The usage that the server reported, with its cost; None if the server did not report it."""
        tokens_in, tokens_out = (count_of(reported, name) for name in ("prompt_tokens", "completion_tokens"))
        if tokens_in is None or tokens_out is None:
            return None
        cached, reasoning = parts_of(reported, tokens_in, tokens_out)
        return Usage(tokens_in, tokens_out, self._cost(model, tokens_in, tokens_out, cached), cached, reasoning)

    def _unfinished(self, model: str, exchange: Exchange, reservation: Reservation) -> Usage:
        """The usage of a call that was sent and failed: what the server reported before its answer broke off; else an estimate, of the
        input and of the output that arrived."""
        if (reported := self._counted(model, exchange.answer.reported)) is not None:
            return reported
        tokens_in, tokens_out = max(reservation.tokens - (reservation.output_tokens or 0), 0), exchange.streamed(reservation.output_tokens)
        return Usage(tokens_in, tokens_out, self._cost(model, tokens_in, tokens_out), is_estimated=True)

    def _cost(self, model: str, tokens_in: int, tokens_out: int, cached: int = 0) -> Decimal:
        price = self._settings.price_of(model)
        return price.cost(tokens_in, tokens_out, cached) if price else ZERO

    async def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        if not self._settings.api_key and self._settings.base_url == _USUAL_SERVER:  # a server of the operator's own may need no key
            raise ToolFailed(
                "access_denied", "There is no key for the model's server. Set HOLDFAST_MODEL_KEY, or HOLDFAST_MODEL_URL for another server."
            )
        try:
            openai = await in_thread(Purpose.WORK, import_module, "openai")  # the import takes seconds and must not block the loop
        except ImportError:
            raise ToolFailed("tool_failed", "language_model needs the package `openai`: pip install 'holdfast[llm]'.") from None
        if self._client is None:  # another call may have made the client during the import
            self._client = openai.AsyncOpenAI(
                api_key=self._settings.api_key or "no-key",
                base_url=self._settings.base_url,
                max_retries=0,  # a retry inside the client would be neither reserved nor counted
                http_client=openai.DefaultAsyncHttpxClient(
                    trust_env=False, follow_redirects=False, headers=HEADERS, event_hooks={"request": [watched], "response": [limited]}
                ),
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def _traced(call: Call) -> dict[str, str]:
    return {} if call.traceparent is None else {"traceparent": call.traceparent}


async def _exchanged(client: Any, exchange: Exchange, request: dict[str, Any], hears: Hears | None) -> Mapping[str, Any]:
    """Send a request and read its answer piece by piece, so that followers get each piece of text at once, and so that the length of a
    broken answer is known. Returns the whole answer as one JSON object."""
    current.set(exchange)
    async with client.chat.completions.with_streaming_response.create(**request) as response:
        check_plain(response.headers)
        answer = exchange.answer = answer_of(response.headers.get("content-type"))
        pieces = response.iter_bytes()
        async for piece in pieces:
            text = answer.take(piece)
            if text and hears is not None:
                hears(text)
            if answer.is_complete:
                break
        if answer.is_complete:  # read the end of the stream, so that the connection can be used again
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    async for _ in pieces:
                        pass
    return answer.document()


def _all(reservation: Reservation) -> Usage:
    """The usage of a call that succeeded, if the server did not report one: the call's whole reservation."""
    tokens_out = reservation.output_tokens or 0
    return Usage(max(reservation.tokens - tokens_out, 0), tokens_out, reservation.cost_usd, is_estimated=True)


def _reserved(model: str, price: Price | None, tokens_in: int, output: int) -> Reservation:
    """The reservation of a call, with the price by which it was computed."""
    if price is None:
        return Reservation(tokens_in + output, ZERO, output, model)
    return Reservation(tokens_in + output, price.cost(tokens_in, output), output, model, price.source, price.as_of)
