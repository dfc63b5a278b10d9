"""ToolCall: the object that a tool function gets with its arguments. It exists in the tool's own process, outside the sandbox."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.model.clock import monotonic

if TYPE_CHECKING:
    import httpx


class ToolRefused(Exception):
    """A tool raises this to say that the call did nothing, and why (`ToolCall.refused` makes it)."""

    def __init__(self, message: str, code: str = "tool_failed", retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class Verdict:
    """What a tool's reconcile function says about a lost call, a call that was sent and got no answer: whether it happened. Made by
    `call.happened`, `call.did_not_happen` and `call.unknown`."""

    def __init__(self, word: str, result: Any = None) -> None:
        self.word = word
        self.result = result


class ToolCall:
    """One call of a tool."""

    def __init__(
        self,
        *,
        run_id: str,
        tool: str,
        idempotency_key: str,
        attempt: int = 1,
        tenant: str = "default",
        traceparent: str | None = None,
        deadline: float | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.run_id = run_id
        self.tool = tool
        self.idempotency_key = idempotency_key
        """The same key for every try of this call. For a `write`, the key is the same in every attempt of the run; for a `read`, each
        attempt has another key. Pass it to the service that the tool calls."""
        self.attempt = attempt
        self.tenant = tenant
        self.traceparent = traceparent
        """The W3C trace context. `call.http` and `call.async_http` send it."""
        self._deadline = deadline
        self._secrets = dict(secrets or {})

    def __repr__(self) -> str:
        return f"ToolCall(run_id={self.run_id!r}, tool={self.tool!r}, idempotency_key={self.idempotency_key!r}, attempt={self.attempt})"

    def secret(self, name: str) -> str:
        """The value of a secret that the tool named in `secrets=[…]`. Raises KeyError for any other name."""
        if name not in self._secrets:
            named = ", ".join(sorted(self._secrets)) or "none"
            raise KeyError(f"The tool {self.tool!r} did not name the secret {name!r} in secrets=[…] (named: {named}).")
        return self._secrets[name]

    def remaining(self) -> timedelta:
        """How long until the deadline of the call, at which this process is killed; `timedelta.max` if the call has no deadline."""
        return timedelta.max if self._deadline is None else timedelta(seconds=max(self._deadline - monotonic(), 0.0))

    @cached_property
    def http(self) -> httpx.Client:
        """The HTTP client of this call. It is closed when the call ends. It ignores environment variables, such as those for proxies. Its
        timeout is the time that is left until the call's deadline when the tool first uses the client, at most an hour."""
        import httpx

        return httpx.Client(trust_env=False, timeout=self._patience(), verify=_authorities(), headers=self._trace())

    @cached_property
    def async_http(self) -> httpx.AsyncClient:
        """The HTTP client of this call, for an async tool. It is closed when the call ends. It ignores environment variables, such as those
        for proxies. Its timeout is the time that is left until the call's deadline when the tool first uses the client, at most an hour."""
        import httpx

        return httpx.AsyncClient(trust_env=False, timeout=self._patience(), verify=_authorities(), headers=self._trace())

    def _trace(self) -> dict[str, str]:
        return {} if self.traceparent is None else {"traceparent": self.traceparent}

    def _patience(self) -> float:
        return max(min(self.remaining().total_seconds(), 3600.0), 0.001)

    def refused(self, message: str, code: str = "tool_failed", retry_after_seconds: float | None = None) -> ToolRefused:
        """Make the error that says that the tool did nothing; the tool must raise it: `raise call.refused("card declined")`. `code` is the
        error code that the worker sees. `retry_after_seconds`: when to try again; None if that is not known."""
        return ToolRefused(message, code, retry_after_seconds)

    # --- for reconcile functions

    def happened(self, result: Any) -> Verdict:
        """The verdict that the lost call took place, and returned this result."""
        return Verdict("happened", result)

    def did_not_happen(self) -> Verdict:
        """The verdict that the lost call did not take place."""
        return Verdict("did_not_happen")

    def unknown(self) -> Verdict:
        """The verdict that the tool cannot find out whether the lost call took place."""
        return Verdict("unknown")

    # --- ending

    def close(self) -> None:
        """Close the client `http` if the call used it, and forget the call's secrets."""
        if "http" in self.__dict__:
            self.http.close()
        self._secrets.clear()

    async def aclose(self) -> None:
        """Close the clients `async_http` and `http` if the call used them, and forget the call's secrets."""
        if "async_http" in self.__dict__:
            await self.async_http.aclose()
        self.close()


@lru_cache(maxsize=1)
def _authorities() -> ssl.SSLContext:
    """The certificate authorities. They are read once per process, because reading them takes longer than many calls."""
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
