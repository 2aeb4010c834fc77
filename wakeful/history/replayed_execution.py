"""One replayed execution: its answers to queries, as values."""

import asyncio
import threading
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError, FailureError

from wakeful.contract import names
from wakeful.contract.errors import DoesNotReplay, NotStarted, ReplayTooSlow, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.state import StateView
from wakeful.contract.views import EventsPage, StatusView, TranscriptPage
from wakeful.history.completed_part import completed_part
from wakeful.history.decoder import ExecutionRef
from wakeful.history.kept_workflow import Keeper, KeptWorkflow
from wakeful.history.read_only_replayer import ReadOnlyReplayer
from wakeful.history.replay_failure import failure_message, named_event

V = TypeVar("V")


@dataclass(frozen=True)
class ThreadReading:
    """What one execution of a thread has to show, as its last completed workflow task left it."""

    execution: ExecutionRef
    completed: int
    """The event that completed that task."""
    status: StatusView
    state: StateView
    messages: tuple[Message, ...]
    """Those that this execution has."""
    messages_before: int
    """How many messages precede them: those are archived."""
    events: tuple[EventRecord, ...]
    """Those that this execution has."""
    events_before: int
    """How many events precede them: those are archived."""
    is_done: bool
    """The thread has ended."""
    is_restoring: bool
    """The thread is being restored, or was closed while it was: the earlier execution has the whole conversation."""
    in_flight: tuple[str, ...]
    """The ids of the activities that the run waits for."""


@dataclass
class ReplayedExecution:
    """A workflow that was replayed from history, with what a reader knows of that history."""

    execution: ExecutionRef
    workflow: KeptWorkflow
    converter: DataConverter
    """Of this workflow."""
    completed: int
    """The event that completed its last workflow task."""
    length: int
    """How many events the history had when no later task had been completed."""
    history_bytes: int = 0
    readers: int = 0

    async def query(self, name: str, kind: type[V], argument: object = None) -> V:
        """What it answers to a query.

        Raises:
            NotStarted: the thread is being restored, and the execution that it continues has the answer.
            WakefulError: the workflow rejects the query.
        """
        return await asyncio.to_thread(self._query, name, kind, argument)

    async def reading(self) -> ThreadReading:
        """Everything, with its pages joined."""
        return await asyncio.to_thread(self._reading)

    async def drop(self) -> None:
        """Evict the workflow."""
        await asyncio.to_thread(self.workflow.drop)

    def _query(self, name: str, kind: type[V], argument: object = None) -> V:
        thread_id = self.execution.thread_id
        # A codec encodes what leaves a process, and this does not: only the payload converter is involved.
        converter = self.converter.payload_converter
        answer = self.workflow.query(name, [] if argument is None else converter.to_payloads([argument]))
        if answer.HasField("failed"):
            error = self.converter.failure_converter.from_failure(answer.failed, converter)
            if isinstance(error, ApplicationError) and error.type == names.NOT_STARTED:
                raise NotStarted(thread_id, self.execution.run_id, is_taken=True) from error
            reason = error.message if isinstance(error, FailureError) else str(error)
            raise WakefulError(f"query {name!r} of thread {thread_id!r} failed: {reason}") from error
        value: V
        (value,) = converter.from_payloads([answer.succeeded.response], [kind])
        return value

    def _reading(self) -> ThreadReading:
        messages, messages_before = self._messages()
        events, events_before, final = self._events()
        return ThreadReading(
            execution=self.execution,
            completed=self.completed,
            status=self._query(names.QUERY_STATUS, StatusView),
            state=self._query(names.QUERY_STATE, StateView),
            messages=messages,
            messages_before=messages_before,
            events=events,
            events_before=events_before,
            is_done=final.done,
            is_restoring=final.restoring,
            in_flight=final.in_flight,
        )

    def _messages(self) -> tuple[tuple[Message, ...], int]:
        messages: list[Message] = []
        before = 0
        after: int | None = 0
        while after is not None:
            page = self._query(names.QUERY_TRANSCRIPT, TranscriptPage, {"after": after, "limit": MAX_PAGE})
            messages += page.messages
            before = page.next or 0 if page.segments else before
            after = page.next
        return tuple(messages), before

    def _events(self) -> tuple[tuple[EventRecord, ...], int, EventsPage]:
        events: list[EventRecord] = []
        after, before = 0, 0
        while True:
            page = self._query(names.QUERY_EVENTS, EventsPage, {"after": after, "limit": MAX_PAGE})
            events += page.events
            after = page.last
            before = after if page.segments else before
            if not page.more:
                return tuple(events), before, page


async def replay_execution(
    replayer: ReadOnlyReplayer, execution: ExecutionRef, events: Sequence[HistoryEvent]
) -> ReplayedExecution:
    """Replay an execution up to its last completed workflow task.

    Raises:
        NotStarted: no workflow task has been completed.
        CannotDecode: the history needs another payload codec.
        DoesNotReplay: the code does something else than the history records.
        ReplayTooSlow: the replay took too long, each time.
    """
    part = completed_part(events)
    if part is None:
        raise NotStarted(execution.thread_id, execution.run_id)
    keeper = Keeper()
    try:
        failure = await replayer.failure(WorkflowHistory(execution.thread_id, part.events), runner=keeper)
    except TimeoutError as timeout:
        keeper.has_abandoned = True
        raise _does_not_replay(execution, keeper, timeout) from timeout
    finally:
        await asyncio.to_thread(keeper.drop_replaced)
    if failure is not None or keeper.workflow is None:
        if keeper.workflow is not None:
            await asyncio.to_thread(keeper.workflow.drop)
        if (undecodable := await replayer.undecodable(WorkflowHistory(execution.thread_id, part.events))) is not None:
            raise undecodable
        raise _does_not_replay(execution, keeper, failure) from failure
    context = WorkflowSerializationContext(namespace=replayer.namespace, workflow_id=execution.thread_id)
    converter = replayer.converter.with_context(context)
    return ReplayedExecution(
        execution, keeper.workflow, converter, part.completed, len(events), sum(event.ByteSize() for event in events)
    )


def _does_not_replay(execution: ExecutionRef, keeper: Keeper, failure: Exception | None) -> DoesNotReplay:
    reason = failure_message(str(failure))
    reached = keeper.workflow.reached if keeper.workflow is not None else 1
    event_id = named_event(reason) or reached
    is_slow = isinstance(failure, TimeoutError) or names.DEADLOCK in reason
    kind = ReplayTooSlow if is_slow else DoesNotReplay
    return kind(execution.thread_id, execution.run_id, event_id=event_id, reason=reason)


def drop_all(kept: MutableMapping[str, ReplayedExecution]) -> None:
    """Evict all workflows, from any thread."""
    replayed = list(kept.values())
    kept.clear()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _drop(replayed)
    else:  # a workflow replaces the thread's event loop while it is activated
        thread = threading.Thread(target=_drop, args=(replayed,))
        thread.start()
        thread.join()


def _drop(replayed: list[ReplayedExecution]) -> None:
    for each in replayed:
        each.workflow.drop()
