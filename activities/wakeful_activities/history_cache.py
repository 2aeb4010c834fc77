"""A worker's cache of transcripts and resolved agents, filled by its own activities and rebuilt from history.

Activities are given references: a transcript's length and digest, an agent's digest. This cache turns them into values.
What it does not have is read from the workflow's history, and from the thread's archives. The chain of digests
decides whether a transcript is the right one, so a stale or partial cache costs time but is never wrong.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.context.tokens import message_tokens
from wakeful.context.window import shortened
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark
from wakeful.contract.errors import InternalError
from wakeful.contract.inference import InferInput, ModelResponse, Rewind, Source, TranscriptRef
from wakeful.contract.messages import Message, Role
from wakeful.contract.segments import SegmentRef
from wakeful.contract.tools import ToolOutcome
from wakeful.contract.transcript import assistant_message, chained, tool_message
from wakeful.history.archive import ArchiveReader
from wakeful.history.conversation import UNKNOWN_DIGEST, Conversation, read_conversation
from wakeful.history.decoder import ExecutionRef
from wakeful.loop.thread.archive import archived_position
from wakeful.loop.thread.transcript import TranscriptPosition

DEFAULT_CAPACITY = 512


@dataclass
class _Thread:
    """A transcript from `start` on, with the digest after each entry, and results that are not appended yet."""

    start: TranscriptPosition = field(default_factory=TranscriptPosition)
    messages: list[Message] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=lambda: [0])
    """The estimated tokens of the first n messages, so that no request has to count a long thread again."""
    results: dict[str, Message] = field(default_factory=dict)
    marks: dict[tuple[str, str], CompactionMark] = field(default_factory=dict)
    """By execution and activity: after a reset, another activity may have the same id."""
    segments: tuple[SegmentRef, ...] = ()
    """Where what precedes `start` is archived; empty if it is not known yet."""
    leading: tuple[Message, ...] | None = None
    """The system messages that the conversation begins with, once they were read from an archive."""

    @property
    def length(self) -> int:
        return self.start.length + len(self.messages)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.digests.append(chained(self.digests[-1] if self.digests else self.start.digest, message))
        self.tokens.append(self.tokens[-1] + message_tokens(shortened(message)))

    def matches(self, ref: TranscriptRef) -> bool:
        return self.start.length <= ref.length <= self.length and self.digest_at(ref.length) == ref.digest

    def digest_at(self, length: int) -> str:
        return self.digests[length - self.start.length - 1] if length > self.start.length else self.start.digest

    def follow(self, appended: Sequence[Source], length: int) -> None:
        """Append the new entries, as far as this worker has them; with all of `appended` there are `length`."""
        new = list(appended)
        rewinds = [index for index, source in enumerate(new) if isinstance(source, Rewind)]
        if rewinds:
            last = new[rewinds[-1]]
            assert isinstance(last, Rewind)
            keep = max(0, last.rewind - self.start.length)
            del self.messages[keep:], self.digests[keep:], self.tokens[keep + 1 :]
            new = new[rewinds[-1] + 1 :]
        known = self.length - (length - len(new))
        if known < 0:
            return
        for source in new[known:]:
            message = self.results.pop(source, None) if isinstance(source, str) else source
            if not isinstance(message, Message):
                return
            self.append(message)

    def prepend(self, start: TranscriptPosition, messages: Sequence[Message]) -> None:
        """Put older entries before the known ones. Raises when the chain of digests does not meet."""
        older = _Thread(start=start)
        for message in messages:
            older.append(message)
        if older.length != self.start.length or older.digest_at(older.length) != self.start.digest:
            raise _mismatch(f"the archive ends at {older.length} with a different digest")
        self.messages[:0], self.digests[:0], self.start = older.messages, older.digests, start
        self.tokens = older.tokens[:-1] + [older.tokens[-1] + tokens for tokens in self.tokens]


class CachedTranscript:
    """A transcript of `length` entries, of which those from number `start` on are known."""

    def __init__(self, thread: _Thread, length: int) -> None:
        self._thread = thread
        self.start = thread.start.length
        self.length = length

    def since(self, number: int) -> tuple[Message, ...]:
        """The entries from `number` on."""
        return tuple(self._thread.messages[number - self.start : self.length - self.start])

    def before(self, number: int) -> Iterator[Message]:
        """The known entries before `number`, the newest first."""
        return (self._thread.messages[index] for index in range(number - self.start - 1, -1, -1))

    def digest_at(self, number: int) -> str:
        """The digest of the entries before `number`."""
        return self._thread.digest_at(number)

    def tokens_since(self, number: int) -> int:
        """Their estimated tokens."""
        return self._thread.tokens[self.length - self.start] - self._thread.tokens[number - self.start]

    def newest(self, tokens: int) -> int:
        """The last entry from which on the conversation has at least this many tokens; the first, if it has fewer."""
        wanted = self._thread.tokens[self.length - self.start] - tokens
        return self.start + max(0, bisect_right(self._thread.tokens, wanted, hi=self.length - self.start + 1) - 1)


class HistoryCache:
    """A bounded cache, backed by history."""

    def __init__(self, client: Client, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._client = client
        self._archives = ArchiveReader(client)
        self._capacity = capacity
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._agents: OrderedDict[str, ResolvedAgent] = OrderedDict()

    def put_agent(self, agent: ResolvedAgent) -> None:
        self._agents[agent.digest()] = agent
        _trim(self._agents, self._capacity)

    def put_answer(self, id: str, response: ModelResponse) -> None:
        self._thread().results[id] = assistant_message(response)

    def put_outcome(self, id: str, call_id: str, outcome: ToolOutcome) -> None:
        self._thread().results[id] = tool_message(call_id, outcome.result)

    def put_mark(self, id: str, mark: CompactionMark) -> None:
        self._thread().marks[_here().run_id, id] = mark

    async def agent(self, digest: str) -> ResolvedAgent:
        """The agent that a run is bound to, even if the registry has changed since."""
        if digest not in self._agents:
            for agent in (await self._read(_here())).agents:
                self.put_agent(agent)
        if digest not in self._agents:
            raise _mismatch(f"the resolved agent {digest} is not in the workflow's history")
        self._agents.move_to_end(digest)
        return self._agents[digest]

    async def mark(self, id: str) -> CompactionMark:
        """The summary that the activity with this id made."""
        marks, here = self._thread().marks, _here()
        if (here.run_id, id) not in marks:
            marks.update({(here.run_id, made): mark for made, mark in (await self._read(here)).marks.items()})
        if (here.run_id, id) not in marks:
            raise _mismatch(f"the summary {id} is not in the workflow's history")
        return marks[here.run_id, id]

    async def transcript(
        self, input: InferInput, *, is_enough: Callable[[CachedTranscript], bool] = lambda _newest: False
    ) -> CachedTranscript:
        """The transcript that `input` refers to; only its newest part, once that `is_enough`.

        Raises:
            ApplicationError: history does not match the digest; Temporal retries.
        """
        thread, ref = self._thread(), input.transcript
        thread.follow(input.appended, ref.length)
        if not thread.matches(ref):
            thread = await self._rebuild(ref)
        while thread.start.length > 0 and not is_enough(CachedTranscript(thread, ref.length)):
            await self._read_older(thread)
        return CachedTranscript(thread, ref.length)

    async def leading(self, transcript: CachedTranscript) -> tuple[Message, ...]:
        """The system messages that the conversation begins with, which every request includes."""
        thread = self._thread()
        if transcript.start == 0:
            return _system_prefix(islice(thread.messages, transcript.length))
        if thread.leading is None:
            first = (await self._segments(thread))[:1]
            thread.leading = _system_prefix(await self._archives.messages(first, after=0, through=first[0].messages))
        return thread.leading

    async def _segments(self, thread: _Thread) -> tuple[SegmentRef, ...]:
        if not thread.segments:
            thread.segments = (await self._read(_here())).segments
        if not thread.segments:
            raise _mismatch(f"the thread begins at {thread.start.length}, and what precedes it is not archived")
        return thread.segments

    async def _rebuild(self, ref: TranscriptRef) -> _Thread:
        conversation = await self._read(_here())
        start, messages = _entries(conversation)
        thread = _Thread(start=start, segments=conversation.segments)
        if start.digest == UNKNOWN_DIGEST:  # the thread was rolled back to before this execution
            await self._read_rolled_back(thread)
        for message in messages:
            thread.append(message)
        if not thread.matches(ref):
            raise _mismatch(f"history has {thread.length} messages, which do not match {ref.digest} at {ref.length}")
        self._threads[_here().thread_id] = thread
        return thread

    async def _read_rolled_back(self, thread: _Thread) -> None:
        """Start a transcript of which only the length is known: with the archived segment that holds its end."""
        end = thread.start.length
        held = [ref for ref in thread.segments if ref.first_message < end]
        thread.start = archived_position(tuple(held[:-1]))
        for message in await self._archives.messages(held[-1:], after=thread.start.length, through=end):
            thread.append(message)

    async def _read_older(self, thread: _Thread) -> None:
        """Put the archived segment that precedes the known messages before them."""
        end = thread.start.length
        held = [ref for ref in await self._segments(thread) if ref.first_message < end]
        if not held or held[-1].messages < end:
            raise _mismatch(f"the thread begins at {end}, and what precedes it is not archived")
        start = archived_position(tuple(held[:-1]))
        thread.prepend(start, await self._archives.messages(held[-1:], after=start.length, through=end))

    async def _read(self, execution: ExecutionRef) -> Conversation:
        return await read_conversation(self._client, execution)

    def _thread(self) -> _Thread:
        thread_id = _here().thread_id
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        _trim(self._threads, self._capacity)
        return thread


def _system_prefix(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(takewhile(lambda message: message.role is Role.SYSTEM, messages))


def _entries(
    conversation: Conversation, *, through: TranscriptPosition | None = None
) -> tuple[TranscriptPosition, list[Message]]:
    try:
        return conversation.entries(through=through)
    except InternalError as error:
        raise _mismatch(str(error)) from error


def _mismatch(message: str) -> ApplicationError:
    return ApplicationError(message, type="TranscriptMismatch")


def _here() -> ExecutionRef:
    """The execution that scheduled this activity."""
    info = activity.info()
    assert info.workflow_id is not None  # our activities are always scheduled by a workflow
    return ExecutionRef(info.workflow_id, info.workflow_run_id or "")


def _trim(cache: OrderedDict[str, _Thread] | OrderedDict[str, ResolvedAgent], capacity: int) -> None:
    while len(cache) > capacity:
        cache.popitem(last=False)
