"""Messages between agents: send them, and keep those that could not be delivered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.carryover import newest_undelivered
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.mail import AGENT_MESSAGE_LIMIT, AgentMessage, Recipients, Relation, Sender, UndeliveredMessage
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import RECIPIENT_NOT_FOUND, RECIPIENT_UNAVAILABLE, SIGNAL_DELIVER
from wakeful.contract.tasks import TaskType
from wakeful.contract.tools import RuntimeTool, ToolResult
from wakeful.loop.calls.batch import ResumingCall, RunningCall, Startable
from wakeful.loop.calls.commit import finish_call, move
from wakeful.loop.machine.commands import Command, DeliverMessage, SendSignal
from wakeful.loop.machine.facts import Delivered, WorkFact, WorkFailed
from wakeful.loop.machine.state import Advance, Thread

KEPT_UNDELIVERED = 100
"""Undelivered messages that a thread keeps, if they are not too long; of more, the oldest are dropped."""


def send_message(thread: Thread, call: Startable, executed: ToolCall, tool: RuntimeTool) -> Advance:
    """Send a message; the receipt comes when it is delivered, or cannot be.

    Raises:
        ToolError: it is malformed, or the agent may not write to the recipient.
    """
    to, text = _address(executed)
    may_reach = _Reach(thread, tool.recipients or ("any",))
    match to["relation"]:
        case "child":
            may_reach.check("children", "a task of yours")
            return _send_to_child(thread, call, str(to["name"]), text)
        case "parent":
            may_reach.check("parent", "your parent")
            parent = thread.identity.parent_thread_id
            if parent is None:
                return _fail(thread, call, RECIPIENT_UNAVAILABLE)
            return _send(thread, call, _message(thread, call.call, "parent", parent, text))
        case _:
            thread_id, agent_id = str(to["thread_id"]), to.get("agent_id")
            if not thread_id:
                return _fail(thread, call, RECIPIENT_NOT_FOUND)
            named = agent_id if isinstance(agent_id, str) and agent_id else None
            may_reach.check_thread(thread_id, starts=named)
            message = _message(thread, call.call, "agent", thread_id, text)
            return _send(thread, call, message.model_copy(update={"recipient_agent_id": named}))


@dataclass(frozen=True)
class _Reach:
    """Whom the agent may write to."""

    thread: Thread
    recipients: tuple[Recipients, ...]

    def check(self, kind: Recipients, whom: str) -> None:
        if not {kind, "tree", "any"} & {*self.recipients}:
            raise self._refused(whom, kind)

    def check_thread(self, thread_id: str, *, starts: str | None) -> None:
        if not any(self._includes(each, thread_id) for each in self.recipients):
            raise self._refused(f"thread {thread_id!r}", "any")
        if starts is not None and "any" not in self.recipients:
            raise self._refused(f"a thread that the message starts with agent {starts!r} (leave out 'agent_id')", "any")

    def _includes(self, recipients: Recipients, thread_id: str) -> bool:
        """Whether the thread is one of these, by its id or because this thread knows it."""
        identity = self.thread.identity
        parent, children = identity.parent_thread_id, {task.thread_id for task in self.thread.children.tasks}
        match recipients:
            case "parent":
                return thread_id == parent
            case "children":
                return thread_id in children or ids.is_child(thread_id, identity.thread_id)
            case "siblings":
                return parent is not None and ids.is_child(thread_id, parent)
            case "tree":
                known = {*identity.path, parent, identity.thread_id, *children}
                root = identity.path[0] if identity.path else identity.thread_id
                return thread_id in known or ids.is_descendant(thread_id, root)
            case "any":
                return True
            case _:
                assert_never(recipients)

    def _refused(self, whom: str, needed: Recipients) -> ToolError:
        allowed = " and ".join(_WHOM[each] for each in self.recipients)
        return ToolError(
            f"the message was not sent: you may write to {allowed}, and not to {whom}. Do not try again. To allow it, "
            f"the developer of agent {self.thread.agent.agent_id!r} has to add {needed!r} to its `messages`.",
            kind=ToolErrorKind.DENIED,
        )


_WHOM: Mapping[Recipients, str] = {
    "parent": "your parent",
    "children": "the agents that you started",
    "siblings": "the other agents that your parent started",
    "tree": "the agents of your own tree",
    "any": "any agent",
}


def _address(call: ToolCall) -> tuple[Mapping[str, JsonValue], str]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    to, text = arguments.get("to"), arguments.get("message")
    if not isinstance(to, dict):
        raise _invalid("missing 'to'")
    relation = to.get("relation")
    if not isinstance(relation, str):
        raise _invalid("missing 'to.relation'")
    if relation not in _REQUIRED:
        raise _invalid(f"unknown relation '{relation}'")
    required = _REQUIRED[relation]
    if required is not None and not isinstance(to.get(required), str):
        raise _invalid(f"{relation} requires '{required}'")
    if not isinstance(text, str):
        raise _invalid("missing 'message'")
    if len(text) > AGENT_MESSAGE_LIMIT:
        raise _invalid(f"the message has {len(text):,} characters; at most {AGENT_MESSAGE_LIMIT:,} are allowed")
    return to, text


_REQUIRED = {"parent": None, "child": "name", "agent": "thread_id"}


def _invalid(what: str) -> ToolError:
    return ToolError(what, kind=ToolErrorKind.INVALID_ARGUMENTS)


def _send_to_child(thread: Thread, call: Startable, name: str, text: str) -> Advance:
    task = thread.children.find(name)
    if task is None:
        return _fail(thread, call, RECIPIENT_NOT_FOUND)
    if task.task_type is not TaskType.SUB_AGENT or task.thread_id is None:
        return _fail(thread, call, RECIPIENT_UNAVAILABLE)
    message = _message(thread, call.call, "child", task.thread_id, text)
    return _send(thread, call, message.model_copy(update={"task_id": task.task_id}))


def _message(thread: Thread, call: ToolCall, relation: Relation, recipient: str, text: str) -> AgentMessage:
    identity = thread.identity
    return AgentMessage(
        message_id=ids.agent_message_id(identity.thread_id, identity.run_id, call.id),
        sender=_sender(thread, relation),
        content=text,
        relation=relation,
        recipient_thread_id=recipient,
    )


def _sender(thread: Thread, relation: Relation) -> Sender:
    """Who writes; a background task tells its owner which one it is."""
    identity, task = thread.identity, thread.identity.task
    sender = Sender(agent_id=thread.agent.agent_id, thread_id=identity.thread_id, tenant=identity.tenant)
    if relation != "parent" or task is None or not identity.is_task:
        return sender
    return sender.model_copy(update={"task_id": task.task_id, "name": task.name})


def _send(thread: Thread, call: Startable, message: AgentMessage) -> Advance:
    resumes = call.resumes if isinstance(call, ResumingCall) else 0
    id = ids.work_id(ids.SendMessage(call.call.id))
    running = RunningCall(call.call, id, resumes=resumes, by="runtime", message=message)
    return replace(move(thread, running), commands=(send_command(id, message),))


def send_command(id: str, message: AgentMessage) -> Command:
    """A child is running and is signalled; anyone else may have to be woken."""
    if message.relation == "child":
        return SendSignal(id, message.recipient_thread_id, SIGNAL_DELIVER, message)
    return DeliverMessage(id, message)


def on_message_sent(thread: Thread, call: RunningCall, fact: WorkFact, *, now: int) -> Advance:
    """The message of a call was delivered, or could not be; an undelivered one is kept, except to a child."""
    message = call.message
    assert message is not None  # only calls that send come here
    if isinstance(fact, Delivered):
        receipt: JsonValue = {"message_id": message.message_id, "status": "accepted"}
        return finish_call(thread, call, ToolResult.success(call.call.name, receipt))
    error = fact.error if isinstance(fact, WorkFailed) else RECIPIENT_UNAVAILABLE
    if message.relation != "child":
        thread = keep_undelivered(thread, message, error, now=now)
    return _fail(thread, call, error)


def _fail(thread: Thread, call: Startable | RunningCall, error: str) -> Advance:
    receipt: JsonValue = {"message_id": "", "status": "failed", "error": error}
    return finish_call(thread, call, ToolResult.success(call.call.name, receipt))


def keep_undelivered(thread: Thread, message: AgentMessage, error: str, *, now: int) -> Thread:
    """The thread with one more undelivered message, once."""
    others = tuple(kept for kept in thread.mail.undelivered if kept.message.message_id != message.message_id)
    kept = (*others, UndeliveredMessage(message=message, error=error, at=now))[-KEPT_UNDELIVERED:]
    return replace(thread, mail=replace(thread.mail, undelivered=newest_undelivered(kept)))


def recover_messages(thread: Thread, call: Startable, executed: ToolCall) -> Advance:
    """List the undelivered messages for the model, send them again, or drop them."""
    arguments = executed.arguments if isinstance(executed.arguments, dict) else {}
    action = arguments.get("action") or "list"
    count = len(thread.mail.undelivered)
    match action:
        case "list":
            messages: JsonValue = [_view(undelivered) for undelivered in thread.mail.undelivered]
            listed: JsonValue = {"action": action, "count": count, "messages": messages}
            return finish_call(thread, call, ToolResult.success(call.call.name, listed))
        case "replay":
            moved = resend_undelivered(thread)
        case "clear":
            moved = clear_undelivered(thread)
        case _:
            raise _invalid(f"unknown action '{action}'")
    return moved.then(finish_call, call, ToolResult.success(call.call.name, {"action": action, "count": count}))


def _view(undelivered: UndeliveredMessage) -> JsonValue:
    return {
        "message_id": undelivered.message.message_id,
        "recipient_thread_id": undelivered.message.recipient_thread_id,
        "recipient_agent_id": undelivered.message.recipient_agent_id,
        "error": undelivered.error,
    }


def resend_undelivered(thread: Thread) -> Advance:
    """Send every undelivered message again, one after another, with the ids they have."""
    mail = thread.mail
    resending = (*mail.resending, *(undelivered.message for undelivered in mail.undelivered))
    thread = replace(thread, mail=replace(mail, resending=resending, undelivered=()))
    return Advance(thread, () if mail.resending else resend_command(thread))


def clear_undelivered(thread: Thread) -> Advance:
    return Advance(replace(thread, mail=replace(thread.mail, undelivered=())))


def resend_command(thread: Thread) -> tuple[Command, ...]:
    """The command that sends the first of the messages that are sent again."""
    return tuple(
        send_command(ids.work_id(ids.ResendMessage(message.message_id)), message)
        for message in thread.mail.resending[:1]
    )


def on_message_resent(thread: Thread, message_id: str, fact: WorkFact, *, now: int) -> Advance:
    """The first message of those that are sent again was delivered, or was not; the next one follows."""
    if not thread.mail.resending or thread.mail.resending[0].message_id != message_id:
        return Advance(thread)
    message, rest = thread.mail.resending[0], thread.mail.resending[1:]
    thread = replace(thread, mail=replace(thread.mail, resending=rest))
    if not isinstance(fact, Delivered):
        error = fact.error if isinstance(fact, WorkFailed) else "it was cancelled"
        thread = keep_undelivered(thread, message, error, now=now)
    return Advance(thread, resend_command(thread))
