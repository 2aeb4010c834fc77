"""What this worker remembers of threads, and how it reads back what it does not.

Activities are given references: a transcript's length and digest, an agent's digest. This cache turns them into values.
It is filled by what this worker's own activities returned; whatever is missing is read from the workflow's history, and
from the executions before it. A chain of digests decides whether a transcript is the right one, so a stale or partial
memory can cost time but never be wrong.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.context.tokens import message_tokens
from wakeful.context.window import shown
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark
from wakeful.contract.errors import InternalError
from wakeful.contract.inference import InferInput, ModelResponse, Rewind, Source, TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.names import QUERY_TRANSCRIPT
from wakeful.contract.tools import ToolOutcome
from wakeful.contract.transcript import assistant_message, chained, tool_message
from wakeful.contract.views import TranscriptPage
from wakeful.history.conversation import UNKNOWN_DIGEST, Execution, Place, read_execution
from wakeful.loop.thread.transcript import Mark

DEFAULT_CAPACITY = 512


@dataclass
class _Thread:
    """A transcript from `start` on, with the digest after each entry, and results not yet asked about."""

    start: Mark = field(default_factory=Mark)
    messages: list[Message] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=lambda: [0])
    """The estimated size of the first so many messages, so that no request has to count a long thread anew."""
    call_ids: set[str] = field(default_factory=set)
    results: dict[str, Message] = field(default_factory=dict)
    marks: dict[tuple[str, str], CompactionMark] = field(default_factory=dict)
    earlier: Place | None = None

    @property
    def length(self) -> int:
        return self.start.length + len(self.messages)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.digests.append(chained(self.digests[-1] if self.digests else self.start.digest, message))
        self.tokens.append(self.tokens[-1] + message_tokens(shown(message)))
        self.call_ids.update(call.id for call in message.tool_calls)

    def matches(self, ref: TranscriptRef) -> bool:
        return self.start.length <= ref.length <= self.length and self._digest_at(ref.length) == ref.digest

    def _digest_at(self, length: int) -> str:
        return self.digests[length - self.start.length - 1] if length > self.start.length else self.start.digest

    def follow(self, appended: Sequence[Source], length: int) -> None:
        """Append what is new, as far as this worker knows it: `appended` leads up to `length`."""
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

    def prepend(self, start: Mark, messages: Sequence[Message]) -> None:
        """Put older entries before the known ones. Raises when the chain of digests does not meet."""
        older = _Thread(start=start)
        for message in messages:
            older.append(message)
        if older.length != self.start.length or older._digest_at(older.length) != self.start.digest:
            raise _mismatch(f"the earlier execution ends at {older.length} with another digest")
        self.messages[:0], self.digests[:0], self.start = older.messages, older.digests, start
        self.tokens = older.tokens[:-1] + [older.tokens[-1] + tokens for tokens in self.tokens]
        self.call_ids |= older.call_ids


class Conversation:
    """A transcript of `length` entries, of which those from number `start` on are known."""

    def __init__(self, thread: _Thread, length: int) -> None:
        self._thread = thread
        self.start = thread.start.length
        self.length = length
        self.call_ids: Set[str] = thread.call_ids

    def since(self, number: int) -> tuple[Message, ...]:
        """The entries from `number` on."""
        return tuple(self._thread.messages[number - self.start : self.length - self.start])

    def tokens_since(self, number: int) -> int:
        """Their estimated size."""
        return self._thread.tokens[self.length - self.start] - self._thread.tokens[number - self.start]

    def newest(self, tokens: int) -> int:
        """From which entry on the conversation has about this size: at least that much, if there is as much."""
        wanted = self._thread.tokens[self.length - self.start] - tokens
        return self.start + max(0, bisect_right(self._thread.tokens, wanted, hi=self.length - self.start + 1) - 1)


class Memory:
    """A bounded cache of transcripts and resolved agents, backed by history."""

    def __init__(self, client: Client, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._client = client
        self._capacity = capacity
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._agents: OrderedDict[str, ResolvedAgent] = OrderedDict()

    def remember_agent(self, agent: ResolvedAgent) -> None:
        self._agents[agent.digest()] = agent
        _trim(self._agents, self._capacity)

    def remember_answer(self, id: str, response: ModelResponse) -> None:
        self._thread().results[id] = assistant_message(response)

    def remember_outcome(self, id: str, call_id: str, outcome: ToolOutcome) -> None:
        self._thread().results[id] = tool_message(call_id, outcome.result)

    async def agent(self, digest: str) -> ResolvedAgent:
        """The agent a run is bound to, whatever the registry says by now."""
        if digest not in self._agents:
            for agent in (await self._read()).agents:
                self.remember_agent(agent)
        if digest not in self._agents:
            raise _mismatch(f"the resolved agent {digest} is not in the workflow's history")
        self._agents.move_to_end(digest)
        return self._agents[digest]

    async def transcript(
        self, input: InferInput, *, enough: Callable[["Conversation"], bool] = lambda _newest: False
    ) -> "Conversation":
        """The conversation that `input` names; only its newest part, once that is `enough`.

        Raises:
            ApplicationError: history does not come to the digest; Temporal tries again, nothing is guessed.
        """
        thread, ref = self._thread(), input.transcript
        thread.follow(input.appended, ref.length)
        if not thread.matches(ref):
            thread = await self._rebuild(ref)
        while thread.start.length > 0 and not enough(Conversation(thread, ref.length)):
            await self._read_further_back(thread)
        return Conversation(thread, ref.length)

    def remember_mark(self, id: str, mark: CompactionMark) -> None:
        self._thread().marks[_run_id(), id] = mark

    async def mark(self, id: str) -> CompactionMark:
        """The summary that an activity made. A thread that was restored counts its summaries anew, so runs differ."""
        marks, run_id = self._thread().marks, _run_id()
        if (run_id, id) not in marks:
            marks.update({(run_id, made): mark for made, mark in (await self._read()).marks.items()})
        if (run_id, id) not in marks:
            raise _mismatch(f"the summary {id} is not in the workflow's history")
        return marks[run_id, id]

    async def _rebuild(self, ref: TranscriptRef) -> _Thread:
        execution = await self._read()
        start, messages = _entries(execution)
        while start.digest == UNKNOWN_DIGEST and execution.earlier is not None:
            execution = await self._read(execution.earlier)
            place, older = _entries(execution)
            start, messages = place, older[: start.length - place.length] + messages
        thread = _Thread(start=start, earlier=execution.earlier)
        for message in messages:
            thread.append(message)
        if not thread.matches(ref):
            raise _mismatch(f"history has {thread.length} messages, which do not come to {ref.digest} at {ref.length}")
        self._threads[_thread_id()] = thread
        return thread

    async def _read_further_back(self, thread: _Thread) -> None:
        if thread.earlier is None:
            thread.earlier = (await self._read()).earlier
        if (place := thread.earlier) is None:
            raise _mismatch(f"the thread begins at {thread.start.length}, and no earlier execution is known")
        execution = await self._read(place)
        start, messages = _entries(execution, through=thread.start)
        # A fork may have more of a conversation than the thread it was forked from, if that is a fork itself.
        if start.length < thread.start.length:
            if start.length + len(messages) < thread.start.length:
                messages = await self._ask(place, start.length, thread.start.length)
            thread.prepend(start, messages[: thread.start.length - start.length])
        thread.earlier = execution.earlier

    async def _ask(self, place: Place, after: int, through: int) -> list[Message]:
        """Entries that no inference of an execution was told of: its last answer, with what that had asked for."""
        handle, messages = self._client.get_workflow_handle(place.thread_id, run_id=place.run_id), list[Message]()
        while after < through:
            page: TranscriptPage = await handle.query(QUERY_TRANSCRIPT, {"after": after}, result_type=TranscriptPage)
            messages += page.messages
            after = page.next or through
        return messages

    async def _read(self, place: Place | None = None) -> Execution:
        here = Place(_thread_id(), _run_id())
        return await read_execution(self._client, (place or here).thread_id, (place or here).run_id)

    def _thread(self) -> _Thread:
        thread_id = _thread_id()
        thread = self._threads.setdefault(thread_id, _Thread())
        self._threads.move_to_end(thread_id)
        _trim(self._threads, self._capacity)
        return thread


def _entries(execution: Execution, *, through: Mark | None = None) -> tuple[Mark, list[Message]]:
    try:
        return execution.entries(through=through)
    except InternalError as error:
        raise _mismatch(str(error)) from error


def _mismatch(message: str) -> ApplicationError:
    return ApplicationError(message, type="TranscriptMismatch")


def _thread_id() -> str:
    thread_id = activity.info().workflow_id
    assert thread_id is not None  # our activities are always scheduled by a workflow
    return thread_id


def _run_id() -> str:
    return activity.info().workflow_run_id or ""


def _trim(cache: OrderedDict[str, _Thread] | OrderedDict[str, ResolvedAgent], capacity: int) -> None:
    while len(cache) > capacity:
        cache.popitem(last=False)
