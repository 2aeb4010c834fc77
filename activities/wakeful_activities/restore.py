"""The `restore_thread` activity: what a thread said and kept, for the execution that continues it.

A woken thread continues from its own closed execution, a fork from a step of another thread, open or closed. The new
execution then owns everything: what it does not get with the activity's result is archived under its own id, so it
depends on no other execution, which retention will delete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from typing import TypeVar

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.client.read_or_ask import read_or_ask
from wakeful.contract.archive import ArchiveInput, ArchiveOutput, SegmentContent
from wakeful.contract.base import Wire, json_bytes
from wakeful.contract.carryover import Carryover, Counters
from wakeful.contract.errors import (
    ArchiveMissing,
    DoesNotReplay,
    OtherTenant,
    ReplayTooSlow,
    ThreadNotFound,
    WakefulError,
)
from wakeful.contract.events import EventRecord
from wakeful.contract.ids import interrupted_message_id, lineage_after, message_id
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.messages import Message
from wakeful.contract.names import (
    ACTIVITY_ARCHIVE,
    ACTIVITY_RESTORE,
    QUERY_CARRYOVER,
    QUERY_EVENTS,
    QUERY_TRANSCRIPT,
    TOOL_INTERRUPTED,
)
from wakeful.contract.requests import MAX_PAGE, ForkPointRequest, PageRequest
from wakeful.contract.segments import SegmentRef, archived_events, archived_messages
from wakeful.contract.tools import ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, chained, tool_message
from wakeful.contract.views import EventsPage, TranscriptPage
from wakeful.history.archive import (
    ArchiveReader,
    ArchiveWriter,
    read_last_archive,
)
from wakeful.history.conversation import UNKNOWN_DIGEST, read_conversation
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments, walk_chain
from wakeful.history.fork_point import find_fork_point
from wakeful.history.latest_execution import ExecutionStart, latest_started, read_start
from wakeful.history.moments import CLOSED_FROM_OUTSIDE, ActivityCompleted, ActivityScheduled, Closed
from wakeful.history.reader import HistoryReader
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.thread.archive import archived_position, cut_to
from wakeful.loop.thread.continue_as_new import TAIL_BYTES, ThreadSnapshot, unpack
from wakeful.loop.thread.opening import other_tenant
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition
from wakeful.loop.thread.views import carryover, visible_messages
from wakeful.permissions.authority import narrowing
from wakeful.rpc_errors import describe_execution
from wakeful_activities.heartbeats import heartbeating

RESTORED_BYTES = 1_500_000
"""Of the activity's result: Temporal fails an activity that returns two megabytes."""

ANSWER_TIMEOUT = timedelta(seconds=5)
"""How long a worker may take to answer for an execution that does not replay here."""

V = TypeVar("V", bound=Wire)

LOST_MOMENTS = 100_000
"""More events of history than executions of a thread have had that were deleted before it was restored."""

EVENTS_PER_MOMENT = 20
"""More events than one event of history can cause."""


@dataclass(frozen=True)
class _Past:
    """What a thread continues with."""

    carryover: Carryover
    segments: tuple[SegmentRef, ...] = ()
    messages: Sequence[Message] = ()
    """After those that are archived."""
    events: Sequence[EventRecord] = ()
    added: Sequence[Message] = field(default=())
    """Messages that the restored thread adds to the conversation."""
    missing: str = ""

    def in_lineage(self, lineage: str) -> "_Past":
        """With calls from now on that have ids in this lineage."""
        counters = self.carryover.counters.model_copy(update={"lineage": lineage})
        return replace(self, carryover=self.carryover.model_copy(update={"counters": counters}))


