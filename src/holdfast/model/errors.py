"""The error tree: the class says what happens next, and the first line of its docstring is the default message.

HoldfastError ─┬─ Rejected ──┬─ InvalidParameter     the caller must change something (Holdfast does not try again)
               │             ├─ InvalidToken, LimitReached
               │             ├─ PayloadNotJson, PayloadTooLarge
               │             ├─ FunctionNotFound, FunctionNotLoadable, DuplicateFunction
               │             ├─ ExecutionNotFound, ExecutionAlreadyStarted
               │             ├─ CallbackNotFound, CallbackClosed
               │             ├─ StoreNotFound, StoreNotMigrated, StoreInUse
               │             ├─ CodecMismatch, CodecNotLoadable, ExtraMissing
               │             ├─ CredentialsNeeded, AccessRefused
               │             ├─ ExportInvalid, PatternInvalid, TemplateInvalid, LogNotFound
               │             ├─ CodeInvalid, CodeChanged
               │             ├─ ResourceConflict, RevisionMismatch
               │             └─ BlockingCallRefused, RunUnavailable, EngineClosed
               ├─ Retryable ─┬─ LeaseLost            another try, later or by another invocation, may succeed
               │             ├─ StoreBusy, TooManyRequests, QueueFull, DeliveryFailed
               │             └─ DiskFailed ─ DiskFull
               ├─ Fatal ─────┬─ StoreBroken ─ RowDamaged   a person must find the cause and remove it
               │             ├─ WriteFailed, StoreUnsuitable, NotPrivate
               │             └─ KeysSecretNeeded, CodecFailed, ExecutionQuarantined
               ├─ Unsuccessful ┬─ ExecutionFailed    how the execution itself ended; `result()` raises it
               │               └─ ExecutionTimedOut, ExecutionStopped
               └─ DurableExecutionsError             errors inside handlers, as in AWS's SDK (holdfast.durable.exceptions)

Other modules add more. A class's `code` does not change between releases, and docs/reference/errors.md explains each code.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    code: ClassVar[str] = "holdfast_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class Rejected(HoldfastError):
    """The request was refused. Holdfast does not try it again by itself."""

    code = "rejected"


class LimitReached(Rejected):
    """A shared counter would go beyond its limit. The error has the `spent` and the `reserved` amount of the counter."""

    code = "limit_reached"

    def __init__(self, key: str, limit: int, until: int, *, spent: int = 0, reserved: int = 0, is_curable: bool = False) -> None:
        super().__init__(f"The counter {key} would go beyond its limit of {limit}. It starts again from 0 at {until} (epoch milliseconds).")
        self.key, self.limit, self.until = key, limit, until
        self.spent, self.reserved = spent, reserved
        self.is_curable = is_curable
        """Whether there would be room without the reserved amount, so that a retry may succeed when the reservations have ended."""


class InvalidParameter(Rejected):
    """A value in the request is not allowed."""

    code = "invalid_parameter"


class InvalidToken(Rejected):
    """Invalid checkpoint token"""  # clients compare this exact text

    code = "invalid_token"


class PayloadNotJson(Rejected):
    """The payload is not JSON.

    It is also raised if a value cannot be written as JSON."""

    code = "payload_not_json"


class PayloadTooLarge(Rejected):
    """The payload has more bytes than the limit allows."""

    code = "payload_too_large"


class FunctionNotFound(Rejected):
    """No function with this name and version is registered here.

    It is also raised if a file has no such function or several, and if the name is that of a worker or a pipeline."""

    code = "function_not_found"


class FunctionNotLoadable(Rejected):
    """The code of a function could not be imported.

    It is also raised if there is no such file, if a file or folder has no function and no worker, or if the runtime of the function is
    missing."""

    code = "function_not_loadable"


class DuplicateFunction(Rejected):
    """Two functions have the same name and version. Give one of them another `name=` or `version=`."""

    code = "duplicate_function"


class ExecutionNotFound(Rejected):
    """There is no such execution.

    It is also raised if the caller may not see the execution."""

    code = "execution_not_found"


class ExecutionAlreadyStarted(Rejected):
    """Another execution has this name already.

    An import also raises it if another execution has the id."""

    code = "execution_already_started"

    def __init__(self, message: str | None = None, differs: str = "") -> None:
        super().__init__(f"{message}. {differs}" if differs else message)
        self.on_the_wire = message or str(self)
        """The message without `differs`: this is AWS's message."""


class CallbackNotFound(Rejected):
    """There is no such callback."""

    code = "callback_not_found"


class CallbackClosed(Rejected):
    """The callback is either timed out or already completed.

    It is also raised if the execution of the callback has ended, or is an imported copy."""

    code = "callback_closed"


class StoreNotFound(Rejected):
    """There is no store at this path."""

    code = "store_not_found"


class StoreNotMigrated(Rejected):
    """The store has the schema of an older release. Run `holdfast db migrate` first."""

    code = "store_not_migrated"


