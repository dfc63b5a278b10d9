"""`holdfast approvals`: lists the approvals that workers wait for, and stores the decisions of people. A process that runs the worker
notices a decision by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments import CodecOption, JsonOption, LinesOption, StoreOption, StorePlace, read_json
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, print_line, print_table, say, seconds, shortened, working
from holdfast.cli.workers import call_of
from holdfast.model.durations import HINT, parsed
from holdfast.model.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.workers.approvals import Approval
    from holdfast.workers.batches import BatchVerdict

app = typer.Typer(help="Look at the approvals that workers wait for, and decide them.", no_args_is_help=True, rich_markup_mode=None)

IdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[APPROVAL_ID]...", help="Ids of approvals, as `holdfast approvals list` prints them.")
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="All open approvals of this run, and of the runs below it, such as a map's items."),
]
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="With --run: only those that this node of the pipeline waits for.")
]
_ALL = 1 << 62
ApprovalIdArgument = Annotated[
    str, typer.Argument(metavar="APPROVAL_ID", help="The approval's id, as `holdfast approvals list` prints it.")
]
CommentOption = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="The reason. It is stored with the decision.")]


@app.command("list")
def list_(run: RunOption = None, json_output: LinesOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """List the approvals that wait for a decision, those of the oldest run first: all of them, or with --run those of that run and the
    runs below it."""
    from holdfast.workers.approvals import approval_document

    with StorePlace.of(store, codec).client() as client:
        found = list(client.approvals.list(None if run is None else client.get(run).id, limit=_ALL))
    if json_output:
        for approval in found:
            print_line(approval_document(approval))
    elif not found:
        say("nothing waits for a decision")
    else:
        print_table(
            ("APPROVAL", "KIND", "WORKER", "ASKS FOR", "VOTES", "SPENT", "THE REST MAY COST", "SINCE", "UNTIL"),
            [(a.approval_id, a.kind, a.worker_id, _asks(a), _votes(a), _spent(a), _rest(a), *_times(a)) for a in found],
            folds="ASKS FOR",
        )
        _say_unknown(found)


@app.command("show")
def show(approval_id: ApprovalIdArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Show one approval as JSON: what is asked, who may decide, the votes, the chain, what was spent, and what the rest may cost."""
    from holdfast.workers.approvals import approval_document

    with StorePlace.of(store, codec).client() as client:
        found = client.approvals.get(approval_id)
    print_document(approval_document(found))
    _say_unknown([found])


@app.command("approve")
def approve(
    approval_ids: IdsArgument = None,
    run: RunOption = None,
    node: NodeOption = None,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON|@FILE", help="Arguments to use instead of those shown. They are checked, too.")
    ] = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Approve what is asked. A call is made with exactly the arguments that were shown, or with those of --edit. Several approvals are
    decided one by one. If several persons must approve, this is one vote."""
    place, ids = StorePlace.of(store, codec), approval_ids or []
    if edit is None:
        _decide_all(place, "approve", ids, run, node, comment)
    elif _is_one(ids, run, node):
        _decide(ids[0], place, "approve", comment, edited_arguments=read_json("--edit", edit))
    else:
        raise InvalidParameter("--edit is for one approval: give exactly one approval id, without --run and --node.")


@app.command("reject")
def reject(
    approval_ids: IdsArgument = None,
    run: RunOption = None,
    node: NodeOption = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Refuse a call, which is then never made, or a question, which then stays unanswered. Several are decided one by one."""
    place, ids = StorePlace.of(store, codec), approval_ids or []
    _decide_all(place, "reject", ids, run, node, comment)


@app.command("answer")
def answer(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[APPROVAL_ID]... JSON|@FILE|-",
            help="Ids of approvals, then the answer: JSON, @FILE for the content of a file, or - for stdin. With --run: only the answer.",
        ),
    ],
    run: RunOption = None,
    node: NodeOption = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a question of a worker or a pipeline. If one answer is given to several questions, it is checked and stored for each question
    separately."""
    place, ids, result = StorePlace.of(store, codec), words[:-1], read_json("JSON", words[-1])
    _decide_all(place, "answer", ids, run, node, comment, result)


@app.command("link")
def link(
    approval_id: ApprovalIdArgument,
    person: Annotated[str, typer.Option("--person", metavar="NAME", help="The person who may decide with the link.")],
    valid: Annotated[str, typer.Option("--valid", metavar="DURATION", help="How long the link is valid, such as 4h.")] = "2d",
    base: Annotated[
        str, typer.Option("--base", metavar="URL", help="The address of the server, as the person reaches it.")
    ] = "http://127.0.0.1:9001",
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Make a link with which one person may decide one approval, once.

    Opening the link shows the question and decides nothing; the person decides with the form on that page. The link is a secret: each
    person who has it can decide as NAME. It is printed now and cannot be printed again.
    """
    lasts = parsed(valid)
    if lasts is None:
        raise InvalidParameter(f"--valid is {valid!r:.50}, which is no duration. {HINT}")
    if not base.startswith(("http://", "https://")):
        raise InvalidParameter(f"--base is {base!r:.100}; it must begin with http:// or https://.")
    with StorePlace.of(store, codec).client() as client:
        made = client.approvals.link(approval_id, person, lasts)
    url = base.rstrip("/") + made.path
    if json_output:
        print_document({"approval_id": made.approval_id, "person": made.person, "expires_at": made.expires_at, "url": url})
        return
    print(url)
    say(f"{made.person} may decide {made.approval_id} with this link, once, until {seconds(made.expires_at)}")


