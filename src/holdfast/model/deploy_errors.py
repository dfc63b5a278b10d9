"""The errors about deployed functions, their templates and their logs."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class LogNotFound(Rejected):
    """There is no such log group or log stream."""

    code = "log_not_found"


class TemplateInvalid(Rejected):
    """The template is not valid, or none of its functions can be served."""

    code = "template_invalid"


class CodeInvalid(Rejected):
    """The code of a function was refused: for example, it is not a zip file, or it is too large."""

    code = "code_invalid"


class CodeChanged(Rejected):
    """The files of a deployed function have changed since it was deployed. Holdfast does not run them."""

    code = "code_changed"


class ResourceConflict(Rejected):
    """The function or alias exists already, or it cannot be changed or removed because something else needs it."""

    code = "resource_conflict"


class RevisionMismatch(Rejected):
    """Another caller has changed the function or alias. Read it again, then repeat your change."""

    code = "revision_mismatch"
