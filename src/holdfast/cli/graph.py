"""`holdfast graph`: draws a pipeline, as a text for the terminal or as an SVG picture, or writes it as a page (pipeline.md)."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments import CodecOption, StoreOption, StorePlace
from holdfast.cli.terminal import printable
from holdfast.model.errors import InvalidParameter

if TYPE_CHECKING:
    from holdfast.pipelines.draw.captions import Views
    from holdfast.pipelines.graph.graph import Built

_WIDE = 160
"""A drawing that is not printed on a terminal may have this many columns."""


class GraphFormat(StrEnum):
    """What `holdfast graph` makes: a drawing as text, a drawing as SVG, or the pipeline as a page (pipeline.md)."""

    TEXT = "text"
    SVG = "svg"
    PAGE = "page"


def graph(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|RUN", help="A pipeline's file (.py), its page (.md), a graph as JSON (.json), or a run of a pipeline."
        ),
    ],
    form: Annotated[
        GraphFormat, typer.Option("--as", help="What to make: a drawing as text or svg, or the pipeline as a page.")
    ] = GraphFormat.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the drawing to this file instead of printing it.")
    ] = None,
    pipeline: Annotated[str | None, typer.Option("--pipeline", metavar="ID", help="Which pipeline, if the file declares several.")] = None,
    isolation: Annotated[
        str | None,
        typer.Option("--isolation", metavar="LEVEL", help="How the file is isolated while it builds: all (the default) or process."),
    ] = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Draw a pipeline: its nodes, what each needs, and its loops. The drawing of a run also has the states of the nodes.

    A Python file is built in the sandbox. A text that is too wide for the terminal becomes a list with a line for each node. `--as page`
    writes the pipeline as a pipeline.md with the same graph, which `holdfast check`, `run` and `serve` accept.
    """
    chosen, views = _of_run(target, store, codec) if _is_run(target) else (_of_file(Path(target), pipeline, isolation), None)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and out is None else _WIDE
    drawing = _drawn(chosen, views, form, width)
    if out is None:
        print(drawing, end="")
        return
    try:
        out.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(f"{printable(str(out))} could not be written: {error.strerror}.") from None


def _drawn(built: Built, views: Views | None, form: GraphFormat, width: int) -> str:
    from holdfast.pipelines.draw.svg import draw_svg  # these modules are slow to load, and the help does not need them
    from holdfast.pipelines.draw.text import draw_text
    from holdfast.pipelines.page.writer import page_of

    match form:
        case GraphFormat.SVG:
            return draw_svg(built.graph, views)
        case GraphFormat.TEXT:
            return draw_text(built.graph, views, width=width)
        case GraphFormat.PAGE:
            return page_of(built.graph, draw_text(built.graph, width=_WIDE), built.include)


def _is_run(target: str) -> bool:
    return Path(target).suffix not in (".py", ".json", ".md") and not Path(target).exists()


def _of_run(run: str, store: str | None, codec: str | None) -> tuple[Built, Views]:
    with StorePlace.of(store, codec).client() as client:
        view = client.view(run)
        if view is None:
            from holdfast.descriptions.pipeline_view import why_no_view

            found = client.runs.get(run)
            raise InvalidParameter(f"{printable(why_no_view(found.header, found.accepted))} `holdfast runs show` shows the run.")
    from holdfast.pipelines.graph.graph import Built

    return Built(view.graph), view.views()


def _of_file(file: Path, pipeline: str | None, isolation: str | None) -> Built:
    from holdfast.cli.check_pipelines import built_of

    graphs = {one.graph.pipeline_id: one for one in built_of(file, isolation)}
    if not graphs:
        raise InvalidParameter(f'{file} declares no pipeline: write p = Pipeline("page.md") outside of functions.')
    if pipeline is None and len(graphs) > 1:
        raise InvalidParameter(f"{file} declares {', '.join(graphs)}. Choose one with --pipeline ID.")
    if pipeline is not None and pipeline not in graphs:
        raise InvalidParameter(f"{file} declares no pipeline {pipeline!r:.100}. --pipeline must be one of: {', '.join(graphs)}.")
    return graphs[pipeline or next(iter(graphs))]