@app.command("settle")
def settle(
    approval_id: ApprovalIdArgument,
    verdict: Annotated[
        str, typer.Argument(metavar="happened|not_happened|stop", help="What you found out about the call; stop lets it fail.")
    ],
    result: Annotated[str | None, typer.Option("--result", metavar="JSON|@FILE|-", help="The result of the call, if it happened.")] = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Say what became of a call whose outcome is unknown: it happened, it did not happen, or stop: the call fails, which ends the run
    unless the worker catches the error."""
    from holdfast.workers.approvals import check_settles

    check_settles(verdict)
    found = None if result is None else read_json("--result", result)
    _decide(approval_id, StorePlace.of(store, codec), verdict, comment, result=found)


def _decide(approval_id: str, place: StorePlace, verdict: str, comment: str | None, **more: Any) -> None:
    with place.client() as client:
        decided = client.approvals.decide(approval_id, verdict, comment=comment, **more)
    if decided.state == "open":
        say(f"vote recorded: {_votes(decided)} votes; {decided.worker_id} run {decided.run_id} waits for more votes")
    else:
        say(f"{decided.state}: {decided.worker_id} run {decided.run_id} goes on as soon as a runner takes it")


def _is_one(ids: list[str], run: str | None, node: str | None) -> bool:
    return run is None and node is None and len(ids) == 1


def _decide_all(
    place: StorePlace, verdict: BatchVerdict, ids: list[str], run: str | None, node: str | None, comment: str | None, result: Any = None
) -> None:
    if _is_one(ids, run, node):
        _decide(ids[0], place, verdict, comment, result=result)
        return
    with working("deciding"), place.client() as client:
        below = None if run is None else client.get(run).id
        results = client.approvals.decide_many(verdict, ids, run=below, node=node, comment=comment, result=result)
    for one in results:
        print(f"{one.approval_id} {one.state}" if one.error_code is None else f"{one.approval_id} error[{one.error_code}]: {one.message}")
    refused = sum(one.error_code is not None for one in results)
    if not results:
        say("no open approval matches")
    if refused:
        say(f"{refused} of {len(results)} decisions were refused; each line says why")
        raise typer.Exit(ExitCode.UNSUCCESSFUL)


def _votes(approval: Approval) -> str:
    return f"{len(approval.votes)}/{approval.votes_needed}" if approval.is_voted else "-"


def _spent(approval: Approval) -> str:
    """What the outermost run has spent: its cost, or its tokens if the cost is 0; `-` if nothing is known about it."""
    if not approval.spent:
        return "-"
    used = approval.spent[-1].usage
    return f"${used.cost_usd:f}" if used.cost_usd else f"{used.tokens.input + used.tokens.output:,} tokens"


def _rest(approval: Approval) -> str:
    """What the rest of the outermost run may cost, in words; `-` if that could not be estimated."""
    from holdfast.costs.estimates import UNKNOWN_HERE, rest_in_words

    return "-" if approval.may_cost is None else rest_in_words(approval.may_cost, UNKNOWN_HERE)


def _say_unknown(found: Sequence[Approval]) -> None:
    """If the cost of the rest of a run is not known here, print where the user can find it: at a server that serves the workers. The server
    knows their contracts, this command does not."""
    unknown = next((one for one in found if one.may_cost is not None and one.may_cost["most"]["cost_usd"] is None), None)
    if unknown is not None:
        say(f"the rest may cost: unknown here; a server of the workers tells it: GET /v1/approvals/{unknown.approval_id}")


def _times(approval: Approval) -> tuple[str, str]:
    return seconds(approval.requested_at), seconds(approval.expires_at or 0)


def _asks(approval: Approval) -> str:
    if approval.kind == "question":
        return shortened(approval.question or "", 200)
    why = "" if approval.question is None else f": {shortened(approval.question, 200)}"
    return f"{call_of(approval.tool, approval.arguments)}{why}"