class RestoreActivity:
    """The `restore_thread` activity."""

    def __init__(self, client: Client, reader: HistoryReader) -> None:
        self._client = client
        self._reader = reader
        self._archives = ArchiveReader(client)

    @activity.defn(name=ACTIVITY_RESTORE)
    async def restore_thread(self, input: RestoreInput) -> TranscriptTail:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None  # our activities are always scheduled by a workflow
        with heartbeating():
            past = await self._past(workflow_id, input)
            # Here, and not in the workflow: an execution whose restore completes takes the thread over.
            if (problem := other_tenant(input.tenant, past.carryover)) is not None:
                message = f"thread {input.thread_id or workflow_id!r} cannot be restored: {problem}"
                raise ApplicationError(message, type=OtherTenant.__name__, non_retryable=True)
            return await self._tail(workflow_id, past)

    async def _past(self, workflow_id: str, input: RestoreInput) -> _Past:
        if input.messages is None:
            return await self._closed(workflow_id, input.run_id)
        fork_point = ForkPointRequest(messages=input.messages, digest=input.digest)
        return await self._fork(ExecutionRef(input.thread_id or workflow_id, input.run_id), fork_point)

    async def _closed(self, thread_id: str, run_id: str) -> _Past:
        """The thread at the end of this execution, or of its predecessor, if this one never started."""
        try:
            start = await latest_started(self._client, thread_id, run_id)
        except ThreadNotFound:  # the server has deleted it since the thread was woken
            return await self._deleted(thread_id, run_id)
        past = await self._with_authority(thread_id, await self._at_its_end(thread_id, start), run_id)
        # The execution may have been terminated before a workflow task noticed the reset.
        return past.in_lineage(lineage_after(run_id)) if start.is_reset else past

    async def _with_authority(self, thread_id: str, past: _Past, run_id: str) -> _Past:
        """A sub-agent that an older release has archived, with what its ancestors deny or ask: its request says it."""
        identity, is_older = past.carryover.identity, past.carryover.users is None
        if identity is None or not identity.path or not is_older:
            return past

        async def read(execution: ExecutionRef) -> ExecutionStart:
            return await read_start(self._client, execution)

        try:
            async for start in walk_chain(read, ExecutionRef(thread_id, run_id)):
                if start.request is not None and start.request.subagent is not None:
                    authority = narrowing(start.request.permissions)
                    return replace(past, carryover=past.carryover.model_copy(update={"authority": authority}))
        except ThreadNotFound:  # the server has deleted the execution that it began with
            pass
        return past

    async def _at_its_end(self, thread_id: str, start: ExecutionStart) -> _Past:
        closed = ExecutionRef(thread_id, start.run_id)
        if not start.has_started:
            if start.snapshot is None:
                raise _not_restorable(closed, "it never started")
            return _of_snapshot(unpack(start.snapshot))  # the server has deleted the execution that it continues
        if (archived := await self._last_act(closed)) is not None:
            return archived
        try:
            await self._reader.query(thread_id, QUERY_CARRYOVER, Carryover, run_id=closed.run_id)
        except DoesNotReplay as error:
            if isinstance(error, ReplayTooSlow):
                raise  # Temporal retries; the thread must not lose its state because a worker was busy
            return await self._left_of_another_release(closed, error)
        return await self._left(closed)

    async def _last_act(self, closed: ExecutionRef) -> _Past | None:
        """What the thread archived as the last act before it closed by itself; None if it did not."""
        inputs = dict[int, ArchiveInput]()
        found: _Past | None = None
        payloads = Payloads(self._client.data_converter)
        async for moment in read_moments(self._client, closed):
            match moment:
                case ActivityScheduled(activity_type=kind) if kind == ACTIVITY_ARCHIVE:
                    inputs[moment.event_id], found = await payloads.value(moment.input, ArchiveInput), None
                case ActivityCompleted(scheduled=int(scheduled)) if scheduled in inputs:
                    output = await payloads.value(moment.result, ArchiveOutput)
                    before = inputs[scheduled]
                    is_last = before.closes and output.last_run_id is not None
                    last = (
                        await read_last_archive(self._client, closed.thread_id, output.last_run_id) if is_last else None
                    )
                    found = _in_last_archive(last) if last is not None else None
                case Closed(how=how) if how in CLOSED_FROM_OUTSIDE:
                    found = None  # what it was sent after its last act is not archived
        return found

    async def _deleted(self, thread_id: str, run_id: str) -> _Past:
        """The thread when it closed last: in this execution, or in an earlier one, if this one was terminated."""
        try:
            last = await read_last_archive(self._client, thread_id)
        except ArchiveMissing as error:
            raise ThreadNotFound(thread_id) from error
        past = _in_last_archive(last)
        if last.closed_run_id in (None, run_id):
            return past
        counters = past.carryover.counters
        counted = _beyond(counters, LOST_MOMENTS).model_copy(update={"events": counters.events})
        missing = (
            f"what the thread said after execution {last.closed_run_id!r} is lost: execution {run_id!r} was terminated "
            "or timed out, and its retention ended before the thread was restored"
        )
        return replace(past, carryover=past.carryover.model_copy(update={"counters": counted}), missing=missing)

    async def _left(self, closed: ExecutionRef) -> _Past:
        """What the execution has, read by replay."""
        carryover = await self._ask(closed, QUERY_CARRYOVER, Carryover)
        segments = carryover.segments
        messages = await self._messages(closed, after=archived_messages(segments))
        events = await self._events(closed, after=archived_events(segments))
        return _Past(carryover.fitting(), segments, messages, events, _interrupted_calls(messages))

    async def _left_of_another_release(self, closed: ExecutionRef, error: DoesNotReplay) -> _Past:
        """What a worker answers whose code replays the execution; if there is none, the conversation alone."""
        try:
            return await self._left(closed)
        except WakefulError:
            return await self._conversation(closed, error)

    async def _conversation(self, closed: ExecutionRef, error: DoesNotReplay) -> _Past:
        """The conversation alone, read from what history records: the execution does not replay on this code.

        Counters continue with numbers that cannot have been used.
        """
        conversation = await read_conversation(self._client, closed)
        start, messages = conversation.entries()
        segments = conversation.segments
        if start.digest == UNKNOWN_DIGEST:  # it was rolled back to before this execution
            earlier = await self._archives.messages(segments, after=0, through=start.length)
            segments = cut_to(segments, TranscriptPosition(start.length, reduce(chained, earlier, EMPTY_DIGEST)))
        first = archived_messages(segments)
        messages = messages[first - start.length :]
        named = [
            message.model_copy(update={"id": message.id or message_id(closed.run_id, number)})
            for number, message in enumerate(messages, first + 1)
        ]
        counted = _beyond(conversation.carryover.counters, conversation.moments)
        missing = f"only the conversation was restored, without its newest events, state and answer: {error}"
        carryover = conversation.carryover.model_copy(update={"counters": counted})
        return _Past(carryover, segments, named, (), _interrupted_calls(named), missing)

    async def _fork(self, origin: ExecutionRef, request: ForkPointRequest) -> _Past:
        """The origin after its first messages, read from the execution that was named, or from its newest one."""
        try:
            return await self._fork_of(origin, request)
        except ThreadNotFound:  # the server has deleted the execution since
            newest = await describe_execution(self._client, origin.thread_id)
            if newest is None or newest.run_id == origin.run_id:
                raise
        start = await latest_started(self._client, origin.thread_id, newest.run_id)
        if not start.has_started and newest.close_time is not None:
            raise _not_restorable(origin, "it was deleted, and the execution that continues it never started")
        return await self._fork_of(ExecutionRef(origin.thread_id, start.run_id), request)

    async def _fork_of(self, origin: ExecutionRef, request: ForkPointRequest) -> _Past:
        messages = (await self._messages(origin, after=0, through=request.messages))[: request.messages]
        digest = reduce(chained, messages, EMPTY_DIGEST)
        point = (await find_fork_point(self._ask, self._archives, origin, request)).view
        wanted = request.digest or point.digest
        if point.carryover is None or not digest == wanted == (point.digest or wanted):
            reason = f"no step of the conversation ends after {request.messages} messages any more"
            raise _not_restorable(origin, reason)
        # The fork's own request names the agent that answers.
        return _Past(point.carryover.model_copy(update={"agent_id": None}), messages=messages)

    async def _messages(self, execution: ExecutionRef, *, after: int, through: int | None = None) -> list[Message]:
        """The messages of an execution, with those that are archived, from number `after` on."""
        messages, wanted = list[Message](), after
        while through is None or wanted < through:
            request = PageRequest(after=wanted, limit=MAX_PAGE)
            page = await self._ask(execution, QUERY_TRANSCRIPT, TranscriptPage, request)
            if page.restoring:
                raise _not_restorable(execution, "it was closed before it was restored itself")
            messages += page.messages
            if page.segments and page.next is not None:
                messages += await self._archives.messages(page.segments, after=wanted, through=page.next)
            if page.next is None:
                break
            wanted = page.next
        return messages

    async def _events(self, execution: ExecutionRef, *, after: int) -> list[EventRecord]:
        events = list[EventRecord]()
        while True:
            request = PageRequest(after=after, limit=MAX_PAGE)
            page = await self._ask(execution, QUERY_EVENTS, EventsPage, request)
            events += page.events
            after = page.last
            if not page.more:
                return events

    async def _ask(self, execution: ExecutionRef, name: str, kind: type[V], argument: object = None, /) -> V:
        thread_id, run_id = execution.thread_id, execution.run_id
        return await read_or_ask(self._reader, thread_id, name, kind, argument, run_id=run_id, within=ANSWER_TIMEOUT)

    async def _tail(self, thread_id: str, past: _Past) -> TranscriptTail:
        """The thread as its next execution gets it; what does not fit is archived under its id."""
        carryover, segments, events = past.carryover, past.segments, tuple(past.events)
        before = archived_position(segments)
        transcript = _appended(Transcript(digest=before.digest, before=before), past.messages)
        size = sum(map(json_bytes, (*past.messages, *events)))
        room = max(0, RESTORED_BYTES - json_bytes(carryover.model_copy(update={"segments": segments})))
        if size > min(TAIL_BYTES, room):
            number = carryover.counters.archives + 1
            writer = ArchiveWriter(self._client, thread_id, task_queue=activity.info().task_queue)
            kept = carryover.for_fork()
            segments += await writer.write(segments, past.messages, events, kept, number=number)
            counters = carryover.counters.model_copy(update={"archives": number})
            carryover, events = carryover.model_copy(update={"counters": counters}), ()
        if not transcript.messages:
            transcript = await self._newest(segments)
        new = transcript.length - archived_messages(segments)
        tail = transcript.tail(min(TAIL_BYTES, room), at_least=new)
        tail = _appended(tail, past.added).sent()
        return TranscriptTail(
            length=tail.before.length,
            digest=tail.before.digest,
            messages=tail.messages,
            carryover=carryover.model_copy(update={"segments": segments, "revision": REVISION}),
            events=events,
            missing=past.missing,
        )

    async def _newest(self, segments: tuple[SegmentRef, ...]) -> Transcript:
        """The newest archived messages, as many as a restored thread starts with."""
        first, size = len(segments), 0
        while first and size < TAIL_BYTES:
            first -= 1
            size += sum(map(json_bytes, (await self._archives.content(segments[first])).messages))
        before = archived_position(segments[:first])
        end = archived_messages(segments)
        messages = await self._archives.messages(segments[first:], after=before.length, through=end)
        return _appended(Transcript(digest=before.digest, before=before), messages)


