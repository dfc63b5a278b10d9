"""The error tree: the class says what happens next, the docstring is the default message.

HoldfastError ─┬─ Rejected ──┬─ InvalidParameter     the caller must change something (never retried)
               │             ├─ InvalidToken
               │             ├─ PayloadNotJson
               │             ├─ PayloadTooLarge
               │             ├─ FunctionNotFound
               │             ├─ FunctionNotLoadable
               │             ├─ DuplicateFunction
               │             ├─ ExecutionNotFound
               │             ├─ ExecutionAlreadyStarted
               │             ├─ CallbackNotFound
               │             ├─ CallbackClosed
               │             ├─ StoreNotFound
               │             ├─ StoreNotMigrated
               │             ├─ StoreInUse
               │             ├─ CodecMismatch
               │             ├─ CodecNotLoadable
               │             ├─ ExtraMissing
               │             ├─ ExportInvalid
               │             ├─ CredentialsNeeded
               │             ├─ AccessRefused
               │             ├─ PatternInvalid
               │             ├─ LogNotFound
               │             ├─ TemplateInvalid
               │             ├─ CodeInvalid
               │             ├─ ResourceConflict
               │             ├─ RevisionMismatch
               │             ├─ BlockingCallRefused
               │             ├─ RunUnavailable
               │             └─ EngineClosed
               ├─ Retryable ─┬─ LeaseLost            tried again, by the invocation that owns it now
               │             ├─ StoreBusy
               │             ├─ TooManyRequests
               │             ├─ QueueFull
               │             ├─ DeliveryFailed
               │             └─ DiskFailed ─ DiskFull
               ├─ Fatal ─────┬─ StoreBroken ─ RowDamaged   a person must look
               │             ├─ WriteFailed
               │             ├─ StoreUnsuitable
               │             ├─ NotPrivate
               │             ├─ KeysSecretNeeded
               │             ├─ CodecFailed
               │             └─ ExecutionQuarantined
               ├─ Unsuccessful ┬─ ExecutionFailed    what `result()` raises: the execution's own ending
               │               ├─ ExecutionTimedOut
               │               └─ ExecutionStopped
               └─ DurableExecutionsError             the official SDK's tree (holdfast.durable.exceptions)

Codes are stable: they are part of the interface, and docs/reference/errors.md explains each.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    code: ClassVar[str] = "holdfast_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class Rejected(HoldfastError):
    """The request cannot be served as it is."""

    code = "rejected"


class LimitReached(Rejected):
    """A shared counter would go beyond its limit. The error has the spent and the reserved amount of the counter."""

    code = "limit_reached"

    def __init__(self, key: str, limit: int, until: int, *, spent: int = 0, reserved: int = 0, is_curable: bool = False) -> None:
        super().__init__(f"{key} would go beyond its limit of {limit}; it begins anew at {until}.")
        self.key, self.limit, self.until = key, limit, until
        self.spent, self.reserved = spent, reserved
        self.is_curable = is_curable
        """Whether only reservations of others are in the way, so that there may be room when they are settled."""


class InvalidParameter(Rejected):
    """A value in the request is not allowed."""

    code = "invalid_parameter"


class InvalidToken(Rejected):
    """Invalid checkpoint token"""  # clients compare this text to the letter

    code = "invalid_token"


class PayloadNotJson(Rejected):
    """The payload is not JSON."""

    code = "payload_not_json"


class PayloadTooLarge(Rejected):
    """The payload is larger than the limit."""

    code = "payload_too_large"


class FunctionNotFound(Rejected):
    """No such function, or no such version of it, is registered here."""

    code = "function_not_found"


class FunctionNotLoadable(Rejected):
    """The code of a function could not be imported."""

    code = "function_not_loadable"


class DuplicateFunction(Rejected):
    """Two functions were registered under one name and version."""

    code = "duplicate_function"


class ExecutionNotFound(Rejected):
    """There is no such execution."""

    code = "execution_not_found"


class ExecutionAlreadyStarted(Rejected):
    """An execution of this name was started with another input."""

    code = "execution_already_started"

    def __init__(self, message: str | None = None, differs: str = "") -> None:
        super().__init__(f"{message}. {differs}" if differs else message)
        self.on_the_wire = message or str(self)
        """AWS's message, without the difference."""


class CallbackNotFound(Rejected):
    """There is no such callback."""

    code = "callback_not_found"


class CallbackClosed(Rejected):
    """The callback is either timed out or already completed."""

    code = "callback_closed"


class StoreNotFound(Rejected):
    """There is no store at this path."""

    code = "store_not_found"


