"""Events, messages and state as lines for a terminal."""

import re
from typing import assert_never

from wakeful.authoring.state import RESERVED_PREFIX
from wakeful.cli.terminal.decision_lines import decision_mark, decision_text, timed_decision_text
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.text import compact, continued, duration, printable, short, short_call
from wakeful.contract import events as e
from wakeful.contract import names, remote
from wakeful.contract.messages import Message, Role, Visibility
from wakeful.contract.runs import Suspended
from wakeful.contract.state import StateView
from wakeful.contract.tasks import Task, TaskStatus
from wakeful.contract.tools import ToolResult, ToolStatus

PROMPT = "> "
"""What a person's own messages begin with."""


def event_lines(event: e.AgentEvent) -> list[str]:
    """An event as a person reads it; no lines for events that only programs need."""
    match event:
        case e.MessageReceived(message=message):
            return _received_lines(message)
        case e.TextDelta(delta=text) | e.AnswerGiven(text=text):
            return [f"  {line}" for line in readable(text).splitlines()]
        case e.ReasoningDelta(delta=text):
            return [f"· thinking: {short(text)}"]
        case e.ToolCallReady(name=name, arguments=arguments):
            return [f"→ {short_call(name, arguments)}"]
        case e.ToolCallDone(result=result):
            return [f"{tool_mark(result)} {short(result.tool_name)}: {tool_text(result)}"]
        case e.ToolCallDecided(tool_name=name, decision=decision):
            return [f"{decision_mark(decision)} {short(name)} {decision_text(decision)}"]
        case e.ToolCallResumed(target_id=id, outcome=e.ToolCallOutcome.FAILED, text=text):
            return [f"✗ {id} resumed: {short(text or 'failed')}"]
        case e.ToolCallResumed(target_id=id, result=result):
            return [f"✓ {id} resumed: {short(compact(result))}"]
        case e.ToolCallCancel(name=name, reason=reason):
            return [f"✗ {short(name)} cancelled: {printable(reason)}"]
        case e.RunFinish(termination=Suspended()):
            return ["‖ suspended"]
        case e.RunFinish(result=e.FinishSummary(status_reason=names.AWAITING_TASKS)):
            return ["‖ waiting for background tasks"]
        case e.RunFinish(result=e.FinishSummary(status_reason=names.PENDING_WORK)):
            return ["‖ held open for pending work"]
        case e.RunFinish(result=e.FinishSummary(status_reason=reason, detail=detail)):
            return [f"■ {reason or 'done'}{f': {short(detail)}' if detail else ''}"]
        case e.RunFinish():
            return ["■ done"]
        case e.SignalRefused(signal=signal, reason=reason):
            return [f"! {printable(signal)} refused: {printable(reason)}"]
        case e.DecisionOverdue(tool_name=name, waited_ms=waited):
            return [f"! {short(name)} has been waiting for a decision for {duration(waited / 1000)}"]
        case e.Handoff(from_agent=before, to_agent=after):
            return [f"⇒ {printable(before)} hands off to {printable(after)}"]
        case e.TaskChanged(task=task):
            return [_task_line(task)]
        case e.MailArrived(text=text):
            return [f"← {short(_mail_text(text))}"]
        case e.PluginEvent(plugin=plugin, name=name, payload=payload):
            details = "" if payload is None else f" {compact(payload)}"
            return [f"◦ {short(f'{plugin}: {name}{details}')}"]
        case e.HookFailed(plugin=plugin, phase=phase, error=error):
            return [f"! {short(f'plugin {plugin} failed at {phase}: {error}')}"]
        case e.StateConflict(key=key, source=source, reason=reason):
            return [f"! {short(f'the state that {source} wrote is refused, because of {key}: {reason}')}"]
        case e.MessageEdited(message=message):
            return [f"~ {printable(message.id)} was edited", *_received_lines(message)]
        case e.MessagesWithdrawn(message_ids=ids):
            return [f"- withdrawn: {short(', '.join(ids))}"]
        case e.RulesRevoked(rules=rules, inherited=True, actor=actor, reason=reason):
            lifted = ", ".join(rule.tool for rule in rules) + (f": {reason}" if reason else "")
            return [f"- {short(f'lifted by {actor}: {lifted}' if actor else f'lifted: {lifted}')}"]
        case e.RulesRevoked(rules=rules):
            return [f"- no longer always allowed: {short(', '.join(rule.tool for rule in rules))}"]
        case e.ErrorEvent(message=message):
            return [f"✗ {printable(message)}"]
        case e.ActivitySnapshot(activity_type=remote.REMOTE_TASK, content=dict(task)):
            where, state = f"{task.get('task_id')} at {task.get('service')}", task.get("state")
            return [f"◦ {short(f'remote task {where} is {state}')}"]
        case (
            e.RunStart()
            | e.MessagesRead()
            | e.NoteAdded()
            | e.StepStart()
            | e.StepEnd()
            | e.ReasoningEncryptedValue()
            | e.ToolCallStart()
            | e.ToolCallDelta()
            | e.ToolCallStreamDelta()
            | e.StreamReset()
            | e.MessagesSnapshot()
            | e.ActivitySnapshot()
            | e.ActivityDelta()
            | e.InferenceComplete()
            | e.StateSnapshot()
            | e.StateDelta()
            | e.ChildStarted()
        ):
            return []
        case _:
            assert_never(event)


