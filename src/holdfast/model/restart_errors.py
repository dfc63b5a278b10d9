"""The errors about restarts."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class RestartRefused(Rejected):
    """The execution or run cannot be restarted."""

    code = "restart_refused"


class NodeNotFound(Rejected):
    """The pipeline has no such node."""

    code = "node_not_found"


class OperationNotFound(Rejected):
    """The execution has no such operation.

    It is also raised if several operations have the name that the caller gave.
    """

    code = "operation_not_found"


class ConfirmationNeeded(Rejected):
    """A person must confirm this first, but there was no terminal to ask at, or the answer was not yes."""

    code = "confirmation_needed"
