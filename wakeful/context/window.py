"""The request view: as much of a conversation as fits the model's window, with every call answered.

Long tool results are cut first, then the oldest messages are left out. A call and its results stay or go together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from wakeful.context.tokens import message_tokens, scaled, tools_tokens
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import ContentBlock, Message, Role, TextBlock, ToolCall
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


MAX_CHARS = 1600
MAX_LINES = 24

_CHARS_PER_TOKEN = 4
_LONG_TOKENS = 2048


def shown(message: Message) -> Message:
    """The message as a request shows it; the very same object unless it is a tool's result with a long text."""
    if message.role is not Role.TOOL or not any(map(_is_long, message.content)):
        return message
    return message.model_copy(update={"content": tuple(map(_cut, message.content))})


def _cut(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, TextBlock) or not _is_long(block):
        return block
    preview = "\n".join(block.text[:MAX_CHARS].split("\n")[:MAX_LINES])
    tokens = len(block.text) // _CHARS_PER_TOKEN
    note = f"[Content compacted: original ~{tokens} tokens, showing first {len(preview)} chars]"
    return TextBlock(text=f"{preview}\n\n{note}")


def _is_long(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and len(block.text) // _CHARS_PER_TOKEN >= _LONG_TOKENS


@dataclass(frozen=True, slots=True)
class Round:
    """A model's message and the results of the calls it asked for."""

    at: int
    """Where the model's message stands."""
    end: int
    """The position after the last result."""
    unanswered: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    rounds: tuple[Round, ...]
    orphans: frozenset[int]
    """Where results stand that answer no call."""

    @property
    def seams(self) -> frozenset[int]:
        """The positions where a split would part a call from one of its results."""
        return frozenset(index for round in self.rounds for index in range(round.at + 1, round.end))


def read_rounds(messages: Sequence[Message]) -> Rounds:
    """Pair calls with results. A call is open until the model speaks again: what comes later answers nothing."""
    starts: list[int] = []
    ends: list[int] = []
    open_calls: list[dict[str | None, ToolCall]] = []
    orphans: set[int] = set()
    for index, message in enumerate(messages):
        if message.role is Role.ASSISTANT:
            starts.append(index)
            ends.append(index + 1)
            open_calls.append({call.id: call for call in message.tool_calls})
        elif message.role is Role.TOOL:
            if open_calls and open_calls[-1].pop(message.tool_call_id, None) is not None:
                ends[-1] = index + 1
            else:
                orphans.add(index)
    unanswered = (tuple(calls.values()) for calls in open_calls)
    return Rounds(tuple(map(Round, starts, ends, unanswered)), frozenset(orphans))