def _received_lines(message: Message) -> list[str]:
    """A person's own message, as a prompt shows it; what only the model reads is not shown."""
    if message.visibility is Visibility.INTERNAL:
        return []
    text = readable(message.text) or f"[{', '.join(block.type for block in message.content)}]"
    return [f"{PROMPT}{line}" for line in text.splitlines()]


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
            return f"✗ {name} failed: {short(task.error or 'no reason was reported')}"
        case TaskStatus.CANCELLED:
            return f"✗ {name} was cancelled"
        case _:
            assert_never(task.status)


def _mail_text(text: str) -> str:
    """The sender and the message, without the tags around them, which are for the model and would fill the line."""
    head, _, rest = text.partition("\n")
    sender = _SENDER.search(head)
    if sender is None:
        return text
    return f"{sender[1]}: {rest.removesuffix('</agent-message>').removesuffix('</background-task-event>')}"


_SENDER = re.compile('^<(?:agent-message from|background-task-event kind="[a-z]*" task_id)="([^"]*)"')


def tool_mark(result: ToolResult) -> str:
    """The outcome of a call, as one character."""
    return _MARKS[result.status]


_MARKS = {ToolStatus.SUCCESS: "✓", ToolStatus.ERROR: "✗", ToolStatus.PENDING: "‖"}


def tool_text(result: ToolResult) -> str:
    """The result of a call, or the question that it is suspended with, shortened."""
    if result.status is not ToolStatus.PENDING:
        return short(result.text)
    question = result.suspension.suspension.message if result.suspension else result.message
    return short(question or "waiting for a decision")


def state_lines(view: StateView) -> list[str]:
    """A line for each key, without the runtime's own keys."""
    own = {key: value for key, value in view.values.items() if not key.startswith(RESERVED_PREFIX)}
    return [f"state    {short(f'{key} = {compact(own[key])}')}" for key in sorted(own)]


def message_lines(message: Message, *, mark: str = "") -> list[str]:
    """A message as `wakeful show` prints it; `mark` follows the role. No line of a text looks like another message."""
    match message.role:
        case Role.USER | Role.SYSTEM | Role.ASSISTANT:
            head = "note" if message.visibility is Visibility.INTERNAL else message.role.value
        case Role.TOOL:
            head = f"tool {message.tool_call_id}"
        case _:
            assert_never(message.role)
    parts = [continued(message.text)] if message.text or not message.tool_calls else []
    parts += [f"→ {short_call(call.name, call.arguments)}" for call in message.tool_calls]
    decided = [f"{head} {timed_decision_text(decision)}" for decision in message.decisions]
    return [*decided, f"{head}{mark}: {parts[0]}", *(f"{head}: {part}" for part in parts[1:])]
