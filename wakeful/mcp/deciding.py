"""The decisions that a run and its descendants wait for, and how a client's answer reaches them."""

import contextlib
from typing import Any

from mcp.server import ServerRequestContext

from wakeful.client.approvals import PendingDecision, not_sent, pending_of
from wakeful.client.client import Client
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import NoAnswer, WakefulError
from wakeful.mcp.beginning import detached
from wakeful.mcp.questions import Answer
from wakeful.mcp.served import Served

ADAPTER = "mcp"


async def pending_in(client: Client, thread_id: str) -> tuple[PendingDecision, ...]:
    """Every decision that the thread or one of its descendants waits for, except what waits for a worker settles."""
    view = await detached(client.status(thread_id))
    found = [*not_sent(pending_of(view))]
    for child in view.children:
        if view.child_cancelled_by(child) is not None:
            continue
        with contextlib.suppress(WakefulError):  # it has ended meanwhile, or is a tool's workflow
            found += await pending_in(client, child)
    return tuple(found)


async def decide(
    served: Served, ctx: ServerRequestContext[None, Any], pending: PendingDecision, answer: Answer
) -> None:
    """Send a decision, bound to what was shown of the call.

    Raises:
        DecisionRefused: it changed nothing, such as because it does not match the schema.
    """
    decision = Decision(
        target=pending.suspension_id or pending.call_id,
        action=answer.action,
        result=answer.result,
        reason=answer.reason,
        arguments_digest=pending.arguments_digest,
        always=answer.always,
        actor=_actor(served, ctx),
        channel="mcp",
    )
    sending = served.client.decide_many(pending.thread_id, [decision], tenant=served.tenant, confirm=True)
    with contextlib.suppress(NoAnswer):  # no worker runs: it waits in the thread's history
        await detached(sending)


def _actor(served: Served, ctx: ServerRequestContext[None, Any]) -> str:
    """Who decided: the user, and the program that says so."""
    params = ctx.session.client_params
    program = f"{ADAPTER}:{params.client_info.name}" if params is not None else ADAPTER
    return f"{served.user} ({program})" if served.user else program
