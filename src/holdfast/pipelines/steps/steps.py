"""Steps: small pure functions of a pipeline's file, called in the sandbox (in this process if the policy's isolation is `inline`). A
sandbox serves all steps of one package.

The interpreter uses `Steps`: `await steps.call(package, function, inputs)` returns a StepDone with JSON, or a StepFailure.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import msgspec

from holdfast.contract.codes import CODES
from holdfast.hosts.sandbox.jail import BodyEnd, Jail
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.hosts.sandbox.visible_folders import packages as importable
from holdfast.hosts.sandbox.visible_folders import readable
from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.steps.entry import called
from holdfast.workers.packages import Kept, Packages, WorkerMissing, imported
from holdfast.workers.policy import Policy

STEP_SECONDS: Final = 10.0
"""A step may take at most this many seconds, if the caller gives no other number."""
STEP_MEMORY_MB: Final = 256
MAX_INPUT_BYTES: Final = 1024 * 1024
_ENTRY: Final = "holdfast.pipelines.steps.entry:enter"
_PRELOAD: Final = ("holdfast.pipelines.builder.pipeline", "holdfast.pipelines.steps.entry")
_MOST_MESSAGE: Final = 2_000


class StepDone(msgspec.Struct, frozen=True):
    """What a step returned: JSON."""

    outputs: Any


class StepFailure(msgspec.Struct, frozen=True):
    """Why a step has no outputs: an error code (`timeout`, `worker_crashed`, `memory_exceeded`, `output_schema_mismatch` for a value that
    is not JSON, `artifact_too_large` and others) and a sentence."""

    code: str
    message: str


class Steps:
    """The sandboxes of step functions, one for each package."""

    def __init__(self, packages: Packages, policy: Policy, server_limits: ServerLimits | None = None) -> None:
        self._packages = packages
        self._policy = policy
        self._server_limits = server_limits
        self._found: dict[str, Kept] = {}
        self._jailed: dict[str, Sandbox] = {}
        self._inline: dict[str, ModuleType] = {}

    async def call(
        self, package: str, function: str, inputs: Any, *, seconds: float = STEP_SECONDS, tenant: str = ""
    ) -> StepDone | StepFailure:
        """Call one function of a package (`Graph.steps`) with JSON. If the step fails, the result is a StepFailure. The CPU time is
        charged to `tenant`. With the isolation `inline`, nothing is charged, and neither the time nor the size of the inputs is limited.

        Raises WorkerMissing if the package is not on this machine, WorkerChanged if its files have changed, and Overloaded or
        SandboxUnavailable if no sandbox can run it.
        """
        kept = await self._kept(package)
        if self._policy.isolation == "inline":
            return told_by(called(self._module(kept), function, codec.loads(codec.dumps(inputs, sort=False))))
        return await call_step(self._sandbox(kept), function, inputs, seconds=seconds, tenant=tenant)

    async def rest(self) -> None:
        """End the processes that were started in advance for the next call, in every sandbox in which no call runs now. The next call
        starts them again."""
        for sandbox in self._jailed.values():
            await sandbox.rest()

    async def close(self) -> None:
        """End all processes of the sandboxes, also those of calls that run now."""
        for sandbox in self._jailed.values():
            await sandbox.close()
        self._jailed.clear()

    async def _kept(self, package: str) -> Kept:
        if package not in self._found:
            kept = await in_thread(Purpose.HOUSE, self._packages.find, package, "this pipeline's steps")
            if kept is None:
                raise WorkerMissing(
                    f"The code of this pipeline's steps, {package!r:.200}, is not on this machine. "
                    "Copy the folder of snapshots that is beside the store to this machine, or start the run anew."
                )
            self._found[package] = kept
        return self._found[package]

    def _module(self, kept: Kept) -> ModuleType:
        if kept.name not in self._inline:
            self._inline[kept.name] = imported(kept.folder, kept.file)
        return self._inline[kept.name]

    def _sandbox(self, kept: Kept) -> Sandbox:
        if kept.name not in self._jailed:
            self._jailed[kept.name] = Sandbox(step_jail(kept, self._policy), self._server_limits)
        return self._jailed[kept.name]


def step_jail(kept: Kept, policy: Policy) -> Jail:
    """The settings of the sandbox in which the steps of a package run: no tools, no network, no child processes. With the isolation
    `process` they ask for an ordinary process without walls, with limits of memory and CPU time."""
    return Jail(
        package=kept.folder,
        entry=_ENTRY,
        arguments=(kept.module,),
        path=importable(),
        readable=readable(),
        preload=_PRELOAD,
        memory_mb=min(STEP_MEMORY_MB, policy.memory_mb),
        cpu_seconds=STEP_SECONDS,
        scratch_mb=policy.scratch_mb,
        isolation="process" if policy.isolation == "process" else "all",
    )


async def call_step(
    sandbox: Sandbox, function: str, inputs: Any, *, seconds: float = STEP_SECONDS, tenant: str = ""
) -> StepDone | StepFailure:
    """Call one function in a new body of this sandbox. If the step fails, the result is a StepFailure. The body has ended when this
    returns. `seconds` includes the wait for a free place. Raises Overloaded or SandboxUnavailable if no body can be started."""
    try:
        size = len(codec.dumps(inputs, sort=False).encode())
    except HoldfastError as odd:
        return StepFailure("output_schema_mismatch", f"The inputs of the step are not JSON: {odd}"[:_MOST_MESSAGE])
    if size > MAX_INPUT_BYTES:
        return StepFailure("artifact_too_large", f"The inputs of the step have {size} bytes; at most {MAX_INPUT_BYTES} are allowed.")
    body = await sandbox.attempt(seconds, tenant=tenant)
    try:
        await body.send({"op": "step", "function": function, "inputs": inputs})
        said = await body.receive()
        if isinstance(said, BodyEnd):
            return StepFailure(said.code or "worker_crashed", said.detail or "The step ended without a result.")
        return told_by(said.data)
    finally:
        await body.close()


def told_by(frame: Mapping[str, Any]) -> StepDone | StepFailure:
    """Read a step's result from the frame that the body sent. The author's code may have sent anything: a frame of another form, or an
    unknown error code, becomes a StepFailure with `worker_crashed`."""
    match frame:
        case {"op": "done", "outputs": outputs}:
            return StepDone(outputs)
        case {"op": "failed", "error": {"error_code": str(code), "message": str(message)}}:
            return StepFailure(code if code in CODES else "worker_crashed", message[:_MOST_MESSAGE])
        case _:
            return StepFailure("worker_crashed", "The step sent a frame that is not a result.")
