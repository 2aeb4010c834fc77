"""What this worker remembers of threads, and how it reads back what it does not.

Activities are given references: a transcript's length and digest, an agent's digest. This cache turns them into values.
It is filled by what this worker's own activities returned; whatever is missing is read from the workflow's history.
A digest decides whether a transcript is the right one, so a stale or partial memory can cost time but never be wrong.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.inference import InferInput, ModelResponse, Source, TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.tools import ToolOutcome
from wakeful.contract.transcript import EMPTY_DIGEST, assistant_message, chained, tool_message
from wakeful_activities.history import read_history

DEFAULT_CAPACITY = 512


@dataclass
class _Thread:
    """A transcript with the digest after each entry, and results that no inference has asked about yet."""

    messages: list[Message] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    results: dict[str, Message] = field(default_factory=dict)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.digests.append(chained(self.digests[-1] if self.digests else EMPTY_DIGEST, message))

    def matches(self, ref: TranscriptRef) -> bool:
        return ref.length <= len(self.digests) and self._digest_at(ref.length) == ref.digest

    def _digest_at(self, length: int) -> str:
        return self.digests[length - 1] if length else EMPTY_DIGEST

    def follow(self, appended: Sequence[Source], length: int) -> None:
        """Append what is new, as far as this worker knows it: `appended` are the last entries of `length`."""
        known = len(self.messages) - (length - len(appended))
        if known < 0:
            return
        for source in appended[known:]:
            message = self.results.pop(source, None) if isinstance(source, str) else source
            if message is None:
                return
            self.append(message)


class Memory:
    """A bounded cache of transcripts and resolved agents, backed by history."""

    def __init__(self, client: Client, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._client = client
        self._capacity = capacity
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._agents: OrderedDict[str, ResolvedAgent] = OrderedDict()
        self.rebuilds = 0

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
            history = await read_history(self._client)
            for agent in history.agents:
                self.remember_agent(agent)
        if digest not in self._agents:
            raise ApplicationError(f"the resolved agent {digest} is not in the workflow's history")
        self._agents.move_to_end(digest)
        return self._agents[digest]

    async def transcript(self, input: InferInput) -> tuple[Message, ...]:
        """The conversation that `input` names.

        Raises:
            ApplicationError: history does not come to the digest; Temporal tries again, nothing is guessed.
        """
        thread, ref = self._thread(), input.transcript
        thread.follow(input.appended, ref.length)
        if not thread.matches(ref):
            thread = await self._rebuild(ref)
        return tuple(thread.messages[: ref.length])

    async def _rebuild(self, ref: TranscriptRef) -> _Thread:
        self.rebuilds += 1
        history = await read_history(self._client)
        thread = _Thread()
        for message in history.transcript():
            thread.append(message)
        if not thread.matches(ref):
            raise ApplicationError(
                f"the transcript read from history ({len(thread.messages)} messages) does not come to digest "
                f"{ref.digest} at {ref.length}",
                type="TranscriptMismatch",
            )
        self._threads[_run_id()] = thread
        return thread

    def _thread(self) -> _Thread:
        run_id = _run_id()
        thread = self._threads.setdefault(run_id, _Thread())
        self._threads.move_to_end(run_id)
        _trim(self._threads, self._capacity)
        return thread


def _run_id() -> str:
    run_id = activity.info().workflow_run_id
    assert run_id is not None  # our activities are always scheduled by a workflow
    return run_id


def _trim(cache: OrderedDict[str, _Thread] | OrderedDict[str, ResolvedAgent], capacity: int) -> None:
    while len(cache) > capacity:
        cache.popitem(last=False)
