"""The request view: as much of a conversation as fits the model's window, with every call answered.

Long tool results are cut first, then the oldest messages are left out. A call and its results stay or go together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from wakeful.context.artifacts import shown
from wakeful.context.rounds import read_rounds
from wakeful.context.tokens import message_tokens, scaled, tools_tokens
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import Message, Role, ToolCall
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.contract.transcript import tool_message

_INTERRUPTED_ID = "interrupted:"


@dataclass(frozen=True, slots=True)
class View:
    """What a request shows of a conversation."""

    messages: tuple[Message, ...]
    dropped: int
    """How many of the messages that were handed in are not shown."""
    cut: int
    """How many of the messages that are shown were cut."""
    estimated_tokens: int
    """The whole request: messages, tools and what was reserved."""
    wants_more: bool = False
    """Everything of the tail fits: messages from before it might be shown too."""


def fit(
    messages: Sequence[Message],
    tools: Sequence[ToolDescriptor],
    policy: ContextPolicy,
    *,
    factor: float = 1.0,
    reserved: int = 0,
    has_more_before: bool = False,
) -> View:
    """What to show of `messages`. The leading system messages and the newest `min_recent_messages` always are.

    Args:
        factor: the learnt correction of all estimates.
        reserved: the estimate, without the factor, for what else the request holds: instructions, context messages.
        has_more_before: `messages` are only the conversation's last ones, after its leading system messages.
    """
    entries = _entries(messages)
    pinned = sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, messages))
    taken = reserved + tools_tokens(tools) + sum(entry.tokens for entry in entries[:pinned])
    tail = _newest(entries[pinned:], policy, taken=taken, factor=factor)
    kept = [*entries[:pinned], *tail]
    return View(
        messages=tuple(entry.message for entry in kept),
        dropped=len(messages) - sum(entry.handed_in for entry in kept),
        cut=sum(entry.cut for entry in kept),
        estimated_tokens=scaled(taken + sum(entry.tokens for entry in tail), factor),
        wants_more=has_more_before and len(kept) == len(entries),
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    message: Message
    tokens: int
    joined: bool
    """It cannot be shown without the one before it."""
    cut: bool = False
    handed_in: bool = True

    @property
    def counts(self) -> bool:
        # An answer we made up is no message of the conversation. It is known by its id, so that a view of a view
        # counts the same messages and leaves out no more of them.
        return not (self.message.role is Role.TOOL and self.message.id.startswith(_INTERRUPTED_ID))


def _entries(messages: Sequence[Message]) -> list[_Entry]:
    """Every message as it would be shown, without results that answer nothing, and with an answer to every call."""
    found = read_rounds(messages)
    seams = found.seams
    open_calls = {round.end: round.unanswered for round in found.rounds}
    entries: list[_Entry] = []
    for index, message in enumerate(messages):
        entries.extend(_interrupted(open_calls.get(index, ())))
        if index not in found.orphans:
            seen = shown(message)
            entries.append(_Entry(seen, message_tokens(seen), joined=index in seams, cut=seen is not message))
    entries.extend(_interrupted(open_calls.get(len(messages), ())))
    return entries


def _interrupted(calls: tuple[ToolCall, ...]) -> Iterator[_Entry]:
    for call in calls:
        result = ToolResult.error(call.name, TOOL_INTERRUPTED)
        message = tool_message(call.id, result, id=f"{_INTERRUPTED_ID}{call.id}")
        yield _Entry(message, message_tokens(message), joined=True, handed_in=False)


def _newest(entries: list[_Entry], policy: ContextPolicy, *, taken: int, factor: float) -> list[_Entry]:
    """The longest tail that fits, but at least `min_recent_messages`, and never a part of a round."""
    start, recent, passed = len(entries), 0, 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        taken += entry.tokens
        passed += entry.counts
        if entry.joined:
            continue
        if taken * factor > policy.max_input_tokens and recent >= policy.min_recent_messages:
            break
        start, recent = index, passed
    return entries[start:]
