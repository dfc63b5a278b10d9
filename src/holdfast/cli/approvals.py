"""`holdfast approvals`: what workers wait for, and the decisions of people. Whoever runs a worker notices a decision by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.arguments import CodecOption, LinesOption, StoreOption, StorePlace, read_json
from holdfast.cli.terminal import print_document, print_line, print_table, say, seconds, shortened
from holdfast.cli.workers import call_of

if TYPE_CHECKING:
    from holdfast.workers.approvals import Approval

app = typer.Typer(help="Decide what workers wait for.", no_args_is_help=True, rich_markup_mode=None)

IdArgument = Annotated[str, typer.Argument(metavar="APPROVAL_ID", help="The approval's id, as `holdfast approvals list` prints it.")]
CommentOption = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Why; kept with the decision.")]


@app.command("list")
def list_(json_output: LinesOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """What waits for a decision, oldest first."""
    with StorePlace.of(store, codec).client() as client:
        found = client.approvals()
    if json_output:
        for approval in found:
            print_line(msgspec.to_builtins(approval))
    elif not found:
        say("nothing waits for a decision")
    else:
        print_table(
            ("APPROVAL", "KIND", "WORKER", "ASKS FOR", "SINCE", "UNTIL"),
            [(a.approval_id, a.kind, a.worker_id, _asks(a), seconds(a.requested_at), seconds(a.expires_at or 0)) for a in found],
            folds="ASKS FOR",
        )


@app.command("show")
def show(approval_id: IdArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Everything about one of them, as JSON."""
    with StorePlace.of(store, codec).client() as client:
        print_document(msgspec.to_builtins(client.approval(approval_id)))


@app.command("approve")
def approve(
    approval_id: IdArgument,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON|@FILE", help="Other arguments to use instead; they are checked like the first.")
    ] = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Let a call be made, with exactly the arguments it was shown with, or with edited ones."""
    edited = None if edit is None else read_json("--edit", edit)
    _decide(approval_id, StorePlace.of(store, codec), "approve", comment, edited_arguments=edited)


@app.command("reject")
def reject(approval_id: IdArgument, comment: CommentOption = None, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Refuse a call: it is never made. A question stays unanswered."""
    _decide(approval_id, StorePlace.of(store, codec), "reject", comment)


@app.command("answer")
def answer(
    approval_id: IdArgument,
    result: Annotated[str, typer.Argument(metavar="JSON|@FILE|-", help="The answer: JSON, a file's, or stdin's.")],
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a worker's question."""
    _decide(approval_id, StorePlace.of(store, codec), "answer", comment, result=read_json("JSON", result))


@app.command("settle")
def settle(
    approval_id: IdArgument,
    verdict: Annotated[str, typer.Argument(metavar="happened|not_happened|stop", help="What you found out.")],
    result: Annotated[str | None, typer.Option("--result", metavar="JSON|@FILE|-", help="What the call came to, if it happened.")] = None,
    comment: CommentOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Say what became of a call whose outcome nobody knows: it happened, it did not happen, or stop."""
    from holdfast.workers.approvals import check_settles

    check_settles(verdict)
    found = None if result is None else read_json("--result", result)
    _decide(approval_id, StorePlace.of(store, codec), verdict, comment, result=found)


def _decide(approval_id: str, place: StorePlace, verdict: str, comment: str | None, **more: Any) -> None:
    with place.client() as client:
        decided = client.decide(approval_id, verdict, comment=comment, **more)
    say(f"{decided.state}: {decided.worker_id} run {decided.run_id} goes on when a runner has it")


def _asks(approval: Approval) -> str:
    if approval.kind == "question":
        return shortened(approval.question or "", 200)
    why = "" if approval.question is None else f": {shortened(approval.question, 200)}"
    return f"{call_of(approval.tool, approval.arguments)}{why}"
