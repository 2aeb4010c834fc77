"""Commands that answer suspended calls: approve, deny, decide.

What is answered is read first and shown, and the decision is bound to it. It is sent as an update, so that a refusal is
known at once; while no worker runs, it is sent as a signal and waits in the run's history.
"""

import asyncio
import getpass
import socket
import sys
import uuid
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import JsonValue

from wakeful.cli import completion, options
from wakeful.cli.session import json_value, with_client
from wakeful.cli.terminal.render import printable, spelled
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract.decisions import Decision, DecisionAction
from wakeful.contract.errors import CallerError, DecisionRefused, NoAnswer, ThreadNotFound, WakefulError
from wakeful.contract.ids import ticket_id

Tickets = Annotated[
    list[str],
    typer.Argument(
        metavar="TICKET",
        help="THREAD/CALL, as `wakeful inbox` prints it; several are fine.",
        autocompletion=completion.tickets_like,
    ),
]
ResultOption = Annotated[str | None, typer.Option(metavar="JSON", help="The answer, as JSON.")]
ReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the model and the record.")]
ActorOption = Annotated[
    str | None, typer.Option(metavar="WHO", help="Who decides, for the record. [default: user@host]")
]


@dataclass(frozen=True)
class Answer:
    """What is answered, whatever it is answered to."""

    action: DecisionAction
    result: JsonValue = None
    reason: str | None = None
    arguments: JsonValue = None
    always: bool = False
    actor: str | None = None
    decision_id: str | None = None

    def to(self, target: str, shown: PendingDecision | None) -> Decision:
        """The decision on one call, bound to the question and the arguments that were shown."""
        return Decision(
            target=(shown.suspension_id if shown else None) or target,
            action=self.action,
            result=self.result,
            reason=self.reason,
            arguments=self.arguments,
            arguments_digest=shown.arguments_digest if shown else None,
            always=self.always,
            actor=self.actor,
            decision_id=self.decision_id or uuid.uuid4().hex,
        )


def approve(
    tickets: Tickets,
    result: ResultOption = None,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="Let it go on with these arguments instead.")
    ] = None,
    always: Annotated[bool, typer.Option("--always", help="And allow it on this thread from now on.")] = False,
    reason: ReasonOption = None,
    actor: ActorOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Let suspended calls go on."""
    answer = Answer(
        DecisionAction.RESUME,
        result=json_value("--result", result),
        reason=reason,
        arguments=json_value("--arguments", arguments),
        always=always,
        actor=actor or whoever(),
    )
    _answer_all(tickets, answer, address, namespace)


def deny(
    tickets: Tickets,
    reason: ReasonOption = None,
    actor: ActorOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Cancel suspended calls; the model reads the reason."""
    _answer_all(tickets, Answer(DecisionAction.CANCEL, reason=reason, actor=actor or whoever()), address, namespace)


def decide(
    thread: options.ThreadArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The suspended call's id, or its suspension's.")],
    action: Annotated[DecisionAction, typer.Argument(help="Let it go on, or cancel it.")],
    result: ResultOption = None,
    reason: ReasonOption = None,
    decision_id: Annotated[str | None, typer.Option(help="Sending the same id again changes nothing.")] = None,
    actor: ActorOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Answer a suspended call, or one that is about to suspend."""
    answer = Answer(action, json_value("--result", result), reason, actor=actor or whoever(), decision_id=decision_id)

    async def go(client: Client) -> str:
        try:
            shown = await _pending(client, thread, call)
        except NoAnswer:
            shown = None
        return await send_answer(client, thread, call, answer, shown=shown)

    print(with_client(address, namespace, go))


def whoever() -> str:
    """Who sits here, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _answer_all(tickets: list[str], answer: Answer, address: str | None, namespace: str | None) -> None:
    async def go(client: Client) -> list[str | WakefulError]:
        return await asyncio.gather(*(_answered(client, ticket, answer) for ticket in tickets))

    outcomes = with_client(address, namespace, go)
    for ticket, outcome in zip(tickets, outcomes, strict=True):
        if isinstance(outcome, DecisionRefused):
            print(f"wakeful: {ticket}: refused: {outcome.reason}", file=sys.stderr)
        elif isinstance(outcome, WakefulError):
            print(f"wakeful: {ticket}: {outcome}", file=sys.stderr)
        else:
            print(outcome)
    if any(isinstance(outcome, WakefulError) for outcome in outcomes):
        raise typer.Exit(1)


async def _answered(client: Client, ticket: str, answer: Answer) -> str | WakefulError:
    """What became of it: a line to print, or what is wrong with it, so that the other tickets are answered."""
    try:
        thread_id, target, shown = await _found(client, ticket)
        return await send_answer(client, thread_id, target, answer, shown=shown)
    except WakefulError as error:
        return error


async def _found(client: Client, ticket: str) -> tuple[str, str, PendingDecision | None]:
    """The thread and the call that a ticket names. Either may hold slashes; the last one parts them, if that fits."""
    parts = ticket.split("/")
    if len(parts) == 1 or not parts[-1]:
        raise CallerError(f"{ticket!r} is no ticket: write THREAD/CALL, as `wakeful inbox` prints it")
    for cut in range(len(parts) - 1, 0, -1):
        thread_id, target = "/".join(parts[:cut]), "/".join(parts[cut:])
        if not (thread_id and target):
            continue
        try:
            shown = await _pending(client, thread_id, target)
        except ThreadNotFound:
            continue
        except NoAnswer:
            return thread_id, target, None
        if shown is None:
            raise DecisionRefused(thread_id, f"no decision on {target!r} is waited for")
        return thread_id, target, shown
    raise ThreadNotFound(ticket.rpartition("/")[0] or ticket)


async def _pending(client: Client, thread_id: str, target: str) -> PendingDecision | None:
    view = await client.status(thread_id, within=QUERY_TIMEOUT)
    return next((entry for entry in pending_of(view) if target in (entry.call_id, entry.suspension_id)), None)


async def send_answer(
    client: Client, thread_id: str, target: str, answer: Answer, *, shown: PendingDecision | None
) -> str:
    """Send the decision, and say in a line what became of it."""
    decision = answer.to(target, shown)
    about = (
        printable(spelled(shown.tool_name, shown.arguments if decision.arguments is None else decision.arguments))
        if shown
        else ""
    )
    named = printable(ticket_id(thread_id, target)) + (f": {about}" if about else "")
    try:
        status = await client.decide_many(thread_id, [decision], confirm=True)
    except NoAnswer as error:
        await client.decide_many(thread_id, [decision])
        return f"sent      {named} (the decision waits in the run's history: {error})"
    if status == "held":
        return f"held      {named} (it is applied when the call suspends)"
    if status == "repeated":
        return f"repeated  {named} (it had been applied before)"
    return f"{'approved' if answer.action is DecisionAction.RESUME else 'denied  '}  {named}"
