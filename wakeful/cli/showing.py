"""How events, messages and statuses read in a terminal."""

import json
import shlex
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract import events as e
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.messages import Message, Role
from wakeful.contract.runs import Suspended
from wakeful.contract.tools import ToolStatus
from wakeful.contract.views import StatusView

WIDTH = 160


def event_lines(event: e.AgentEvent) -> list[str]:
    """What a person watching is told of an event; nothing for what only programs care about."""
    match event:
        case e.StepStart():
            return ["· thinking"]
        case e.TextDelta(delta=text):
            return [f"  {line}" for line in text.splitlines()]
        case e.ReasoningDelta(delta=text):
            return [f"  ({short(text)})"]
        case e.ToolCallReady(name=name, arguments=arguments):
            return [f"→ {called(name, arguments)}"]
        case e.ToolCallDone(result=result):
            return [f"{_MARKS[result.status]} {result.tool_name}: {short(result.text or 'waiting for a decision')}"]
        case e.ToolCallResumed(target_id=id, result=result):
            return [f"✓ {id} goes on: {short(compact(result))}"]
        case e.ToolCallCancel(name=name, reason=reason):
            return [f"✗ {name} cancelled: {reason}"]
        case e.RunFinish(termination=Suspended()):
            return ["‖ suspended"]
        case e.RunFinish(result=result):
            return [f"■ {result.status_reason if result else 'done'}"]
        case e.SignalRefused(signal=signal, reason=reason):
            return [f"! {signal} refused: {reason}"]
        case e.ErrorEvent(message=message):
            return [f"✗ {message}"]
        case _:
            return []


_MARKS = {ToolStatus.SUCCESS: "✓", ToolStatus.ERROR: "✗", ToolStatus.PENDING: "‖"}


def status_lines(thread_id: str, view: StatusView) -> list[str]:
    """A status in a few lines, with the command that answers each pending decision."""
    lines = [
        f"thread   {thread_id}",
        f"agent    {view.identity.agent_id}",
        f"status   {view.status.value}: {view.doing}",
        f"steps    {view.steps}    tokens {view.usage.total_tokens or 0}",
    ]
    for call in view.calls:
        lines.append(f"call     {call.call_id}  {call.tool_name}  {call.status.value}")
    for ticket in view.pending:
        lines += pending_lines(thread_id, ticket)
    for refusal in view.refusals:
        lines.append(f"refused  {refusal.signal}: {refusal.reason}")
    if view.result is not None:
        lines.append(f"answer   {view.result.response}")
    return lines


def pending_lines(thread_id: str, ticket: SuspensionTicket) -> list[str]:
    """What is asked, and how to answer."""
    asked = ticket.suspension.message or ticket.suspension.action
    call_id = ticket.pending.id
    return [
        f"waits for a decision: {asked}",
        f"  {called(ticket.pending.name, ticket.pending.arguments)}",
        f"  approve:  {shlex.join(['wakeful', 'decide', thread_id, call_id, 'resume'])}",
        f"  refuse:   {shlex.join(['wakeful', 'decide', thread_id, call_id, 'cancel'])}",
    ]


def message_lines(message: Message) -> list[str]:
    """A transcript entry as it reads in `wakeful show`."""
    match message.role:
        case Role.USER | Role.SYSTEM | Role.ASSISTANT:
            head = message.role.value
        case Role.TOOL:
            head = f"tool {message.tool_call_id}"
        case _:
            assert_never(message.role)
    lines = [f"{head}: {message.text}"] if message.text or not message.tool_calls else []
    return lines + [f"{head}: → {called(call.name, call.arguments)}" for call in message.tool_calls]


def called(name: str, arguments: JsonValue) -> str:
    if isinstance(arguments, dict):
        return short(f"{name}({', '.join(f'{key}={compact(value)}' for key, value in arguments.items())})")
    return f"{name}({'' if arguments is None else compact(arguments)})"


def compact(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 1] + "…"
