"""The request view: the part of a conversation that fits the model's context window, with every tool call answered.

Long tool results are shortened first, then the oldest messages are dropped. A call and its results stay together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from wakeful.context.tokens import message_tokens, scaled, tools_tokens
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import ContentBlock, Message, Role, TextBlock, ToolCall, Visibility
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.contract.transcript import tool_message

MAX_CHARS = 1600
MAX_LINES = 24
"""What a request includes of a long tool result."""

_LONG_TOKENS = 2048
_CHARS_PER_TOKEN = 4
_INTERRUPTED_ID = "interrupted:"
OPENING_ID = "opening"
"""The note in front of a request that would begin with an answer of the model."""


@dataclass(frozen=True, slots=True)
class RequestView:
    """The part of a conversation that a request includes."""

    messages: tuple[Message, ...]
    dropped: int
    """How many of the given messages are not included."""
    cut: int
    """How many of the included messages are shortened."""
    estimated_tokens: int
    """Of the whole request: messages, tools and what is reserved."""
    wants_more: bool = False
    """All given messages fit, so earlier ones of the conversation may fit, too."""


@dataclass(frozen=True, slots=True)
class Round:
    """An answer of the model and the results of its tool calls."""

    at: int
    """The position of the answer."""
    end: int
    """The position after the last result."""
    unanswered: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of a conversation."""

    rounds: tuple[Round, ...]
    orphans: frozenset[int]
    """The positions of results that answer no call."""

    @property
    def seams(self) -> frozenset[int]:
        """The positions at which a split would separate a call from one of its results."""
        return frozenset(index for round in self.rounds for index in range(round.at + 1, round.end))


def fit(
    messages: Sequence[Message],
    tools: Sequence[ToolDescriptor],
    policy: ContextPolicy,
    *,
    factor: float = 1.0,
    reserved: int = 0,
    has_more_before: bool = False,
) -> RequestView:
    """Fit `messages` into the window. Leading system messages and the newest `min_recent_messages` are always included.

    Args:
        factor: the calibrated correction of all estimates.
        reserved: the estimate, before `factor`, of the rest of the request: instructions and context messages.
        has_more_before: `messages` are only the end of the conversation, after its leading system messages.
    """
    entries = _entries(messages)
    leading = sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, messages))
    used = reserved + tools_tokens(tools) + sum(entry.tokens for entry in entries[:leading])
    tail = _newest(entries[leading:], policy, used=used, factor=factor)
    included = [*entries[:leading], *tail]
    return RequestView(
        messages=tuple(entry.message for entry in included),
        dropped=len(messages) - sum(entry.is_given for entry in included),
        cut=sum(entry.is_shortened for entry in included),
        estimated_tokens=scaled(used + sum(entry.tokens for entry in tail), factor),
        wants_more=has_more_before and len(included) == len(entries),
    )


def shortened(message: Message) -> Message:
    """The message as a request includes it: the same object, unless it is a tool result with a long text."""
    if message.role is not Role.TOOL or not any(map(_is_long, message.content)):
        return message
    return message.model_copy(update={"content": tuple(map(_shortened_block, message.content))})


def beginning_with_user(
    messages: Sequence[Message], before: Callable[[], Iterable[Message]], *, chars: int
) -> tuple[Message, ...]:
    """The messages of a request, with a note in front if they would begin with an answer of the model.

    Providers reject such a conversation, and a model that does not see what was asked goes astray: the note repeats the
    user's last message before it.

    Args:
        before: the part of the conversation that the request does not include, the newest first.
        chars: the most characters that the note may quote.
    """
    leading = sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, messages))
    if leading == len(messages) or messages[leading].role is not Role.ASSISTANT:
        return tuple(messages)
    asked = next((each.text for each in before() if each.role is Role.USER and each.visibility is Visibility.ALL), "")
    quoted = f" The user's last message in them was:\n\n{cut_text(asked, chars)}" if asked else ""
    content = (TextBlock(text=f"[Earlier messages of this conversation are not shown.]{quoted}"),)
    note = Message(id=OPENING_ID, role=Role.USER, content=content, visibility=Visibility.INTERNAL)
    return (*messages[:leading], note, *messages[leading:])


def cut_message(message: Message, chars: int) -> Message:
    """The message; of a text with more characters, its beginning and its end."""
    if all(len(block.text) <= chars for block in message.content if isinstance(block, TextBlock)):
        return message
    blocks = (
        TextBlock(text=cut_text(block.text, chars)) if isinstance(block, TextBlock) else block
        for block in message.content
    )
    return message.model_copy(update={"content": tuple(blocks)})


def cut_text(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    half = chars // 2
    note = f"[{len(text) - 2 * half:,} characters are left out here: the text is too long]"
    return f"{text[:half]}\n\n{note}\n\n{text[len(text) - half :]}"


def find_rounds(messages: Sequence[Message]) -> Rounds:
    """Pair calls with results. A call is open until the next answer of the model; later results answer nothing."""
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


@dataclass(frozen=True, slots=True)
class _Entry:
    message: Message
    tokens: int
    is_joined: bool
    """It cannot be included without the message before it."""
    is_shortened: bool = False
    is_given: bool = True
    """It is one of the given messages, and not a result that was added for an unanswered call."""

    @property
    def counts(self) -> bool:
        # A result that was added is not a message of the conversation. Its id tells, so that fitting a view again
        # counts the same messages and drops no more of them.
        return not (self.message.role is Role.TOOL and self.message.id.startswith(_INTERRUPTED_ID))


def _entries(messages: Sequence[Message]) -> list[_Entry]:
    """Every message as it would be included: without results that answer no call, and with a result for every call."""
    found = find_rounds(messages)
    seams = found.seams
    unanswered = {round.end: round.unanswered for round in found.rounds}
    entries: list[_Entry] = []
    for index, message in enumerate(messages):
        entries.extend(_interrupted(unanswered.get(index, ())))
        if index not in found.orphans:
            short = shortened(message)
            tokens = message_tokens(short)
            entries.append(_Entry(short, tokens, is_joined=index in seams, is_shortened=short is not message))
    entries.extend(_interrupted(unanswered.get(len(messages), ())))
    return entries


def _interrupted(calls: tuple[ToolCall, ...]) -> Iterator[_Entry]:
    for call in calls:
        result = ToolResult.error(call.name, TOOL_INTERRUPTED)
        message = tool_message(call.id, result, id=f"{_INTERRUPTED_ID}{call.id}")
        yield _Entry(message, message_tokens(message), is_joined=True, is_given=False)


def _newest(entries: list[_Entry], policy: ContextPolicy, *, used: int, factor: float) -> list[_Entry]:
    """The longest tail that fits, at least `min_recent_messages`, and whole rounds only."""
    start, recent, passed = len(entries), 0, 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        used += entry.tokens
        passed += entry.counts
        if entry.is_joined:
            continue
        if used * factor > policy.max_input_tokens and recent >= policy.min_recent_messages:
            break
        start, recent = index, passed
    return entries[start:]


def _shortened_block(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, TextBlock) or not _is_long(block):
        return block
    preview = "\n".join(block.text[:MAX_CHARS].split("\n")[:MAX_LINES])
    tokens = len(block.text) // _CHARS_PER_TOKEN
    note = f"[Content compacted: original ~{tokens} tokens, showing first {len(preview)} chars]"
    return TextBlock(text=f"{preview}\n\n{note}")


def _is_long(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and len(block.text) // _CHARS_PER_TOKEN >= _LONG_TOKENS
