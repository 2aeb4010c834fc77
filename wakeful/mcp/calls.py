"""The calls of tools: begin or find a run, and answer with what comes of it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult
from pydantic import ValidationError

from wakeful.client.approvals import PendingDecision
from wakeful.contract.decisions import ClientDecisions, DecisionAction
from wakeful.contract.errors import CallerError
from wakeful.mcp.arguments import CancelArguments, ContinueArguments, parse_agent_arguments, parse_arguments
from wakeful.mcp.beginning import Target, begin, detached, start_detached
from wakeful.mcp.deciding import decide, pending_in
from wakeful.mcp.following import Answered, FollowedRun, Replies, RequestState
from wakeful.mcp.in_flight import InFlight
from wakeful.mcp.notices import LogLevels, Notices
from wakeful.mcp.questions import Answer, parse_form, ticket_of
from wakeful.mcp.results import done
from wakeful.mcp.served import CANCEL, CONTINUE, Served

NO_DECISIONS = "this server takes no decisions: they are made elsewhere"
NO_APPROVALS = "this server takes no approvals: they are made elsewhere"


@dataclass(frozen=True)
class ToolRequest:
    """A call of a tool, with what the server keeps for all of them."""

    served: Served
    in_flight: InFlight
    levels: LogLevels
    ctx: ServerRequestContext[None, Any]
    params: CallToolRequestParams


async def run_agent(request: ToolRequest, agent_id: str) -> Answered:
    """The tool of an agent."""
    if request.params.request_state is not None:
        return await _resume(request)
    asked = parse_agent_arguments(request.params.name, request.params.arguments, request.params.meta)
    return await _follow(request, begin(request.served, agent_id, asked), agent_id=agent_id)


async def continue_run(request: ToolRequest) -> Answered:
    """`continue`: decide, if the call says how, and wait for the newest run of a thread."""
    if request.params.request_state is not None:
        return await _resume(request)
    asked = parse_arguments(ContinueArguments, CONTINUE, request.params.arguments)
    replies = Replies()
    return await _follow(request, _decided(request, asked, replies), replies=replies, outlasts=True)


async def cancel_run(request: ToolRequest) -> CallToolResult:
    """`cancel`: cancel the run of a thread."""
    asked = parse_arguments(CancelArguments, CANCEL, request.params.arguments)
    await detached(_checked(request.served, asked.thread_id))
    reason = asked.reason or "an MCP client cancelled it"
    await detached(request.served.client.cancel(asked.thread_id, reason=reason))
    return done(f"The run on thread {asked.thread_id!r} is being cancelled.", thread_id=asked.thread_id)


async def _follow(
    request: ToolRequest,
    beginning: Awaitable[Target],
    *,
    agent_id: str | None = None,
    replies: Replies | None = None,
    outlasts: bool = False,
) -> Answered:
    """Begin, and answer; a cancellation of the request finds what it has begun."""
    begun = start_detached(beginning)
    with request.in_flight.tracking(request.ctx, begun):
        target = await asyncio.shield(begun)
        served = request.served
        agent_id = agent_id or (await detached(served.client.status(target.thread_id))).identity.agent_id
        notices = Notices(request.ctx, request.levels, target.thread_id, agent_id)
        schema = served.output_schema_of(agent_id)
        run = FollowedRun(
            served, request.ctx, target, notices, schema=schema, replies=replies or Replies(), outlasts=outlasts
        )
        return await run.answer()


async def _checked(served: Served, thread_id: str) -> Target:
    """The newest run of a thread. Raises `CallerError` if this server does not serve the thread."""
    served.check_id(thread_id)
    view = await served.client.status(thread_id)
    served.check_thread(view.identity)
    return Target(thread_id, run_id=view.identity.run_id)


async def _decided(request: ToolRequest, asked: ContinueArguments, replies: Replies) -> Target:
    """Send the decision that a call of `continue` has; one that was made before changes nothing."""
    served = request.served
    target = await _checked(served, asked.thread_id)
    if not asked.decides:
        return target
    if served.decisions is ClientDecisions.NONE:
        raise CallerError(f"{NO_DECISIONS}; call again without one to wait")
    pending = {ticket_of(each): each for each in await pending_in(served.client, asked.thread_id)}
    if asked.ticket is None:
        waiting = ", ".join(map(repr, pending)) or "none"
        raise CallerError(f"`ticket` is missing: it says what the decision is about; waiting are {waiting}")
    if (shown := pending.get(asked.ticket)) is not None:
        if not served.may_decide(shown):
            raise CallerError(f"{NO_APPROVALS}; call again without a decision to wait")
        await decide(served, request.ctx, shown, _answer(asked, shown))
        replies.decided.add((asked.ticket, shown.since))
    return target


def _answer(asked: ContinueArguments, pending: PendingDecision) -> Answer:
    if asked.decision == "deny":
        return Answer(DecisionAction.CANCEL, reason=asked.reason)
    if asked.answer is None and pending.needs_result:
        raise CallerError("`answer` is missing: the run waits for an answer, not only for an approval")
    return Answer(DecisionAction.RESUME, result=asked.answer, reason=asked.reason)


async def _resume(request: ToolRequest) -> Answered:
    """A client of the newest protocol repeats its request, with answers to what it was asked."""
    try:
        state = RequestState.model_validate_json(request.params.request_state or "")
    except ValidationError:
        raise CallerError("the request state is not one of this server: call the tool again without it") from None
    replies = Replies()

    async def answered() -> Target:
        await _checked(request.served, state.thread_id)
        for pending in await pending_in(request.served.client, state.thread_id):
            ticket = ticket_of(pending)
            response = (request.params.input_responses or {}).get(ticket)
            if ticket not in state.shown or not isinstance(response, ElicitResult):
                continue
            if response.action == "cancel":
                replies.dismissed.add(ticket)
            elif (problem := await _answer_form(request, state, pending, response)) is not None:
                replies.problems[ticket] = problem
            else:
                replies.decided.add((ticket, pending.since))
        return state.target

    return await _follow(request, answered(), replies=replies)


async def _answer_form(
    request: ToolRequest, state: RequestState, pending: PendingDecision, response: ElicitResult
) -> str | None:
    """Send the decision that a form means; returns why it was refused."""
    if not request.served.may_decide(pending):
        return NO_APPROVALS
    shown = pending.model_copy(update={"arguments_digest": state.shown[ticket_of(pending)]})
    try:
        is_accepted = response.action == "accept"
        answer = parse_form(pending, response.content) if is_accepted else Answer(DecisionAction.CANCEL)
        await decide(request.served, request.ctx, shown, answer)
    except CallerError as error:
        return str(error)
    return None
