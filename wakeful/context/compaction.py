"""Compaction: when to summarise a conversation's older part, how far, with which words, and whether it was worth it.

The conversation itself is never rewritten. What comes of a compaction is a mark, and a request that honours the mark
shows the summary in place of the messages it covers. Who calls the summariser, and when, is not decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from wakeful.context.tokens import message_tokens, scaled
from wakeful.context.window import read_rounds, shown
from wakeful.contract.context import MESSAGES_PLACEHOLDER, CompactionMark, CompactionSkip, ContextPolicy
from wakeful.contract.errors import InternalError
from wakeful.contract.messages import Message, Role, TextBlock, Visibility

MIN_CANDIDATES = 2
MIN_REPLACED_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Boundary:
    """How far a summary would reach: over the first `through` messages, `pre_tokens` of the request as it is now."""

    through: int
    pre_tokens: int


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What the summariser is asked; without a model, the agent's own answers."""

    system: str
    user: str
    max_tokens: int
    model: str | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """The summary is not used, and nothing changes."""

    reason: CompactionSkip


def compacted(messages: Sequence[Message], mark: CompactionMark | None) -> tuple[Message, ...]:
    """The conversation as requests show it: the summary, then what the mark does not cover."""
    if mark is None:
        return tuple(messages)
    return (summary_message(mark), *_uncovered(messages, mark))


def summary_message(mark: CompactionMark) -> Message:
    """The message that stands for everything the mark covers."""
    content = (TextBlock(text=f"<conversation-summary>\n{mark.summary}\n</conversation-summary>"),)
    id = f"summary:{mark.through}"
    return Message(id=id, role=Role.SYSTEM, content=content, visibility=Visibility.INTERNAL)


def history_tokens(messages: Sequence[Message], *, mark: CompactionMark | None = None, factor: float = 1.0) -> int:
    """The estimate for the whole conversation as requests show it."""
    return scaled(_shown_tokens(compacted(messages, mark)), factor)


def should_compact(tokens: int, policy: ContextPolicy, *, skipped_at: int | None = None) -> bool:
    """Whether a conversation of this many tokens is due for a summary.

    Args:
        skipped_at: how many tokens it had when the last attempt came to nothing. The next one waits until there is
            more to summarise: the same summary would be paid for again at every step.
    """
    if policy.autocompact_threshold is None or tokens < policy.autocompact_threshold:
        return False
    return skipped_at is None or tokens >= skipped_at + MIN_REPLACED_TOKENS


def find_boundary(
    messages: Sequence[Message], policy: ContextPolicy, *, mark: CompactionMark | None = None, factor: float = 1.0
) -> Boundary | None:
    """The furthest point up to which `messages` can be summarised, if that is worth a summary.

    What `mark` covers is summarised already: it counts as replaced by its summary's size, and not as a candidate.
    """
    uncovered = _uncovered(messages, mark)
    covered, previous = (0, 0) if mark is None else (mark.through, message_tokens(summary_message(mark)))
    candidates = len(uncovered) - policy.compaction_raw_suffix_messages
    # The summariser reads all of it in one request, together with the previous summary.
    room = int(policy.max_input_tokens / factor) - previous
    candidates = min(candidates, _fitting(uncovered, room))
    if candidates < MIN_CANDIDATES:
        return None
    count = _last_split(uncovered, candidates)
    replaced = _shown_tokens(uncovered[:count])
    if scaled(replaced, factor) < MIN_REPLACED_TOKENS or not transcript_text(uncovered[:count]):
        return None
    return Boundary(through=covered + count, pre_tokens=scaled(previous + replaced, factor))


def summary_request(
    messages: Sequence[Message], through: int, policy: ContextPolicy, *, mark: CompactionMark | None = None
) -> SummaryRequest:
    """What to ask the summariser about the first `through` messages; a previous summary is brought up to date."""
    text = transcript_text(_uncovered(messages[:through], mark))
    if mark is not None:
        text = f"<previous-summary>\n{mark.summary}\n</previous-summary>\n\n{text}"
    return SummaryRequest(
        system=policy.summarizer_system_prompt,
        user=policy.summarizer_user_prompt.replace(MESSAGES_PLACEHOLDER, text),
        max_tokens=policy.summary_max_tokens,
        model=policy.summary_model,
    )


def transcript_text(messages: Sequence[Message]) -> str:
    """What was said, as a summariser reads it: without internal messages, and with long results cut."""
    lines = ((message.role, shown(message).text) for message in messages if message.visibility is Visibility.ALL)
    return "\n\n".join(f"[{role.value.capitalize()}]: {text}" for role, text in lines if text.strip())


def conclude(
    boundary: Boundary, summary: str, policy: ContextPolicy, *, factor: float = 1.0
) -> CompactionMark | Skipped:
    """What a summary comes to: a mark, or nothing if it is empty or saves too little."""
    summary = summary.strip()
    if not summary:
        return Skipped(CompactionSkip.EMPTY_SUMMARY)
    mark = CompactionMark(through=boundary.through, summary=summary, pre_tokens=boundary.pre_tokens, post_tokens=0)
    post_tokens = scaled(message_tokens(summary_message(mark)), factor)
    if boundary.pre_tokens - post_tokens < policy.min_savings_ratio * boundary.pre_tokens:
        return Skipped(CompactionSkip.MIN_SAVINGS_RATIO)
    return mark.model_copy(update={"post_tokens": post_tokens})


def _fitting(messages: Sequence[Message], room: int) -> int:
    """How many of the first messages fit into so many tokens."""
    totals = accumulate(message_tokens(shown(message)) for message in messages)
    return sum(1 for _ in takewhile(lambda total: total <= room, totals))


def _last_split(messages: Sequence[Message], limit: int) -> int:
    """The last position up to `limit` where no call is open and no result follows."""
    found = read_rounds(messages)
    if found.rounds and found.rounds[-1].unanswered:
        # Whoever answers may still be at work. An older call stays unanswered: the model has spoken since.
        limit = min(limit, found.rounds[-1].at)
    seams = found.seams
    while limit > 0 and (limit in seams or messages[limit].role is Role.TOOL):
        limit -= 1
    return limit


def _uncovered(messages: Sequence[Message], mark: CompactionMark | None) -> Sequence[Message]:
    if mark is None:
        return messages
    if mark.through > len(messages):
        raise InternalError(f"a mark covers {mark.through} messages of a conversation that has {len(messages)}")
    return messages[mark.through :]


def _shown_tokens(messages: Sequence[Message]) -> int:
    return sum(message_tokens(shown(message)) for message in messages)
