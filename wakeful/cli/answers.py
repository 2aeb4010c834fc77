"""Answer suspended calls, for `approve`, `deny`, `decide` and `chat`.

The pending decision is read and shown first, and the answer is bound to it. The answer is sent as an update, so that a
refusal is known at once; while no worker runs, it is sent as a signal and waits in the run's history.
"""

import asyncio
import getpass
import socket
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import typer
from pydantic import JsonValue

from wakeful.cli.options import Cluster
from wakeful.cli.session import read_status, with_client
from wakeful.cli.terminal.text import call_text, printable
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.arguments import rejecting_invalid
from wakeful.client.client import Client
from wakeful.client.earlier_decisions import find_earlier
from wakeful.contract.decisions import Decision, DecisionAction
from wakeful.contract.errors import CallerError, DecisionRefused, NoAnswer, ThreadNotFound, WakefulError
from wakeful.contract.ids import ticket_id, ticket_readings

ALWAYS_NEEDS_RULE = "--always is only for calls that a permission rule asked about: approve this one without it"


@dataclass(frozen=True)
class Answer:
    """A decision, without the call that it is about."""

    action: DecisionAction
    result: JsonValue = None
    reason: str | None = None
    arguments: JsonValue = None
    always: bool = False
    actor: str | None = None
    decision_id: str | None = None
    tenant: str | None = None
    run_id: str | None = None

    def decision(self, target: str, shown: PendingDecision | None) -> Decision:
        """The decision on one call, bound to the suspension and the arguments that were shown.

        Raises:
            CallerError: a part of it is too large, or names nothing.
        """
        with rejecting_invalid(target="CALL"):
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
                channel="cli",
            )


def current_user() -> str:
    """USER@HOST, for the record."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def answer_tickets(tickets: list[str], answer: Answer, cluster: Cluster) -> None:
    """Give the same answer to every ticket, print each outcome, and exit with 1 if one failed."""

    async def go(client: Client) -> list[str | WakefulError]:
        return await asyncio.gather(*(_answer_ticket(client, ticket, answer) for ticket in tickets))

    outcomes = with_client(cluster, go)
    for ticket, outcome in zip(tickets, outcomes, strict=True):
        if isinstance(outcome, DecisionRefused):
            print(f"wakeful: {printable(ticket)}: refused: {printable(outcome.reason)}", file=sys.stderr)
        elif isinstance(outcome, WakefulError):
            print(f"wakeful: {printable(ticket)}: {printable(str(outcome))}", file=sys.stderr)
        else:
            print(outcome)
    if any(isinstance(outcome, WakefulError) for outcome in outcomes):
        raise typer.Exit(1)


async def _answer_ticket(client: Client, ticket: str, answer: Answer) -> str | WakefulError:
    """A line to print, or the error: one bad ticket must not stop the others."""
    try:
        thread_id, target, shown = await _find_ticket(client, ticket)
        if answer.always and isinstance(shown, PendingDecision) and shown.remember is None:
            raise DecisionRefused(thread_id, ALWAYS_NEEDS_RULE)
        return await send_answer(client, thread_id, target, answer, shown=shown)
    except WakefulError as error:
        return error


async def _find_ticket(client: Client, ticket: str) -> tuple[str, str, PendingDecision | NoAnswer]:
    """The thread and the call of a ticket. Both may contain slashes: the last one that leaves a known thread counts."""
    readings = list(ticket_readings(ticket))
    if not readings or ticket.endswith("/"):
        raise CallerError(f"{ticket!r} is not a ticket: write THREAD/CALL, as `wakeful inbox` prints it")
    for thread_id, target in readings:
        try:
            pending = await _read_pending(client, thread_id)
        except ThreadNotFound:
            continue
        except NoAnswer as error:
            return thread_id, target, error
        if (shown := _named(target, pending)) is None:
            earlier = await find_earlier(client.reader, thread_id, [target])
            raise earlier or DecisionRefused(thread_id, _not_waiting(target, pending))
        return thread_id, target, shown
    raise ThreadNotFound(readings[0][0])


async def find_pending(client: Client, thread_id: str, target: str) -> PendingDecision | None:
    """The pending decision on a call, which is named by its id or its suspension's."""
    return _named(target, await _read_pending(client, thread_id))


async def _read_pending(client: Client, thread_id: str) -> tuple[PendingDecision, ...]:
    return pending_of(await read_status(client.reader, thread_id))


def _named(target: str, pending: Sequence[PendingDecision]) -> PendingDecision | None:
    return next((entry for entry in pending if target in (entry.call_id, entry.suspension_id)), None)


def _not_waiting(target: str, pending: Sequence[PendingDecision]) -> str:
    others = ", ".join(printable(f"{entry.call_id} ({entry.tool_name})") for entry in pending)
    return f"{target!r} is not waiting for a decision" + (f"; waiting on this thread: {others}" if others else "")


async def send_answer(
    client: Client, thread_id: str, target: str, answer: Answer, *, shown: PendingDecision | NoAnswer | None
) -> str:
    """Send the decision, and return its outcome as a line to print.

    Args:
        shown: the pending decision, or why the thread did not answer; None if the call is not suspended yet.
    """
    pending = shown if isinstance(shown, PendingDecision) else None
    decision = answer.decision(target, pending)
    call = ""
    if pending is not None:
        arguments = pending.arguments if decision.arguments is None else decision.arguments
        call = f": {printable(call_text(pending.tool_name, arguments))}"
    subject = printable(ticket_id(thread_id, target)) + call
    if isinstance(shown, NoAnswer):
        await client.decide_many(thread_id, [decision], tenant=answer.tenant, run_id=answer.run_id)
        return f"sent      {subject} (the decision waits in the run's history: {shown})"
    try:
        status = await client.decide_many(
            thread_id, [decision], tenant=answer.tenant, run_id=answer.run_id, confirm=True
        )
    except NoAnswer as error:
        return f"sent      {subject} ({error})"
    except DecisionRefused as error:  # it names the suspension that the decision is bound to
        raise DecisionRefused(thread_id, error.reason.replace(repr(decision.target), repr(target))) from error
    if status == "held":
        return f"held      {subject} (it is applied when the call suspends)"
    if status == "repeated":
        return f"repeated  {subject} (it was applied before)"
    return f"{'approved' if answer.action is DecisionAction.RESUME else 'denied  '}  {subject}"
