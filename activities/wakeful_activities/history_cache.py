"""A worker's cache of transcripts and resolved agents, filled by its own activities and rebuilt from history.

Activities are given references: a transcript's length and digest, an agent's digest. This cache turns them into values.
What it does not have is read from the workflow's history, and from the thread's archives. The chain of digests
decides whether a transcript is the right one, so a stale or partial cache costs time but is never wrong.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from pydantic import JsonValue
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.context.tokens import message_tokens
from wakeful.context.window import shortened
from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import json_bytes
from wakeful.contract.context import CompactionMark
from wakeful.contract.errors import InternalError
from wakeful.contract.inference import InferInput, ModelResponse, Rewind, Source, TranscriptRef
from wakeful.contract.messages import Message, Role
from wakeful.contract.runs import metadata_digest
from wakeful.contract.segments import SegmentRef
from wakeful.contract.tools import ToolOutcome, ToolStatus
from wakeful.contract.transcript import assistant_message, chained, tool_message
from wakeful.history.archive import ArchiveReader
from wakeful.history.conversation import UNKNOWN_DIGEST, Conversation, read_conversation
from wakeful.history.decoder import ExecutionRef
from wakeful.loop.thread.archive import archived_position
from wakeful.loop.thread.transcript import TranscriptPosition
from wakeful.telemetry import instruments
from wakeful.telemetry.metrics import Metrics
from wakeful_activities.bounded_cache import BoundedCache

MAX_CACHED_BYTES = 256 * 2**20

MAX_METADATA_BYTES = 8 * 2**20
"""Of the metadata of runs."""

MESSAGE_BYTES = 1_000
"""The memory that a message takes besides its content."""


@dataclass
class _Thread:
    """A transcript from `start` on, with the digest after each entry, and results that are not appended yet."""

    start: TranscriptPosition = field(default_factory=TranscriptPosition)
    messages: list[Message] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=lambda: [0])
    """The estimated tokens of the first n messages, so that no request has to count a long thread again."""
    sizes: list[int] = field(default_factory=lambda: [0])
    """The bytes of the first n messages."""
    results: dict[str, Message] = field(default_factory=dict)
    asked_at: tuple[str, int] = ("", 0)
    """The newest inference of this worker, and the length of the transcript that it was about."""
    other_bytes: int = 0
    """Of results and marks."""
    marks: dict[tuple[str, str], CompactionMark] = field(default_factory=dict)
    """By execution and activity: after a reset, another activity may have the same id."""
    segments: tuple[SegmentRef, ...] = ()
    """Where what precedes `start` is archived; empty if it is not known yet."""
    leading: tuple[Message, ...] | None = None
    """The system messages that the conversation begins with, once they were read from an archive."""

    @property
    def length(self) -> int:
        return self.start.length + len(self.messages)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return self.sizes[-1] + self.other_bytes

    def add_result(self, id: str, message: Message) -> None:
        self.take_result(id)
        self.results[id] = message
        self.other_bytes += _size(message)

    def take_result(self, id: str) -> Message | None:
        if (message := self.results.pop(id, None)) is not None:
            self.other_bytes -= _size(message)
        return message

    def add_mark(self, key: tuple[str, str], mark: CompactionMark) -> None:
        if key not in self.marks:
            self.other_bytes += json_bytes(mark)
        self.marks[key] = mark

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.sizes.append(self.sizes[-1] + _size(message))
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
            del self.messages[keep:], self.digests[keep:], self.tokens[keep + 1 :], self.sizes[keep + 1 :]
            new = new[rewinds[-1] + 1 :]
        known = self.length - (length - len(new))
        if known < 0:
            return
        for source in new[known:]:
            message = self.take_result(source) if isinstance(source, str) else source
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
        self.sizes = older.sizes[:-1] + [older.sizes[-1] + size for size in self.sizes]


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
    """Caches of conversations, agents and runs' metadata, each bounded by bytes and backed by history."""

    def __init__(self, client: Client, *, max_bytes: int = MAX_CACHED_BYTES, metrics: Metrics | None = None) -> None:
        self._client = client
        self._metrics = metrics
        self._archives = ArchiveReader(client)
        self._threads: BoundedCache[str, _Thread] = BoundedCache(max_bytes, lambda thread: thread.size)
        self._agents: BoundedCache[str, ResolvedAgent] = BoundedCache(max_bytes, json_bytes)
        self._metadata: BoundedCache[str, Mapping[str, JsonValue]] = BoundedCache(MAX_METADATA_BYTES, json_bytes)

    def put_agent(self, agent: ResolvedAgent) -> None:
        self._agents.put(agent.digest(), agent)

    def put_answer(self, id: str, response: ModelResponse, *, length: int) -> None:
        """Keep the answer to a transcript of this length."""
        self._thread().asked_at = (id, length)
        self._add_result(id, assistant_message(response))

    def put_outcome(self, id: str, call_id: str, outcome: ToolOutcome) -> None:
        if outcome.result.status is not ToolStatus.PENDING:  # a suspended call has no result yet
            self._add_result(id, tool_message(call_id, outcome.result))

    def _add_result(self, id: str, message: Message) -> None:
        thread = self._thread()
        thread.add_result(id, message)
        self._keep(thread)

    def put_mark(self, id: str, mark: CompactionMark) -> None:
        thread = self._thread()
        thread.add_mark((_here().run_id, id), mark)
        self._keep(thread)

    async def agent(self, digest: str) -> ResolvedAgent:
        """The agent that a run is bound to, even if the registry has changed since."""
        if (known := self._agents.get(digest)) is not None:
            return known
        found: ResolvedAgent | None = None
        for agent in (await self._read(_here())).agents:
            self.put_agent(agent)
            found = agent if agent.digest() == digest else found
        if found is None:
            raise _mismatch(f"the resolved agent {digest} is not in the workflow's history")
        return found

    def put_metadata(self, metadata: Mapping[str, JsonValue]) -> None:
        if (digest := metadata_digest(metadata)) is not None:
            self._metadata.put(digest, metadata)

    async def metadata(self, digest: str | None) -> Mapping[str, JsonValue]:
        """The metadata of a run; nothing if there is no digest."""
        if digest is None:
            return {}
        if (known := self._metadata.get(digest)) is not None:
            return known
        for metadata in (await self._read(_here())).metadata:
            self.put_metadata(metadata)
        if (found := self._metadata.get(digest)) is None:
            raise _mismatch(f"the metadata {digest} is not in the workflow's history")
        return found

    async def mark(self, id: str) -> CompactionMark:
        """The summary that the activity with this id made."""
        thread, here = self._thread(), _here()
        if (here.run_id, id) not in thread.marks:
            for made, mark in (await self._read(here)).marks.items():
                thread.add_mark((here.run_id, made), mark)
            self._keep(thread)
        if (here.run_id, id) not in thread.marks:
            raise _mismatch(f"the summary {id} is not in the workflow's history")
        return thread.marks[here.run_id, id]

    async def transcript(
        self, input: InferInput, *, is_enough: Callable[[CachedTranscript], bool] = lambda _newest: False
    ) -> CachedTranscript:
        """The transcript that `input` refers to; only its newest part, once that `is_enough`.

        Raises:
            ApplicationError: history does not match the digest; Temporal retries.
        """
        thread, ref = self._thread(), input.transcript
        thread.follow(input.appended, ref.length)
        is_known, began = thread.matches(ref), time.monotonic()
        if not is_known:
            thread = await self._rebuild(ref)
        self._count(is_known=is_known, seconds=time.monotonic() - began)
        while thread.start.length > 0 and not is_enough(CachedTranscript(thread, ref.length)):
            await self._read_older(thread)
        self._keep(thread)
        return CachedTranscript(thread, ref.length)

    def _count(self, *, is_known: bool, seconds: float) -> None:
        if self._metrics is not None:
            result = instruments.HIT if is_known else instruments.REBUILT
            self._metrics.count(instruments.TRANSCRIPTS, {instruments.CACHE_RESULT: result})
            if not is_known:
                self._metrics.record(instruments.REBUILD_DURATION, seconds, {})

    async def conversation(self, call_id: str, last: int | None = None) -> tuple[Message, ...]:
        """The newest messages, or all, with the answer that asks for this call and the results of its calls so far."""
        inference_id, thread = ids.asking_inference(call_id), self._thread()
        asked_by, length = thread.asked_at
        answer, results = thread.results.get(asked_by), thread.results
        is_known = asked_by == inference_id and answer is not None and length <= thread.length
        if not is_known or answer is None or call_id not in {call.id for call in answer.tool_calls}:
            conversation = await self._read(_here())
            thread, results = await self._rebuilt(conversation), conversation.results
            answer, length = _labelled_like(call_id, results.get(inference_id or "")), thread.length
        staged = () if answer is None else (answer, *_results_of(answer, results))
        wanted = None if last is None else max(0, last - len(staged))
        while thread.start.length > 0 and (wanted is None or length - thread.start.length < wanted):
            await self._read_older(thread)
        first = thread.start.length if wanted is None else max(thread.start.length, length - wanted)
        messages = (*CachedTranscript(thread, length).since(first), *staged)
        return messages if last is None else messages[max(0, len(messages) - last) :]

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
        thread = await self._rebuilt(await self._read(_here()))
        if not thread.matches(ref):
            raise _mismatch(f"history has {thread.length} messages, which do not match {ref.digest} at {ref.length}")
        self._keep(thread)
        return thread

    async def _rebuilt(self, conversation: Conversation) -> _Thread:
        """What inferences were given, as far as this execution has it."""
        start, messages = _entries(conversation)
        thread = _Thread(start=start, segments=conversation.segments)
        if start.digest == UNKNOWN_DIGEST:  # the thread was rolled back to before this execution
            await self._read_rolled_back(thread)
        for message in messages:
            thread.append(message)
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
        if (thread := self._threads.get(_here().thread_id)) is None:
            thread = _Thread()
            self._keep(thread)
        return thread

    def _keep(self, thread: _Thread) -> None:
        """Keep the conversation of this activity's thread, which may have grown."""
        self._threads.put(_here().thread_id, thread)


def _labelled_like(call_id: str, answer: Message | None) -> Message | None:
    """The answer with its calls in the lineage of this one: a reset may have begun it after the answer was recorded."""
    if answer is None or call_id in {call.id for call in answer.tool_calls}:
        return answer
    lineage = ids.lineage_of(call_id)
    calls = (call.model_copy(update={"id": ids.relabelled(call.id, lineage)}) for call in answer.tool_calls)
    return answer.model_copy(update={"tool_calls": tuple(calls)})


def _results_of(answer: Message, results: Mapping[str, Message]) -> Iterator[Message]:
    """The results of an answer's calls that there are, in the order of the calls."""
    known = {message.tool_call_id: message for message in results.values() if message.tool_call_id}
    return (known[call.id] for call in answer.tool_calls if call.id in known)


def _size(message: Message) -> int:
    return json_bytes(message) + MESSAGE_BYTES


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
