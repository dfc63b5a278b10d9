"""From a Python file to graphs: the runner reads what the file declares, the sandbox runs the file, and the runner checks the nodes that
the sandbox sends.

The runner reads the contract itself, from the page or from the file's literals. It treats what the sandbox sends as hostile input.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from holdfast.contract.page_reader import contract_of
from holdfast.contract.terms import Contract
from holdfast.hosts.sandbox.admitted_files import check_page
from holdfast.hosts.sandbox.jail import BodyEnd, Jail
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.hosts.sandbox.visible_folders import packages as importable
from holdfast.hosts.sandbox.visible_folders import readable
from holdfast.model import codec, json_structs
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.builder.build_page import built_page
from holdfast.pipelines.builder.contract import contract_of_arguments
from holdfast.pipelines.builder.declared import DeclaredPipeline, DeclaredPipelines, pipelines_of
from holdfast.pipelines.builder.entry import MAX_DRAFT_BYTES, MAX_FRAME_BYTES, drafted
from holdfast.pipelines.graph.contract import json_of
from holdfast.pipelines.graph.graph import GIVES, GRAPH_FORMAT, Built, Graph, SourceLine, StepNode
from holdfast.pipelines.graph.graph_json import MAX_TEXT_BYTES, check_text, graph_from
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.workers.packages import Kept, Packages, imported
from holdfast.workers.policy import Policy

BUILD_SECONDS: Final = 10.0
"""The code of a file may run at most this many seconds, if the caller gives no other number."""
BUILD_MEMORY_MB: Final = 256
_ENTRY: Final = "holdfast.pipelines.builder.entry:enter"
_PRELOAD: Final = ("holdfast.pipelines.builder.entry",)
_MOST_SOURCE: Final = 1024 * 1024
_MOST_SHOWN: Final = 2_000


class _Draft(msgspec.Struct):
    """What the sandbox sends for one pipeline. Its parts stay text until graph/graph_json.py reads them."""

    nodes: msgspec.Raw
    gives: msgspec.Raw
    lines: dict[str, SourceLine] = {}


def declared_in(file: Path) -> DeclaredPipelines:
    """Read which pipelines a file declares, without running it. Raises PipelineInvalid if there is no such file, if the file is too large,
    or if it declares a pipeline wrongly: then the error lists the problems with their lines."""
    if not file.is_file():
        raise PipelineInvalid(f"There is no file {file}.")
    source = file.read_bytes()
    if len(source) > _MOST_SOURCE:
        raise PipelineInvalid(f"{file} has {len(source)} bytes; at most {_MOST_SOURCE} are allowed.")
    declared = pipelines_of(source)
    if declared.problems:
        raise PipelineInvalid("\n".join(f"{file}, line {problem.line}: {problem.message}" for problem in declared.problems))
    return declared


async def build(
    file: Path,
    packages: Packages,
    policy: Policy = Policy(),  # noqa: B008  frozen
    *,
    server_limits: ServerLimits | None = None,
    seconds: float = BUILD_SECONDS,
) -> list[Built]:
    """Every pipeline that a Python file declares, in the order of the file (empty if it declares none), or the one pipeline of a page.

    A Python file is copied into a snapshot with its pages and the modules beside it. The copy runs in the sandbox for at most `seconds`, or
    in this process if the policy's isolation is `inline`. For a page no code runs. Raises PipelineInvalid if there is no such file, if a
    pipeline is wrong, or if the code of the file fails; ContractInvalid if the page of a Python file is not a contract; IncludeRefused
    or InvalidParameter if a page or a file of `include` is missing or may not be copied; and Overloaded or SandboxUnavailable if no sandbox
    can run the file. The errors name the author's file and line where these are known.
    """
    if file.suffix != ".py":
        return [await in_thread(Purpose.HOUSE, built_page, file, packages)]
    declared = (await in_thread(Purpose.HOUSE, declared_in, file)).pipelines
    if not declared:
        return []
    kept = await in_thread(Purpose.HOUSE, _kept, file, declared, packages)
    contracts = [_contract(each, kept, file) for each in declared]
    variables = [each.variable for each in declared]
    frame: Mapping[str, Any]
    if policy.isolation == "inline":
        frame = drafted(lambda: imported(kept.folder, kept.file), variables, str(kept.folder))
    else:
        frame = await _jailed(file, kept, variables, policy, server_limits, seconds)
    drafts = _drafts(frame, kept, file, len(declared))
    built = [_built(*one, kept, file) for one in zip(declared, contracts, drafts, strict=True)]
    if not any(isinstance(node, StepNode) for one in built for node in one.graph.nodes):
        return built
    include = tuple(each for pipeline in declared for each in pipeline.include)
    steps = await in_thread(
        Purpose.HOUSE, packages.keep, file, (), include
    )  # without the page, so that a change of its text does not change the steps' package
    return [_with_steps(one, steps, include) for one in built]


def _kept(file: Path, declared: Sequence[DeclaredPipeline], packages: Packages) -> Kept:
    pages = []
    for pipeline in declared:
        if pipeline.page is not None:
            page = check_page(file, pipeline.page)
            if not page.is_file():
                raise PipelineInvalid(
                    f"There is no page {pipeline.page} in the folder of the file. Put it there, or correct its name.",
                    f"{file}, line {pipeline.line}",
                )
            pages.append(page)
    return packages.keep(file, pages, [each for pipeline in declared for each in pipeline.include])


def _contract(declared: DeclaredPipeline, kept: Kept, file: Path) -> Contract:
    if declared.page is not None:
        name = PurePosixPath(declared.page).name
        return contract_of((kept.folder / name).read_bytes(), name=declared.page)
    try:
        return contract_of_arguments(declared.given)
    except PipelineInvalid as wrong:
        raise PipelineInvalid(str(wrong), f"{file}, line {declared.line}") from None


async def _jailed(
    file: Path, kept: Kept, variables: Sequence[str], policy: Policy, server_limits: ServerLimits | None, seconds: float
) -> Mapping[str, Any]:
    """Run the file in the sandbox, and return the message (the frame) that its code sent: drafts of pipelines, or an error. All processes
    of the sandbox have ended when this returns. Raises PipelineInvalid if the code sent no message."""
    jail = Jail(
        package=kept.folder,
        entry=_ENTRY,
        arguments=(kept.module, str(kept.file)),
        path=importable(),
        readable=readable(),
        preload=_PRELOAD,
        memory_mb=min(BUILD_MEMORY_MB, policy.memory_mb),
        cpu_seconds=seconds,
        scratch_mb=policy.scratch_mb,
        frame_bytes=MAX_FRAME_BYTES,
        isolation="process" if policy.isolation == "process" else "all",
    )
    sandbox = Sandbox(jail, server_limits)
    try:
        body = await sandbox.attempt(seconds)
        await body.send({"op": "draft", "variables": list(variables)})
        said = await body.receive()
        if isinstance(said, BodyEnd):
            raise PipelineInvalid(
                f"The code of this file did not write the pipeline: {said.code or 'it ended'} ({said.detail or 'no result'}).", str(file)
            )
        return said.data
    finally:
        await sandbox.close()


def _drafts(frame: Mapping[str, Any], kept: Kept, file: Path, count: int) -> list[_Draft]:
    match frame:
        case {"op": "failed", "file": str(at), "line": int(line), "message": str(message)}:
            where = f"{_place(at, kept, file)}, line {line}" if at and line else str(file)
            raise PipelineInvalid(_printable(message), where)
        case {"op": "drafted", "drafts": [*texts]} if len(texts) == count and all(isinstance(text, str) for text in texts):
            return [_draft(text, file) for text in texts]
        case _:
            raise PipelineInvalid("The code of this file sent something that is not the list of its pipelines.", str(file))


def _draft(text: str, file: Path) -> _Draft:
    data = text.encode(errors="surrogatepass")
    try:
        check_text(data, MAX_DRAFT_BYTES, "A pipeline")
        return json_structs.decoded(data, _Draft)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as wrong:
        raise PipelineInvalid(f"The code of this file sent data that is not a pipeline: {str(wrong)[:300]}.", str(file)) from None


def _built(declared: DeclaredPipeline, contract: Contract, draft: _Draft, kept: Kept, file: Path) -> Built:
    """Make the graph from the contract that the runner read and the nodes that the sandbox sent, with all checks for graphs from
    outside."""
    around = {"contract": json_of(contract), "format": GRAPH_FORMAT, "gates": declared.gates}
    text = codec.dumps(around).removesuffix("}").encode() + b',"nodes":' + bytes(draft.nodes) + b',"gives":' + bytes(draft.gives) + b"}"
    if len(text) > MAX_TEXT_BYTES:
        raise PipelineInvalid(
            f"The pipeline has {len(text)} bytes as JSON; at most {MAX_TEXT_BYTES} are allowed.", f"{file}, line {declared.line}"
        )
    try:
        graph = graph_from(text)
    except PipelineInvalid as wrong:
        raise PipelineInvalid(str(wrong), f"{file}, line {declared.line}") from None
    return Built(graph, _lines(graph, draft.lines, kept, file))


def _with_steps(built: Built, steps: Kept, include: tuple[str, ...]) -> Built:
    if not any(isinstance(node, StepNode) for node in built.graph.nodes):
        return built
    return msgspec.structs.replace(built, graph=msgspec.structs.replace(built.graph, steps=steps.name), include=include)


def _lines(graph: Graph, said: Mapping[str, SourceLine], kept: Kept, file: Path) -> dict[str, SourceLine]:
    """The lines on which the author wrote the nodes, as the sandbox sent them. Impossible line numbers are left out. The sandbox is not
    trusted, so these lines are only shown to people."""
    lines = {}
    for name in (*(node.name for node in graph.nodes), GIVES):
        line = said.get(name)
        if line is not None and 0 < line.line < 10_000_000:
            lines[name] = SourceLine(_place(line.file, kept, file), line.line)
    return lines


def _place(name: str, kept: Kept, file: Path) -> str:
    """The path of the author's file, from its name in the snapshot. The sandbox sent the name, so it is only shown to people."""
    return str(file.parent / os.path.relpath(f"/{_printable(name)[:300]}", f"/{kept.file.parent}"))


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text[:_MOST_SHOWN])