def _of_snapshot(snapshot: ThreadSnapshot) -> _Past:
    """What an execution was given that was closed before its first workflow task."""
    thread, segments = snapshot.thread, snapshot.segments
    messages = visible_messages(thread)[archived_messages(segments) - thread.transcript.before.length :]
    return _Past(carryover(thread), segments, messages, snapshot.events, _interrupted_calls(messages))


def _in_last_archive(last: SegmentContent) -> _Past:
    """What a thread archived as its last act."""
    assert last.carryover is not None  # a last archive always has it
    return _Past(last.carryover, last.carryover.segments, last.messages, last.events)


def _appended(transcript: Transcript, messages: Sequence[Message]) -> Transcript:
    for message in messages:
        transcript = transcript.appending(message, message.id)
    return transcript.sent()


def _interrupted_calls(messages: Sequence[Message]) -> list[Message]:
    """A result for every call that was under way when the execution was terminated: no provider accepts one without."""
    answered = {message.tool_call_id for message in messages}
    return [
        tool_message(call.id, ToolResult.error(call.name, TOOL_INTERRUPTED), id=interrupted_message_id(call.id))
        for message in messages
        for call in message.tool_calls
        if call.id not in answered
    ]


def _beyond(counters: Counters, moments: int) -> Counters:
    """Counters that no id of an execution with so many events of history can have reached."""
    numbers = {name: number + moments for name, number in counters if isinstance(number, int)}
    return counters.model_copy(update=numbers | {"events": counters.events + moments * EVENTS_PER_MOMENT})


def _not_restorable(execution: ExecutionRef, why: str) -> ApplicationError:
    message = f"the earlier execution {execution.run_id!r} cannot be restored: {why}"
    return ApplicationError(message, type="NotRestorable", non_retryable=True)
