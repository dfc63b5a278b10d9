"""The errors of a person's search for executions."""

from __future__ import annotations

from holdfast.model.errors import Rejected


class ReadTooLong(Rejected):
    """The search took longer than is allowed. Search in a shorter range of time, or for fewer values."""

    code = "read_too_long"


class TooManyViews(Rejected):
    """The owner has 100 saved views, which is the most. Remove one first."""

    code = "too_many_views"
