"""What a remote agent is sent next: the part of the conversation that it has not seen. Pure, and free of the protocol.

A service keeps its own conversation, its context. The transcript says where the newest answer of the agent was made, so
that the next message continues there; what other agents and people said since then goes along.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wakeful.contract.messages import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    VideoBlock,
)
from wakeful.contract.names import TOOL_REMOTE_INPUT
from wakeful.contract.remote import RemoteOrigin

MediaBlock = ImageBlock | DocumentBlock | AudioBlock | VideoBlock
SentBlock = TextBlock | MediaBlock
"""What a message to a remote agent consists of."""

EARLIER = (
    "You take part in a conversation that others have begun. This is what was said so far:\n\n{earlier}\n\n"
    "Answer what the user says last."
)
GRANTED = "It is granted. Continue."
"""The answer to a question that was approved without a text."""
CONTINUE = "Continue."

_WHO = {Role.SYSTEM: "System", Role.USER: "User", Role.ASSISTANT: "Assistant", Role.TOOL: "Result"}
_NOTHING = ("", "null", "true")
"""What a decision without a text reads like."""


@dataclass(frozen=True)
class Outgoing:
    """A message to a remote agent."""

    content: tuple[SentBlock, ...]
    context_id: str | None = None
    """The service's conversation that it continues; None begins one."""
    task_id: str | None = None
    """The task that it answers, which waits for input."""
    known_tasks: frozenset[str] = frozenset()
    """The tasks of earlier answers in that conversation."""


def outgoing(messages: Sequence[Message], *, service: str, thread_id: str, is_first_step: bool) -> Outgoing:
    """The message that brings a remote agent up to date.

    Args:
        messages: the conversation of the thread.
        is_first_step: the first step of a run answers no question: what an earlier run was asked was given up.
    """
    last = _last_of(messages, service, thread_id)
    if last is None:
        return Outgoing(_content(messages))
    origin = messages[last].remote
    assert origin is not None  # it is the one that was found
    unseen = messages[last + 1 :]
    known = frozenset(_tasks_in(messages, origin))
    asked = {call.id: call.arguments for call in messages[last].tool_calls if call.name == TOOL_REMOTE_INPUT}
    if is_first_step or not asked:
        rest = tuple(message for message in unseen if message.tool_call_id not in asked)
        return Outgoing(_content(rest), origin.context_id, known_tasks=known)
    answers = tuple(_as_answer(message) if message.tool_call_id in asked else message for message in unseen)
    return Outgoing(_content(answers), origin.context_id, origin.task_id, known)


def _last_of(messages: Sequence[Message], service: str, thread_id: str) -> int | None:
    """Which message is the newest answer of the service on this very thread."""
    for index in range(len(messages) - 1, -1, -1):
        origin = messages[index].remote
        if origin is not None and (origin.service, origin.thread_id) == (service, thread_id):
            return index
    return None


def _tasks_in(messages: Iterable[Message], last: RemoteOrigin) -> Iterator[str]:
    for message in messages:
        origin = message.remote
        if origin is not None and origin.context_id == last.context_id and origin.task_id is not None:
            yield origin.task_id


def _as_answer(message: Message) -> Message:
    """The result of a question's call, as the remote agent reads it."""
    text = GRANTED if message.text.strip() in _NOTHING else message.text
    return message.model_copy(update={"role": Role.USER, "content": (TextBlock(text=text),), "tool_call_id": None})


def _content(unseen: Sequence[Message]) -> tuple[SentBlock, ...]:
    """The messages of people, as they are; before them, in one text, what other agents have said and done."""
    first_own = len(unseen)
    while first_own > 0 and unseen[first_own - 1].role in (Role.USER, Role.SYSTEM):
        first_own -= 1
    own = tuple(block for message in unseen[first_own:] for block in _sent(message.content))
    if earlier := "\n\n".join(_told(unseen[:first_own])):
        return (TextBlock(text=EARLIER.format(earlier=earlier)), *own)
    return own or (TextBlock(text=CONTINUE),)


def _sent(content: Iterable[ContentBlock]) -> Iterator[SentBlock]:
    for block in content:
        if isinstance(block, SentBlock) and (not isinstance(block, TextBlock) or block.text):
            yield block


def _told(messages: Iterable[Message]) -> Iterator[str]:
    """The messages in words; what models thought is not told."""
    for message in messages:
        if message.text:
            yield f"{_WHO[message.role]}: {message.text}"
        for call in message.tool_calls:
            yield f"Assistant calls {call.name} with {json.dumps(call.arguments, ensure_ascii=False)}"