class StoreInUse(Rejected):
    """Another process has the store open. Stop that process, then try again."""

    code = "store_in_use"


class CodecMismatch(Rejected):
    """The payload codec is not the one that the store was made with.

    It is also raised if the codec is the right one, but its keys cannot read the store."""

    code = "codec_mismatch"


class CodecNotLoadable(Rejected):
    """The payload codec that was named could not be loaded."""

    code = "codec_not_loadable"


class ExtraMissing(Rejected):
    """A Python package is missing that Holdfast installs only with one of its extras, for example `holdfast[server]`."""

    code = "extra_missing"


class ExportInvalid(Rejected):
    """The document is not the export of an execution.

    It is also raised if the document cannot be read or is damaged, and by a replay if it was exported without data."""

    code = "export_invalid"


class CredentialsNeeded(Rejected):
    """A server that other machines can reach needs credentials. Make one with `holdfast keys create`."""

    code = "credentials_needed"


class AccessRefused(Rejected):
    """The caller may not do this, or its credentials are missing or wrong."""

    code = "access_refused"


class PatternInvalid(Rejected):
    """The text is not a valid event pattern, or not a valid filter pattern for logs."""

    code = "pattern_invalid"


class BlockingCallRefused(Rejected):
    """A blocking call was made in a thread that the engine needs to answer the call. The call would wait forever."""

    code = "blocking_call_refused"


class RunUnavailable(Rejected):
    """A durable function needs an engine in its process to enqueue, and an engine that serves workers to run a worker."""

    code = "run_unavailable"


class EngineClosed(Rejected):
    """The engine is closed."""

    code = "engine_closed"


class Retryable(HoldfastError):
    """The request failed this time. Another try may succeed."""

    code = "retryable"


class LeaseLost(Retryable):
    """Another invocation owns this execution now, or the execution is closed. This invocation may not write any more.

    It is also raised if a runner cannot claim or admit an execution any more, for example because another runner was faster."""

    code = "lease_lost"


class StoreBusy(Retryable):
    """Another process has locked the store, or changes the same rows. Try again.

    It is also raised if another server uses the folder of deployed functions, or if a server has too many listeners or is closing."""

    code = "store_busy"


class TooManyRequests(Retryable):
    """Too many invocations of functions wait for a free runtime process already. Try again later."""

    code = "too_many_requests"


class DeliveryFailed(Retryable):
    """A subscriber did not accept a signal."""

    code = "delivery_failed"


class DiskFailed(Retryable):
    """The store's disk, or its database server, could not read or write."""

    code = "disk_failed"


class DiskFull(DiskFailed):
    """There is no space left on the store's disk."""

    code = "disk_full"


class Fatal(HoldfastError):
    """Something is wrong that Holdfast cannot repair. A person must find the cause and remove it."""

    code = "fatal"


class StoreBroken(Fatal):
    """The store could not be read or written."""

    code = "store_broken"


class RowDamaged(StoreBroken):
    """A row of the store is damaged. Other rows can still be read."""

    code = "row_damaged"


class WriteFailed(Fatal):
    """This write failed unexpectedly, and nothing of it is on disk. Other writes of the same transaction are not affected."""

    code = "write_failed"


class StoreUnsuitable(Fatal):
    """This store cannot be used by this version of Holdfast.

    For example: its schema is too old or too new, it is not a store, it is on a network file system, or the SQLite library is too old."""

    code = "store_unsuitable"


class NotPrivate(Fatal):
    """A file or folder belongs to another user of the machine, or another user could replace it.

    It is also raised for a link, for anything that is neither a file nor a folder, and if the disk does not keep permissions."""

    code = "not_private"


class KeysSecretNeeded(Fatal):
    """The secret that encrypts access keys is missing, or it is not the secret that they were encrypted with."""

    code = "keys_secret_needed"


class CodecFailed(Fatal):
    """The payload codec of the store failed: it could not encode, decode or fingerprint a payload."""

    code = "codec_failed"


class ExecutionQuarantined(Fatal):
    """The execution is in quarantine. It continues when a person releases it."""

    code = "execution_quarantined"

    def __init__(self, message: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        """`runner_died`, `payload_unreadable` or `replay_mismatch`; None if the reason is not known."""


class Unsuccessful(HoldfastError):
    """The execution did not succeed."""

    code = "execution_unsuccessful"

    def __init__(self, message: str | None = None, error_type: str | None = None, data: str | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        """The error type that the execution ended with, such as the name of an exception's class; None if it has none."""
        self.data = data
        """The data of the error that the execution ended with; None if it has none."""


class ExecutionFailed(Unsuccessful):
    """The execution failed."""

    code = "execution_failed"


class ExecutionTimedOut(Unsuccessful):
    """The execution timed out."""

    code = "execution_timed_out"


class ExecutionStopped(Unsuccessful):
    """The execution was stopped."""

    code = "execution_stopped"
