"""What agents send each other: messages, and what a background task tells its owner before it has ended."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Literal, assert_never
from xml.sax.saxutils import quoteattr

from pydantic import Field, JsonValue

from wakeful.contract.base import Maybe, Wire
from wakeful.contract.messages import Message, Role, TextBlock, Visibility

Relation = Literal["parent", "child", "agent"]

LETTER_ID = "msg_"
"""How the id of every letter begins."""

LETTER_LIMIT = 200_000
"""Characters of one message between agents."""


class Sender(Wire):
    """Who wrote a letter, and where an answer would reach them."""

    agent_id: str
    thread_id: str
    task_id: Maybe[str] = None
    """Of a background task that writes to its owner: which one it is, there."""
    name: Maybe[str] = None


class Letter(Wire):
    """A message from one agent to another. Its id makes a repeat harmless, from end to end."""

    kind: Literal["letter"] = "letter"
    message_id: str
    sender: Sender
    content: str
    relation: Relation
    """What the recipient is to the sender."""
    recipient_thread_id: str
    recipient_agent_id: Maybe[str] = None
    """Who is to read it where the thread does not exist yet."""
    task_id: Maybe[str] = None
    """Of a letter to a child: the task it is, to its owner."""


class TaskEvent(Wire):
    """What a running task tells its owner."""

    kind: Literal["task_event"] = "task_event"
    message_id: str
    task_id: str
    thread_id: Maybe[str] = None
    """Where the task runs: a thread that was rewound may have another one by its id."""
    event_type: str
    payload: JsonValue = None


Mail = Annotated[Letter | TaskEvent, Field(discriminator="kind")]
"""What the `deliver` signal brings."""


class DeadLetter(Wire):
    """A letter that could not be delivered; it can be sent again."""

    letter: Letter
    error: str
    at: int = 0


class Returned(Wire):
    """What the `returned` signal brings: a letter that came to a thread which had just ended."""

    letter: Letter
    error: str


def mail_message(mail: Letter | TaskEvent) -> Message:
    """What the recipient's model reads of it."""
    match mail:
        case Letter(relation="child"):
            payload: JsonValue = {"from": mail.sender.agent_id, "content": mail.content}
            text = task_event_text("custom", mail.task_id or "", event_type="agent_message", payload=payload)
            return _message(mail.message_id, text, Visibility.INTERNAL)
        case Letter(sender=sender):
            named = _attributes(
                {"from": sender.agent_id, "thread_id": sender.thread_id, "task_id": sender.task_id, "name": sender.name}
            )
            text = f"<agent-message{named}>\n{_untagged(mail.content)}\n</agent-message>"
            return _message(mail.message_id, text, Visibility.ALL)
        case TaskEvent():
            text = task_event_text("custom", mail.task_id, event_type=mail.event_type, payload=mail.payload)
            return _message(mail.message_id, text, Visibility.INTERNAL)
        case _:
            assert_never(mail)


def task_event_text(kind: str, task_id: str, *, name: str | None = None, **told: JsonValue) -> str:
    """What a model reads of a background task; `name` is what it has called it."""
    written = json.dumps({"kind": kind, "task_id": task_id, **told}, separators=(",", ":"), ensure_ascii=False)
    named = _attributes({"kind": kind, "task_id": task_id, "name": name})
    return f"<background-task-event{named}>\n{_untagged(written)}\n</background-task-event>"


_TAGS = re.compile(r"<(?=/?(?:agent-message|background-task-event)\b)", re.IGNORECASE)


def _untagged(text: str) -> str:
    """The text with nothing in it that could pass for a tag of ours."""
    return _TAGS.sub("&lt;", text)


def _attributes(values: Mapping[str, str | None]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items() if value is not None)


def _message(id: str, text: str, visibility: Visibility) -> Message:
    return Message(id=id, role=Role.USER, content=(TextBlock(text=text),), visibility=visibility)
