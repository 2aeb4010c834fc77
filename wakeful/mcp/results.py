"""What a tool returns: the answer of a run, what the run waits for, or why there is neither.

The first block of content is the answer; the second names the thread, because models do not see `_meta`.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from mcp_types import Annotations, CallToolResult, TextContent
from pydantic import JsonValue

from wakeful.client.approvals import PendingDecision
from wakeful.contract.events import EventRecord, FinishSummary, RunFinish
from wakeful.contract.runs import BehaviorRequested, NaturalEnd, RunStatus, Stopped, status_reason
from wakeful.mcp.arguments import META_RUN, META_STATUS, META_THREAD
from wakeful.mcp.questions import question_text, ticket_of
from wakeful.mcp.served import CONTINUE

WRAPPED = "result"
"""The field of the structured output that has an answer which is not an object: the protocol wants objects."""

WAITING = "waiting"

_WAITING_SCHEMA = {
    "type": "object",
    "properties": {
        WAITING: {
            "type": "object",
            "description": f"The run has not finished: it waits for a person. Use the tool `{CONTINUE}`.",
            "properties": {"thread_id": {"type": "string"}, "decisions": {"type": "array"}},
            "required": ["thread_id", "decisions"],
        }
    },
    "required": [WAITING],
}


def output_schema(answer: dict[str, JsonValue]) -> dict[str, Any]:
    """The schema of a tool's structured output: the agent's output type, or what the run waits for."""
    definitions: dict[str, Any] = {name: answer[name] for name in ("$defs", "definitions") if name in answer}
    own = {name: value for name, value in answer.items() if name not in definitions}
    if not _is_object(answer):
        own = {"type": "object", "properties": {WRAPPED: own}, "required": [WRAPPED]}
    # References begin at the root: the definitions stay there.
    return {"type": "object", "anyOf": [own, _WAITING_SCHEMA], **definitions}


def finished(record: EventRecord, finish: RunFinish, *, schema: dict[str, JsonValue] | None) -> CallToolResult:
    """The result of a run that has ended."""
    summary = finish.result or FinishSummary(response="", status=RunStatus.DONE)
    is_natural = isinstance(finish.termination, NaturalEnd | BehaviorRequested)
    structured = None
    if is_natural and summary.output is not None:
        wraps = not isinstance(summary.output, dict) or (schema is not None and not _is_object(schema))
        structured = {WRAPPED: summary.output} if wraps else summary.output
    text = summary.response if is_natural else _ending_text(finish, summary)
    return CallToolResult(
        content=[TextContent(text=text), _thread_block(finish.thread_id)],
        structured_content=structured,
        is_error=not is_natural or (schema is not None and structured is None),
        _meta={
            META_THREAD: finish.thread_id,
            META_RUN: record.run_id,
            META_STATUS: summary.status_reason or status_reason(finish.termination),
        },
    )


MayDecide = Callable[[PendingDecision], bool]
"""Whether the client may make a decision."""


def waiting(thread_id: str, pending: Sequence[PendingDecision], *, may_decide: MayDecide) -> CallToolResult:
    """What a client reads that cannot be asked: what the run waits for, and how to continue it."""
    return CallToolResult(
        content=[TextContent(text=_waiting_text(thread_id, pending, may_decide))],
        structured_content={WAITING: {"thread_id": thread_id, "decisions": [_pending_json(each) for each in pending]}},
        _meta={META_THREAD: thread_id, META_STATUS: WAITING},
    )


def failure(message: str, *, thread_id: str | None = None) -> CallToolResult:
    """What a client reads if there is no result."""
    meta = None if thread_id is None else {META_THREAD: thread_id}
    return CallToolResult(content=[TextContent(text=message)], is_error=True, _meta=meta)


def done(message: str, *, thread_id: str) -> CallToolResult:
    """A plain confirmation."""
    return CallToolResult(content=[TextContent(text=message)], _meta={META_THREAD: thread_id})


def _is_object(schema: dict[str, JsonValue]) -> bool:
    """Whether every value of the schema is an object, as the protocol wants; a reference is looked up."""
    reference = schema.get("$ref")
    definitions = schema.get("$defs")
    if isinstance(reference, str) and isinstance(definitions, dict):
        referred = definitions.get(reference.removeprefix("#/$defs/"))
        return isinstance(referred, dict) and _is_object(referred)
    return schema.get("type") == "object"


def _thread_block(thread_id: str) -> TextContent:
    text = f"thread_id: {thread_id} (pass it to continue this conversation)"
    return TextContent(text=text, annotations=Annotations(audience=["assistant"], priority=0.2))


def _ending_text(finish: RunFinish, summary: FinishSummary) -> str:
    """Why a run has no answer, or only a part of one."""
    reason = summary.status_reason or status_reason(finish.termination)
    if isinstance(finish.termination, Stopped) and finish.termination.value.detail:
        reason = f"{reason}: {finish.termination.value.detail}"
    elif summary.detail:
        reason = f"{reason}: {summary.detail}"
    last = f"\nIts last answer was: {summary.response}" if summary.response else ""
    return f"The run ended as {reason}.{last}"


def _waiting_text(thread_id: str, pending: Sequence[PendingDecision], may_decide: MayDecide) -> str:
    lines = [f"The run on thread {thread_id!r} has not finished: it waits for a person to decide."]
    for each in pending:
        how = f"ticket: {ticket_of(each)}" if may_decide(each) else "Its decision is made elsewhere."
        lines += ["", question_text(each), how]
        if each.response_schema is not None and may_decide(each):
            lines.append(f"the answer must match: {json.dumps(each.response_schema, ensure_ascii=False)}")
    lines.append("")
    open_to_client = [each for each in pending if may_decide(each)]
    if not open_to_client:
        return "\n".join([*lines, f"Call `{CONTINUE}` with this thread_id to wait for the result."])
    ways = {
        "`decision` (approve or deny)": not all(each.needs_result for each in open_to_client),
        "`answer` (or `decision`: deny)": any(each.needs_result for each in open_to_client),
    }
    given = ", or ".join(way for way, is_needed in ways.items() if is_needed)
    lines.append(
        f"Ask the person; do not decide yourself. Then call `{CONTINUE}` with this thread_id, the ticket, and {given}."
    )
    return "\n".join(lines)


def _pending_json(pending: PendingDecision) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        "ticket": ticket_of(pending),
        "agent_id": pending.agent_id,
        "tool": pending.tool_name,
        "arguments": pending.arguments,
        "message": pending.message,
        "response_schema": pending.response_schema,
        "expires_at": pending.expires_at,
    }
    return {name: value for name, value in known.items() if value is not None}
