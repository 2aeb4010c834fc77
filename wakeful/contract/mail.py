"""Mail: messages between agents, and events that a background task sends its owner while it runs."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Literal, assert_never
from xml.sax.saxutils import quoteattr

from pydantic import Field, JsonValue

from wakeful.contract.base import Maybe, Wire
from wakeful.contract.messages import ContentBlock, Message, Role, TextBlock, ToolResultBlock, Visibility

Relation = Literal["parent", "child", "agent"]

Recipients = Literal["parent", "children", "siblings", "tree", "any"]
"""Whom an agent may write to: threads around its own, the tree that its thread belongs to, or any thread."""

AGENT_MESSAGE_LIMIT = 200_000
"""Characters of one message between agents, and of one event of a task."""


class Sender(Wire):
    """Who wrote a message, and where a reply reaches them."""

    agent_id: str
    thread_id: str
    task_id: Maybe[str] = None
    """Of a background task that writes to its owner: the owner's id for it."""
    name: Maybe[str] = None
    tenant: Maybe[str] = None
    """The tenant that the sender's thread belongs to."""


class AgentMessage(Wire):
    """A message from one agent to another. Its id makes a repeated delivery a no-op."""

    kind: Literal["message"] = "message"
    message_id: str
    sender: Sender
    content: str
    relation: Relation
    """What the recipient is to the sender."""
    recipient_thread_id: str
    recipient_agent_id: Maybe[str] = None
    """The agent that answers, if the recipient's thread does not exist yet."""
    task_id: Maybe[str] = None
    """Of a message to a child: the sender's id for that task."""


class TaskEvent(Wire):
    """What a running background task reports to its owner."""

    kind: Literal["task_event"] = "task_event"
    message_id: str
    task_id: str
    thread_id: Maybe[str] = None
    """Where the task runs: after a rewind, another task may have the same id."""
    event_type: str
    payload: JsonValue = None
    message: Maybe[str] = None
    """A message for the owner's model, which reads it as it is, and neither type nor payload."""


Mail = Annotated[AgentMessage | TaskEvent, Field(discriminator="kind")]
"""What the `deliver` signal brings."""


class UndeliveredMessage(Wire):
    """A message that could not be delivered; the thread that sent it keeps it and can send it again."""

    message: AgentMessage
    error: str
    at: int = 0


class ReturnedMessage(Wire):
    """What the `mail_returned` signal brings: a message that arrived after its recipient had ended."""

    message: AgentMessage
    error: str


class DeliverInput(Wire):
    """What the activity is given that signals a thread and wakes it if it is closed."""

    thread_id: str
    signal: str
    payload: JsonValue
    agent_id: Maybe[str] = None
    """The agent that answers, if the thread is new."""
    wake: Annotated[bool, Field(exclude_if=bool)] = True
    """Wake a thread that is closed."""


def mail_message(mail: AgentMessage | TaskEvent) -> Message:
    """Mail as the recipient's model reads it."""
    match mail:
        case AgentMessage(relation="child"):
            payload: JsonValue = {"from": mail.sender.agent_id, "content": mail.content}
            text = task_event_text("custom", mail.task_id or "", event_type="agent_message", payload=payload)
            return written_by_wakeful(mail.message_id, text)
        case AgentMessage(sender=sender):
            attributes = _attributes(
                {"from": sender.agent_id, "thread_id": sender.thread_id, "task_id": sender.task_id, "name": sender.name}
            )
            text = f"<agent-message{attributes}>\n{_escaped(mail.content)}\n</agent-message>"
            return written_by_wakeful(mail.message_id, text, visibility=Visibility.ALL)
        case TaskEvent(message=str(text)):
            # Not `is_mail`: a task cannot write what passes for Wakeful's own tags.
            content = (TextBlock(text=text),)
            return Message(id=mail.message_id, role=Role.USER, content=content, visibility=Visibility.INTERNAL)
        case TaskEvent():
            text = task_event_text("custom", mail.task_id, event_type=mail.event_type, payload=mail.payload)
            return written_by_wakeful(mail.message_id, text)
        case _:
            assert_never(mail)


def task_event_text(kind: str, task_id: str, *, name: str | None = None, **details: JsonValue) -> str:
    """What a model reads of a background task; `name` is the name the model gave it."""
    body = json.dumps({"kind": kind, "task_id": task_id, **details}, separators=(",", ":"), ensure_ascii=False)
    attributes = _attributes({"kind": kind, "task_id": task_id, "name": name})
    return f"<background-task-event{attributes}>\n{_escaped(body)}\n</background-task-event>"


def written_by_wakeful(id: str, text: str, *, visibility: Visibility = Visibility.INTERNAL) -> Message:
    """A message whose tags a model can trust."""
    return Message(id=id, role=Role.USER, content=(TextBlock(text=text),), visibility=visibility, is_mail=True)


def with_escaped_tags(message: Message) -> Message:
    """The message as a model reads it. What a person, a program or a tool wrote cannot pass for mail.

    Answers of the model itself, and what the developer writes as the system, are not changed.
    """
    if message.is_mail or message.role not in (Role.USER, Role.TOOL):
        return message
    if not any(_TAGS.search(_text_of(block)) for block in message.content):
        return message
    return message.model_copy(update={"content": tuple(map(_with_escaped_tags, message.content))})


def _with_escaped_tags(block: ContentBlock) -> ContentBlock:
    match block:
        case TextBlock(text=text):
            return block.model_copy(update={"text": _escaped(text)})
        case ToolResultBlock(content=text):
            return block.model_copy(update={"content": _escaped(text)})
        case _:
            return block


def _text_of(block: ContentBlock) -> str:
    match block:
        case TextBlock(text=text) | ToolResultBlock(content=text):
            return text
        case _:
            return ""


_TAGS = re.compile(r"<(?=/?(?:agent-message|background-task-event)\b)", re.IGNORECASE)


def _escaped(text: str) -> str:
    """The text without anything that a model could mistake for one of our tags."""
    return _TAGS.sub("&lt;", text)


def _attributes(values: Mapping[str, str | None]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items() if value is not None)