class StoreNotMigrated(Rejected):
    """The store has an older schema, which must be migrated first."""

    code = "store_not_migrated"


class StoreInUse(Rejected):
    """Another process has the store open."""

    code = "store_in_use"


class CodecMismatch(Rejected):
    """The store was made with another payload codec, or without one."""

    code = "codec_mismatch"


class CodecNotLoadable(Rejected):
    """The payload codec that was named could not be loaded."""

    code = "codec_not_loadable"


class ExtraMissing(Rejected):
    """This needs a package that is installed only on request."""

    code = "extra_missing"


class ExportInvalid(Rejected):
    """The document is not the export of an execution."""

    code = "export_invalid"


class CredentialsNeeded(Rejected):
    """A server that others can reach needs credentials."""

    code = "credentials_needed"


class AccessRefused(Rejected):
    """The server does not serve this to the caller."""

    code = "access_refused"


class PatternInvalid(Rejected):
    """This is not an event pattern, or not a filter pattern of logs."""

    code = "pattern_invalid"


class LogNotFound(Rejected):
    """There is no such log group or log stream."""

    code = "log_not_found"


class TemplateInvalid(Rejected):
    """The template cannot be served."""

    code = "template_invalid"


class CodeInvalid(Rejected):
    """The code of a function cannot be taken as it is."""

    code = "code_invalid"


class CodeChanged(Rejected):
    """The code of a deployed function is not what was deployed, and is not run."""

    code = "code_changed"


class ResourceConflict(Rejected):
    """The resource exists already, or another one needs it."""

    code = "resource_conflict"


class RevisionMismatch(Rejected):
    """Another caller changed it meanwhile."""

    code = "revision_mismatch"


class BlockingCallRefused(Rejected):
    """A blocking call from a thread of the engine would wait for itself."""

    code = "blocking_call_refused"


class RunUnavailable(Rejected):
    """No worker can be run from a durable function in this process."""

    code = "run_unavailable"


class EngineClosed(Rejected):
    """The engine is closed."""

    code = "engine_closed"


class Retryable(HoldfastError):
    """It did not work this time."""

    code = "retryable"


class LeaseLost(Retryable):
    """Another invocation owns this execution now; this one may not write any more."""

    code = "lease_lost"


class StoreBusy(Retryable):
    """The store is locked by another process."""

    code = "store_busy"


class TooManyRequests(Retryable):
    """Too much waits here already."""

    code = "too_many_requests"


class DeliveryFailed(Retryable):
    """A subscriber did not take a signal."""

    code = "delivery_failed"


class DiskFailed(Retryable):
    """The disk under the store did not write or read what it should."""

    code = "disk_failed"


class DiskFull(DiskFailed):
    """There is no space left on the disk under the store."""

    code = "disk_full"


class Fatal(HoldfastError):
    """A person must look at this."""

    code = "fatal"


class StoreBroken(Fatal):
    """The store could not be read or written."""

    code = "store_broken"


class RowDamaged(StoreBroken):
    """A row of the store is damaged; the rows beside it are not."""

    code = "row_damaged"


class WriteFailed(Fatal):
    """This one write could not be decided or stored, and nothing of it is on disk. The writes beside it are not touched."""

    code = "write_failed"


class StoreUnsuitable(Fatal):
    """This store cannot be used by this version of Holdfast."""

    code = "store_unsuitable"


class NotPrivate(Fatal):
    """A file or folder belongs to another user of the machine, or another user may replace it."""

    code = "not_private"


class KeysSecretNeeded(Fatal):
    """The secret that seals access keys is not here, or it is not the one that sealed them."""

    code = "keys_secret_needed"


class CodecFailed(Fatal):
    """A payload could not be encoded or decoded."""

    code = "codec_failed"


class ExecutionQuarantined(Fatal):
    """The execution was put aside; it goes on when a person releases it."""

    code = "execution_quarantined"

    def __init__(self, message: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        """`runner_died`, `payload_unreadable` or `replay_mismatch`."""


class Unsuccessful(HoldfastError):
    """The execution did not succeed."""

    code = "execution_unsuccessful"

    def __init__(self, message: str | None = None, error_type: str | None = None, data: str | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.data = data


class ExecutionFailed(Unsuccessful):
    """The execution failed."""

    code = "execution_failed"


class ExecutionTimedOut(Unsuccessful):
    """The execution timed out."""

    code = "execution_timed_out"


class ExecutionStopped(Unsuccessful):
    """The execution was stopped."""

    code = "execution_stopped"
