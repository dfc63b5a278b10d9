"""What may be wrong with a restart. Its caller must change something."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class RestartRefused(Rejected):
    """The execution or run cannot be restarted."""

    code = "restart_refused"


class NodeNotFound(Rejected):
    """The pipeline has no such node."""

    code = "node_not_found"


class OperationNotFound(Rejected):
    """The execution has no such operation."""

    code = "operation_not_found"


class ConfirmationNeeded(Rejected):
    """A person must agree first, and there is no terminal to ask at."""

    code = "confirmation_needed"
