"""What is refused to a person who looks for executions."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class ReadTooLong(Rejected):
    """The read took longer than it may. Ask for a narrower range of time."""

    code = "read_too_long"


class TooManyViews(Rejected):
    """The owner has as many saved views as one owner may have. Remove one first."""

    code = "too_many_views"
