"""Changed writes: a restarted run wants to make a call that an earlier run made with other arguments. A person decides what happens:

- `send`: the call is made with the new arguments, in addition to the earlier call.
- `keep`: the call is not made; the answer of the earlier call is used.
- `stop`, or a rejection of the question: the call fails with `receipt_conflict`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.workers.approvals import Decision
from holdfast.workers.calls import Try
from holdfast.workers.tools.seam import ToolFailed

SEND, KEEP, STOP = "send", "keep", "stop"
_SHOWN: Final = 1500
"""The text of the question shows at most this many characters of each call's arguments. The arguments beside the text are complete."""


class ChangedWrite(msgspec.Struct, frozen=True):
    """The question to a person about a call whose arguments changed."""

    arguments: dict[str, Any]
    text: str
    schema: dict[str, Any]


def changed_write(tool: str, known: Try, arguments: dict[str, Any]) -> ChangedWrite:
    """The question about a call of `tool`: it shows the arguments of the earlier call `known`, and the present `arguments`. If the outcome
    of the earlier call is unknown, the person cannot choose `keep`."""
    actions = [SEND, *([] if known.receipt is None else [KEEP]), STOP]
    before = known.intent.arguments
    happened = "made" if known.receipt is not None else "perhaps made (its outcome is unknown)"
    text = (
        f"An earlier run has {happened} the call {tool} with {_short(before)}. This run wants to make it with {_short(arguments)}. "
        f"Answer with an action: {', '.join(actions)}."
    )
    shown = {"tool": tool, "before": before, "now": arguments, "answers": actions}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["action"],
        "properties": {"action": {"enum": actions}},
    }
    return ChangedWrite(shown, text, schema)


def keeps_earlier(tool: str, decision: Decision) -> bool:
    """Whether the answer of the earlier call is used: True for `keep`, False for `send`. For `stop` and for a rejection, raises
    ToolFailed."""
    action = decision.result.get("action") if decision.verdict == "answer" and isinstance(decision.result, dict) else STOP
    if action not in (SEND, KEEP):
        message = f"{tool} was called by an earlier run with other arguments, and {decision.decided_by} decided to stop.{decision.remark}"
        raise ToolFailed("receipt_conflict", message, known=True)
    return action == KEEP


def _short(value: object) -> str:
    text = codec.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
