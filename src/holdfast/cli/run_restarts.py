"""`holdfast runs retry`, `restart` and `compare`. `retry` and `restart` plan a restart, ask the user, and start a new run. A runner that
serves the worker or pipeline runs the new run. `compare` starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments import CodecOption, JsonOption, StoreOption, StorePlace, read_json
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, print_table, printable, say, span_of, working
from holdfast.model.errors import InvalidParameter
from holdfast.model.restart_errors import ConfirmationNeeded

if TYPE_CHECKING:
    from holdfast.pipelines.restart.compare import Comparison, Difference, Side
    from holdfast.pipelines.restart.restart_plan import RestartPlan

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `holdfast run` and `holdfast runs list` print it.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Start without a question.")]
_WORDS = {"reused": "reused", "again": "runs again", "depends": "may run again"}


def retry(
    run: RunArgument, yes: YesOption = False, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None
) -> None:
    """Start a new run that does the failed part of a run again. What succeeded is reused, and writes are not made twice.

    The command says first what is reused and what runs again, and asks. The old run stays, superseded by the new one. A runner that serves
    the worker or pipeline takes the new run: `holdfast serve` or `holdfast runner`. The command acts for the operator and reads no
    holdfast.toml. So the start does not count against a daily cap of runs or a rate, and `policy.estimate` does not refuse it. The calls
    that the new run makes do count.
    """
    _restarted(run, {}, ["runs", "retry", run], StorePlace.of(store, codec), yes=yes, json_output=json_output)


def restart(
    run: RunArgument,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="NODE", help="This node and everything below it runs again. May be given several times."),
    ] = None,
    input_: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON|@FILE|-", help="Other inputs for the new run. Nodes that they do not change are reused."),
    ] = None,
    resend: Annotated[
        list[str] | None,
        typer.Option(
            "--resend", metavar="NODE", help="Make the writes of this node again, without a question. May be given several times."
        ),
    ] = None,
    yes: YesOption = False,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Restart a run as a new run: of a pipeline, the nodes of --from and everything below them run again; of a worker, give --input.

    Every other node is reused if its inputs, its worker and the worker's code are the same. Writes that earlier runs made are not made
    again, except for nodes of --resend; if a write has other arguments now, a person is asked. The command says first what it will do, and
    asks. As with `holdfast runs retry`, the start does not count against a daily cap of runs or a rate, and `policy.estimate` does not
    refuse it.
    """
    inputs = None if input_ is None else read_json("--input", input_)
    if not isinstance(inputs, dict | None):
        raise InvalidParameter("--input must be a JSON object: the inputs by name.")
    if not nodes and inputs is None:
        raise InvalidParameter("A restart needs a node to begin from, or other inputs. Name a node, give inputs, or ask for a retry.")
    asked = {"nodes": nodes or (), "inputs": inputs, "resend": resend or ()}
    words = ["runs", "restart", run, *(word for node in nodes or () for word in ("--from", node))]
    words += [] if input_ is None else ["--input", input_]
    words += [word for node in resend or () for word in ("--resend", node)]
    _restarted(run, asked, words, StorePlace.of(store, codec), yes=yes, json_output=json_output)


def _restarted(run: str, asked: Mapping[str, Any], words: list[str], place: StorePlace, *, yes: bool, json_output: bool) -> None:
    with place.client() as client:
        restarts = client.restarts
        with working("looking at the run"):
            prepared = restarts.prepare(client.get(run).id, **asked)
        say_plan(prepared.plan)
        if not yes:
            agreed("Start the new run?", place.command(*words, "--yes"))
        header = restarts.restart(prepared)
    if json_output:
        print_document({"run_id": header.id, "restarts": prepared.header.id, "plan": prepared.plan.document()})
        return
    print(header.id)
    say(f"started: {header.function} run {header.id} begins as soon as a runner that serves {header.function} has room")


def agreed(question: str, command: str) -> None:
    """Ask the user a yes-or-no question at the terminal. Raises ConfirmationNeeded if the answer is not yes, or if there is no terminal:
    then the error shows `command`, which does the same without a question."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfirmationNeeded(f"Nothing was started. To start it: {printable(command)}")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfirmationNeeded("Nothing was started.")


def say_plan(plan: RestartPlan) -> None:
    """Print to stderr what a restart will do, and the costs. Of a pipeline's run: for each node whether it is reused, runs again or may run
    again. A worker's run has no nodes: the text says that it runs again as a whole."""
    width = max((len(one.node) for one in plan.nodes), default=0)
    for one in plan.nodes:
        cost = f" (cost {one.cost_usd} USD last time)" if one.cost_usd and one.what != "reused" else ""
        say(f"  {printable(one.node):<{width}}  {_WORDS[one.what]:<13}  {printable(one.why)}{cost}")
    if not plan.nodes:
        say(f"  {plan.worker_id} runs again as a whole")
    count = sum(one.what == "reused" for one in plan.nodes)
    say(f"{count} of {len(plan.nodes)} nodes are reused; writes that earlier runs made are not made again")
    if plan.last_cost_usd:
        say(f"what runs again cost {plan.last_cost_usd} USD last time")
    if plan.may_cost_usd is not None:
        say(f"the new run may cost up to {plan.may_cost_usd} USD")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A run's id.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The id of another run of the same worker or pipeline.")],
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Compare two runs of the same worker or pipeline: inputs, outputs and, for each node, state, inputs, outputs, verdict, time and cost.

    The exit code is 1 if they differ in something else than time and cost.
    """
    with working("comparing"), StorePlace.of(store, codec).client() as client:
        told = client.restarts.compare(client.get(a).id, client.get(b).id)
    if json_output:
        print_document(told.document())
    else:
        _print_comparison(told)
    if not told.is_same:
        raise typer.Exit(ExitCode.UNSUCCESSFUL)


def _print_comparison(told: Comparison) -> None:
    rows = []
    for one in told.nodes:
        sides = [("-", "-", "-") if side is None else _side(side) for side in (one.a, one.b)]
        rows.append((one.node, *(f"{x} | {y}" if x != y else x for x, y in zip(*sides, strict=True)), ", ".join(one.differs) or "-"))
    print(f"A {told.a} {told.status[0]}")
    print(f"B {told.b} {told.status[1]}")
    if rows:
        print()
        print_table(("NODE", "STATE", "TOOK", "COST", "DIFFERS"), rows, folds="DIFFERS")
    _print_differences("the inputs", told.inputs)
    for one in told.nodes:
        _print_differences(f"{one.node} inputs", one.inputs)
        _print_differences(f"{one.node} outputs", one.outputs)
        if one.a is not None and one.b is not None and one.a.verdict != one.b.verdict:
            print(f"\n{printable(one.node)} verdict\n  A {printable(one.a.verdict or '-')}\n  B {printable(one.b.verdict or '-')}")
    _print_differences("the outputs", told.outputs)


def _side(side: Side) -> tuple[str, str, str]:
    state = f"{side.state} (reused)" if side.reused else side.state
    return state, "-" if side.duration_ms is None else span_of(side.duration_ms), str(side.cost_usd)


def _print_differences(what: str, found: tuple[Difference, ...]) -> None:
    for one in found:
        print(f"\n{printable(what)} {printable(one.path)}")
        print(f"  A {'(nothing)' if one.a is None else printable(one.a)}")
        print(f"  B {'(nothing)' if one.b is None else printable(one.b)}")
