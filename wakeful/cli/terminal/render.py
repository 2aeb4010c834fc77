"""How events, messages and statuses read in a terminal."""

import json
import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import assert_never

from pydantic import JsonValue

from wakeful.authoring.state import RESERVED_PREFIX
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.contract import events as e
from wakeful.contract import names
from wakeful.contract.messages import Message, Role, Visibility
from wakeful.contract.runs import RunResult, StopDetail, Stopped, Suspended
from wakeful.contract.state import StateView
from wakeful.contract.tasks import Task, TaskStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.contract.views import StatusView

WIDTH = 160


def event_lines(event: e.AgentEvent) -> list[str]:
    """What a person watching is told of an event; nothing for what only programs care about."""
    match event:
        case e.StepStart():
            return ["· thinking"]
        case e.TextDelta(delta=text):
            return [f"  {line}" for line in readable(text).splitlines()]
        case e.ReasoningDelta(delta=text):
            return [f"  ({short(text)})"]
        case e.ToolCallReady(name=name, arguments=arguments):
            return [f"→ {called(name, arguments)}"]
        case e.ToolCallDone(result=result):
            return [f"{tool_mark(result)} {result.tool_name}: {tool_words(result)}"]
        case e.ToolCallResumed(target_id=id, result=result):
            return [f"✓ {id} goes on: {short(compact(result))}"]
        case e.ToolCallCancel(name=name, reason=reason):
            return [f"✗ {name} cancelled: {reason}"]
        case e.RunFinish(termination=Suspended()):
            return ["‖ suspended"]
        case e.RunFinish(result=e.FinishSummary(status_reason=names.AWAITING_TASKS)):
            return ["‖ waits for its background tasks"]
        case e.RunFinish(result=result):
            return [f"■ {result.status_reason if result else 'done'}"]
        case e.SignalRefused(signal=signal, reason=reason):
            return [f"! {signal} refused: {reason}"]
        case e.DecisionOverdue(tool_name=name, waited_ms=waited):
            return [f"! {name} has been waiting for a decision for {duration(waited / 1000)}"]
        case e.Handoff(from_agent=before, to_agent=after):
            return [f"⇒ {before} hands over to {after}"]
        case e.TaskChanged(task=task):
            return [_task_line(task)]
        case e.MailArrived(text=text):
            return [f"← {short(_mail(text))}"]
        case e.PluginEvent(plugin=plugin, name=name, payload=payload):
            told = "" if payload is None else f" {compact(payload)}"
            return [f"◦ {short(f'{plugin}: {name}{told}')}"]
        case e.HookFailed(plugin=plugin, phase=phase, error=error):
            return [f"! {short(f'plugin {plugin} failed at {phase}: {error}')}"]
        case e.StateConflict(key=key, source=source, reason=reason):
            return [f"! {short(f'what {source} wrote is refused, because of {key}: {reason}')}"]
        case e.ErrorEvent(message=message):
            return [f"✗ {message}"]
        case _:
            return []


def _task_line(task: Task) -> str:
    name = printable(
        " ".join(part for part in (task.agent_id, task.task_id, f"({task.name})" * bool(task.name)) if part)
    )
    match task.status:
        case TaskStatus.RUNNING:
            return f"+ {name} runs in the background"
        case TaskStatus.COMPLETED:
            return f"✓ {name} has ended"
        case TaskStatus.FAILED:
            return f"✗ {name} failed: {short(task.error or 'it did not say why')}"
        case TaskStatus.CANCELLED:
            return f"✗ {name} was cancelled"
        case _:
            assert_never(task.status)


def _mail(text: str) -> str:
    """Who has written, and what; the tags around it are the model's, and would leave a line no room for more."""
    head, _, rest = text.partition("\n")
    who = _WRITER.search(head)
    if who is None:
        return text
    return f"{who[1]}: {rest.removesuffix('</agent-message>').removesuffix('</background-task-event>')}"


_WRITER = re.compile('^<(?:agent-message from|background-task-event kind="[a-z]*" task_id)="([^"]*)"')


def tool_mark(result: ToolResult) -> str:
    """How a call came out, in one sign."""
    return _MARKS[result.status]


def tool_words(result: ToolResult) -> str:
    """What a call came to, or what it waits for, shortened."""
    if result.status is not ToolStatus.PENDING:
        return short(result.text)
    asked = result.suspension.suspension.message if result.suspension else result.message
    return short(asked or "waiting for a decision")


_MARKS = {ToolStatus.SUCCESS: "✓", ToolStatus.ERROR: "✗", ToolStatus.PENDING: "‖"}


def status_lines(thread_id: str, view: StatusView) -> list[str]:
    """A status in a few lines, with the command that answers each pending decision."""
    agent, active = view.identity.agent_id, view.active_agent
    lines = [
        f"thread   {thread_id}",
        f"agent    {agent}" + (f", handed over to {active}" if active not in (None, agent) else ""),
        f"status   {view.status.value}: {view.doing}",
        f"steps    {view.steps}    tokens {view.usage.total_tokens or 0}",
    ]
    for call in view.calls:
        child = f"  in thread {printable(call.child_thread_id)}" if call.child_thread_id else ""
        lines.append(f"call     {call.call_id}  {call.tool_name}  {call.status.value}{child}")
    for pending in pending_of(view):
        lines += pending_lines(pending)
    for refusal in view.refusals:
        lines.append(f"refused  {refusal.signal}: {refusal.reason}")
    if view.result is not None:
        if view.result.status_reason != "natural":
            lines.append(f"ended    {printable(ended_as(view.result))}")
        lines.append(f"answer   {view.result.response}")
    return lines


