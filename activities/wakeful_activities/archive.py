"""The `archive_thread` activity: write what a thread's execution leaves behind into archives, which stay open.

The messages and events come from the thread itself, by queries. It has just scheduled this activity, so a worker has
it in its cache; if none answers, its history is read.
"""

from datetime import timedelta
from functools import reduce
from typing import TypeVar

from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.deletion.delete import delete_thread
from wakeful.client.queries import query
from wakeful.contract.archive import ArchiveInput, ArchiveOutput, ExpireInput, ThreadClosed
from wakeful.contract.base import Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import InternalError, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.names import (
    ACTIVITY_ARCHIVE,
    ACTIVITY_EXPIRE,
    ACTIVITY_IS_OPEN,
    QUERY_CARRYOVER,
    QUERY_EVENTS,
    QUERY_TRANSCRIPT,
    SIGNAL_THREAD_CLOSED,
)
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.segments import SegmentRef, archived_events, archived_messages
from wakeful.contract.transcript import chained
from wakeful.contract.views import EventsPage, TranscriptPage
from wakeful.history.archive import ArchiveWriter, delete_execution, digest_before
from wakeful.history.decoder import ExecutionRef
from wakeful.history.reader import HistoryReader
from wakeful.storage import delete_stored

ANSWER_TIMEOUT = timedelta(seconds=2)
"""How long a worker may take to answer before the history is read instead."""

WAKE_TIME = timedelta(days=1)
"""How much longer than its retention a closed thread's archives are kept."""

DEFAULT_RETENTION = timedelta(days=30)
"""If the namespace does not say."""

V = TypeVar("V", bound=Wire)


class ArchiveActivity:
    """The activities of archives."""

    def __init__(self, client: Client, reader: HistoryReader) -> None:
        self._client = client
        self._reader = reader

    @activity.defn(name=ACTIVITY_ARCHIVE)
    async def archive_thread(self, input: ArchiveInput) -> ArchiveOutput:
        info = activity.info()
        assert info.workflow_id is not None  # our activities are always scheduled by a workflow
        thread = ExecutionRef(info.workflow_id, info.workflow_run_id or "")
        messages = await self._messages(thread, after=archived_messages(input.segments), through=input.messages)
        if reduce(chained, messages, digest_before(input.segments)) != input.digest:
            return ArchiveOutput(segments=())  # the thread was rolled back since
        events = await self._events(thread, after=archived_events(input.segments), through=input.events)
        carryover = await self._ask(thread, QUERY_CARRYOVER, Carryover)
        carryover = carryover.fitting() if input.closes else carryover.for_fork()
        writer = ArchiveWriter(self._client, thread.thread_id, task_queue=info.task_queue)
        written = await writer.write(
            input.segments,
            messages,
            events,
            carryover.model_copy(update={"segments": ()}),
            number=input.number,
            digest=digest_before(input.segments),
        )
        if input.closes:
            expired_run_id = thread.run_id if input.expired else None
            await self.release((*input.segments, *written), expired_run_id=expired_run_id)
        return ArchiveOutput(segments=written)

    @activity.defn(name=ACTIVITY_IS_OPEN)
    async def is_thread_open(self, thread_id: str) -> bool:
        described = await self._newest(thread_id)
        return described is not None and described.status is WorkflowExecutionStatus.RUNNING

    @activity.defn(name=ACTIVITY_EXPIRE)
    async def delete_expired_thread(self, input: ExpireInput) -> bool:
        """Delete the thread of an archive, and the archive last: while it is open, Temporal retries this activity."""
        info = activity.info()
        assert info.workflow_id is not None  # our activities are always scheduled by a workflow
        thread = await self._newest(input.thread_id)
        if thread is not None:  # else an earlier attempt has deleted it
            if thread.run_id != input.run_id:
                return False  # it was woken
            if thread.status is WorkflowExecutionStatus.RUNNING:
                raise ApplicationError("the thread is still closing", category=ApplicationErrorCategory.BENIGN)
            kept = await self._ask(ExecutionRef(input.thread_id, input.run_id), QUERY_CARRYOVER, Carryover)
            if kept.unread or kept.mail:
                return False
        receipt = await delete_thread(self._client, input.thread_id, spared=info.workflow_id)
        if receipt.remaining:
            raise ApplicationError(f"{receipt.remaining[0].id!r} is not deleted: {receipt.remaining[0].reason}")
        await delete_stored(self._client.data_converter, self._client.namespace, info.workflow_id)
        await delete_execution(self._client, info.workflow_id, info.workflow_run_id or "")
        return True

    async def release(self, segments: tuple[SegmentRef, ...], *, expired_run_id: str | None = None) -> None:
        """Signal the archives that their thread has closed: they complete once it cannot be woken any more.

        Args:
            expired_run_id: the execution in which the thread has expired: the last archive deletes the thread.
        """
        keep = await retention(self._client) + WAKE_TIME
        for ref in segments:
            expired = expired_run_id if ref == segments[-1] else None
            closed = ThreadClosed(keep_seconds=keep.total_seconds(), expired_run_id=expired)
            handle = self._client.get_workflow_handle(ref.archive_id, run_id=ref.run_id)
            try:
                await handle.signal(SIGNAL_THREAD_CLOSED, closed)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:  # else an operator has ended it
                    raise

    async def _newest(self, thread_id: str) -> WorkflowExecution | None:
        try:
            return await self._client.get_workflow_handle(thread_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    async def _messages(self, thread: ExecutionRef, *, after: int, through: int) -> list[Message]:
        """The messages between these numbers; fewer, if the thread was rolled back."""
        messages = list[Message]()
        while after < through:
            request = {"after": after, "limit": min(MAX_PAGE, through - after)}
            page = await self._ask(thread, QUERY_TRANSCRIPT, TranscriptPage, request)
            if not page.messages:
                break
            messages += page.messages
            after += len(page.messages)
        return messages

    async def _events(self, thread: ExecutionRef, *, after: int, through: int) -> list[EventRecord]:
        events = list[EventRecord]()
        while after < through:
            request = {"after": after, "limit": min(MAX_PAGE, through - after)}
            page = await self._ask(thread, QUERY_EVENTS, EventsPage, request)
            if page.last <= after:
                raise InternalError(f"thread {thread.thread_id!r} does not have its event number {after + 1}")
            events += page.events
            after = page.last
        return events

    async def _ask(self, thread: ExecutionRef, name: str, kind: type[V], argument: object = None) -> V:
        thread_id, run_id = thread.thread_id, thread.run_id
        try:
            return await query(self._client, thread_id, name, kind, argument, run_id=run_id, within=ANSWER_TIMEOUT)
        except WakefulError:
            return await self._reader.query(thread_id, name, kind, argument, run_id=run_id)


async def retention(client: Client) -> timedelta:
    """How long the namespace keeps closed executions."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    described = await client.workflow_service.describe_namespace(request)
    return described.config.workflow_execution_retention_ttl.ToTimedelta() or DEFAULT_RETENTION
