"""Compaction: when to summarise older messages, how many, with which prompt, and whether the summary is worth it.

The conversation itself is never rewritten. A compaction results in a mark, and requests include the mark's summary
instead of the messages that it covers. The `compact` activity calls the summariser.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from wakeful.context.tokens import message_tokens, scaled
from wakeful.context.window import find_rounds, shortened
from wakeful.contract.context import (
    MESSAGES_PLACEHOLDER,
    CompactionMark,
    CompactionSkip,
    ContextPolicy,
    ContextReport,
)
from wakeful.contract.errors import InternalError
from wakeful.contract.messages import Message, Role, TextBlock, Visibility

MIN_CANDIDATES = 2
MIN_REPLACED_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a summary would cover: the first `through` messages, which take `pre_tokens` of a request now."""

    through: int
    pre_tokens: int


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The request to the summariser."""

    system: str
    user: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The summary is discarded."""

    reason: CompactionSkip


def compacted(messages: Sequence[Message], mark: CompactionMark | None) -> tuple[Message, ...]:
    """The conversation as requests include it: the summary, then the messages that the mark does not cover."""
    if mark is None:
        return tuple(messages)
    return (summary_message(mark), *_uncovered(messages, mark))


def summary_message(mark: CompactionMark) -> Message:
    """The message that replaces everything that the mark covers."""
    content = (TextBlock(text=f"<conversation-summary>\n{mark.summary}\n</conversation-summary>"),)
    id = f"summary:{mark.through}"
    return Message(id=id, role=Role.SYSTEM, content=content, visibility=Visibility.INTERNAL)


def history_tokens(messages: Sequence[Message], *, mark: CompactionMark | None = None, factor: float = 1.0) -> int:
    """The estimate for the whole conversation as requests include it."""
    return scaled(_request_tokens(compacted(messages, mark)), factor)


def should_compact(report: ContextReport, policy: ContextPolicy | None, *, skipped_at: int | None = None) -> bool:
    """Whether a conversation of this size should be summarised: it is too long for its policy, or for its model.

    Args:
        policy: None means that a conversation is summarised if its model rejects it.
        skipped_at: how many tokens it had when the last summary was discarded. The next one waits until there is more
            to summarise: the same summary would be paid for again at every step.
    """
    if policy is not None and policy.autocompact_threshold is None:
        return False
    threshold = policy.autocompact_threshold if policy is not None else None
    is_too_long = threshold is not None and report.history_tokens >= threshold
    if not is_too_long and not (report.limit is not None and report.dropped):
        return False
    return skipped_at is None or report.history_tokens >= skipped_at + MIN_REPLACED_TOKENS


def find_boundary(
    messages: Sequence[Message],
    policy: ContextPolicy,
    *,
    mark: CompactionMark | None = None,
    factor: float = 1.0,
    start: int = 0,
) -> Boundary | None:
    """The furthest position up to which a conversation can be summarised; None if that is not worth a summary.

    The messages that `mark` covers are summarised already: they are no candidates, and count with their summary's size.

    Args:
        messages: the conversation from number `start` on; the mark covers what precedes it.
    """
    uncovered = _uncovered(messages, mark, start=start)
    covered, previous = (0, 0) if mark is None else (mark.through, message_tokens(summary_message(mark)))
    candidates = len(uncovered) - policy.compaction_raw_suffix_messages
    # The summariser reads them in one request, together with the previous summary.
    room = int(policy.max_input_tokens / factor) - previous
    candidates = min(candidates, _fitting(uncovered, room))
    if candidates < MIN_CANDIDATES:
        return None
    count = _last_split(uncovered, candidates)
    replaced = _request_tokens(uncovered[:count])
    if scaled(replaced, factor) < MIN_REPLACED_TOKENS or not transcript_text(uncovered[:count]):
        return None
    return Boundary(through=covered + count, pre_tokens=scaled(previous + replaced, factor))


def summary_request(
    messages: Sequence[Message],
    through: int,
    policy: ContextPolicy,
    *,
    mark: CompactionMark | None = None,
    start: int = 0,
) -> SummaryRequest:
    """The request to summarise a conversation up to number `through`; a previous summary is updated.

    Args:
        messages: the conversation from number `start` on; the mark covers what precedes it.
    """
    text = transcript_text(_uncovered(messages[: through - start], mark, start=start))
    if mark is not None:
        text = f"<previous-summary>\n{mark.summary}\n</previous-summary>\n\n{text}"
    return SummaryRequest(
        system=policy.summarizer_system_prompt,
        user=policy.summarizer_user_prompt.replace(MESSAGES_PLACEHOLDER, text),
        max_tokens=policy.summary_max_tokens,
    )


def transcript_text(messages: Sequence[Message]) -> str:
    """The conversation as a summariser reads it: without internal messages, and with long results shortened."""
    lines = ((message.role, shortened(message).text) for message in messages if message.visibility is Visibility.ALL)
    return "\n\n".join(f"[{role.value.capitalize()}]: {text}" for role, text in lines if text.strip())


def conclude(
    boundary: Boundary, summary: str, policy: ContextPolicy, *, factor: float = 1.0
) -> CompactionMark | Skipped:
    """The mark for a summary, unless the summary is empty or saves too little."""
    summary = summary.strip()
    if not summary:
        return Skipped(CompactionSkip.EMPTY_SUMMARY)
    mark = CompactionMark(through=boundary.through, summary=summary, pre_tokens=boundary.pre_tokens, post_tokens=0)
    post_tokens = scaled(message_tokens(summary_message(mark)), factor)
    if boundary.pre_tokens - post_tokens < policy.min_savings_ratio * boundary.pre_tokens:
        return Skipped(CompactionSkip.MIN_SAVINGS_RATIO)
    return mark.model_copy(update={"post_tokens": post_tokens})


def _fitting(messages: Sequence[Message], room: int) -> int:
    """How many of the first messages fit into this many tokens."""
    totals = accumulate(message_tokens(shortened(message)) for message in messages)
    return sum(1 for _ in takewhile(lambda total: total <= room, totals))


def _last_split(messages: Sequence[Message], limit: int) -> int:
    """The last position up to `limit` at which no call is open and no result follows."""
    found = find_rounds(messages)
    if found.rounds and found.rounds[-1].unanswered:
        # The result may still come. Older calls stay unanswered: the model has answered since.
        limit = min(limit, found.rounds[-1].at)
    seams = found.seams
    while limit > 0 and (limit in seams or messages[limit].role is Role.TOOL):
        limit -= 1
    return limit


def _uncovered(messages: Sequence[Message], mark: CompactionMark | None, *, start: int = 0) -> Sequence[Message]:
    covered = mark.through if mark is not None else 0
    if not start <= covered <= start + len(messages):
        raise InternalError(
            f"a compaction mark covers {covered} messages, but the conversation has {start + len(messages)}, "
            f"of which those from number {start} on are given"
        )
    return messages[covered - start :]


def _request_tokens(messages: Sequence[Message]) -> int:
    return sum(message_tokens(shortened(message)) for message in messages)