def pending_lines(pending: PendingDecision) -> list[str]:
    """What is asked, and how to answer."""
    approve, deny = answer_commands(pending.ticket)
    return [
        f"waits for a decision: {printable(pending.message or pending.action)}",
        f"  {called(pending.tool_name, pending.arguments)}",
        f"  approve:  {approve}",
        f"  refuse:   {deny}",
    ]


def answer_commands(ticket: str) -> tuple[str, str]:
    """The commands that let a call go on and that cancel it."""
    end_of_options = ["--"] if ticket.startswith("-") else []
    approve, deny = (shlex.join(["wakeful", verb, *end_of_options, ticket]) for verb in ("approve", "deny"))
    return approve, deny


def send_command(thread_id: str) -> str:
    """The command that says something to a thread, up to what is said."""
    end_of_options = ["--"] if thread_id.startswith("-") else []
    return f"{shlex.join(['wakeful', 'send', *end_of_options, thread_id])} …"


def ended_as(result: RunResult) -> str:
    """How a run ended; of one that was stopped also why, as whoever stopped it says."""
    match result.termination:
        case Stopped(value=StopDetail(detail=str(detail))) if detail:
            return f"{result.status_reason}: {printable(detail)}"
        case _:
            return result.status_reason


def inbox_lines(waiting: Sequence[PendingDecision]) -> list[str]:
    """A table of what waits, with what is asked and the commands under each."""
    rows = [("AGE", "DEADLINE", "THREAD", "AGENT", "CALL"), *(_row(pending) for pending in waiting)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [aligned(rows[0], widths)]
    for pending, row in zip(waiting, rows[1:], strict=True):
        lines += [aligned(row, widths), *(f"      {line}" for line in _under(pending))]
    return lines


def _row(pending: PendingDecision) -> tuple[str, str, str, str, str]:
    call = "?" if pending.unknown else called(pending.tool_name, pending.arguments)
    age = "?" if pending.age is None else duration(pending.age)
    path = " > ".join(printable(thread) for thread in pending.path)
    return age, _deadline(pending), path, printable(pending.agent_id) or "?", call


def _deadline(pending: PendingDecision) -> str:
    if pending.expires_at is None or pending.since is None or pending.age is None:
        return "-"
    left = (pending.expires_at - pending.since) / 1000 - pending.age
    return f"in {duration(left)}" if left > 0 else "now"


def aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The cells of a table's row; the last one is as wide as it is."""
    return "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()


def _under(pending: PendingDecision) -> list[str]:
    if not pending.call_id:
        return [printable(pending.unknown or "")]
    asked = pending.unknown or pending.message or pending.action
    return [printable(asked), *answer_commands(pending.ticket)]


def duration(seconds: float) -> str:
    """A length of time in its one or two biggest units: `42s`, `3m`, `2h05m`, `6d`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d"


def state_lines(view: StateView) -> list[str]:
    """A line for each key; not for those that the runtime keeps for itself."""
    own = {key: value for key, value in view.values.items() if not key.startswith(RESERVED_PREFIX)}
    return [f"state    {short(f'{key} = {compact(own[key])}')}" for key in sorted(own)]


def message_lines(message: Message, *, mark: str = "") -> list[str]:
    """A transcript entry as it reads in `wakeful show`; `mark` stands behind who says it."""
    match message.role:
        case Role.USER | Role.SYSTEM | Role.ASSISTANT:
            head = "note" if message.visibility is Visibility.INTERNAL else message.role.value
        case Role.TOOL:
            head = f"tool {message.tool_call_id}"
        case _:
            assert_never(message.role)
    said = [message.text] if message.text or not message.tool_calls else []
    said += [f"→ {called(call.name, call.arguments)}" for call in message.tool_calls]
    return [f"{head}{mark}: {said[0]}", *(f"{head}: {line}" for line in said[1:])]


def called(name: str, arguments: JsonValue) -> str:
    """A call in one line, shortened."""
    return short(spelled(name, arguments))


def spelled(name: str, arguments: JsonValue) -> str:
    """A call with everything it is called with."""
    if isinstance(arguments, dict):
        return f"{name}({', '.join(f'{key}={compact(value)}' for key, value in arguments.items())})"
    return f"{name}({'' if arguments is None else compact(arguments)})"


def compact(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def printable(text: str) -> str:
    """The text in one line, without characters that move the cursor, turn the direction of reading or hide others.

    A model chose it, and a person decides by it.
    """
    return exact(" ".join(text.split()))


def exact(text: str) -> str:
    """The text with every character that cannot be seen, or looks like no character, spelled out."""
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in text)


def _is_seen(char: str) -> bool:
    return char.isprintable() and char not in _BLANK


_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""They count as letters and signs, and show nothing."""


def readable(text: str) -> str:
    """The text without characters that move the cursor, turn the direction of reading or set colours.

    A model wrote it: what it says may not change what else is on the screen.
    """
    lines = text.replace("\r", "")  # of a line's end; elsewhere it would let one text hide another
    return "".join(char if _is_harmless(char) else char.encode("unicode_escape").decode() for char in lines)


def _is_harmless(char: str) -> bool:
    # The joiner makes one sign of several; the other spaces count as unprintable and are not.
    return char.isprintable() or char in "\n\t\u200d" or unicodedata.category(char) == "Zs"


def short(text: str) -> str:
    flat = printable(text)
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 1] + "…"
