"""The refusal of a pipeline that cannot be used: what is wrong, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.model.errors import Rejected

if TYPE_CHECKING:  # the sandbox loads this module, and the schemas behind contracts are slow to load
    from holdfast.contract.terms import Problem


class PipelineInvalid(Rejected):
    """The pipeline cannot be used as it is written."""

    code = "pipeline_invalid"

    def __init__(self, what: str | None = None, where: str = "", *, problems: Sequence[Problem] = ()) -> None:
        super().__init__(f"{where}: {what}" if where and what else what)
        self.what = what or str(self)
        """What is wrong, as a sentence."""
        self.where = where
        """A place in the graph (`nodes[3].at_most`) or in the author's file (`vendors.py, line 7`); empty if the error names no place."""
        self.problems = tuple(problems)
        """The problems of a page; empty if the pipeline was not read from a page."""
