"""Errors: a request or a page cannot be accepted as it is, or there is too much work now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.contract.terms import Problem
from holdfast.model.errors import Rejected, Retryable


class InvalidRequest(Rejected):
    """The request cannot be accepted as it is: for example, it does not fit the worker's contract, or names a worker that is not served.
    `error_code` says why."""

    code = "invalid_request"

    def __init__(self, message: str | None = None, *, error_code: str = "schema_mismatch", details: Sequence[msgspec.Struct] = ()) -> None:
        super().__init__(message)
        self.error_code = error_code
        """A code of the table in codes.py: `schema_mismatch`, `constraint_widened`, `worker_not_found` …"""
        self.details: list[dict[str, Any]] = msgspec.to_builtins(list(details))


class ContractInvalid(Rejected):
    """The worker's page has errors, so it is not a contract."""

    code = "contract_invalid"

    def __init__(self, message: str | None = None, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class Overloaded(Retryable):
    """This runner or server, or the server that was asked, has too much work now or did not answer. The caller may try again later."""

    code = "overloaded"
