"""The `archive_thread` activity: write what a thread's execution leaves behind into archives, which stay open.

The messages and events come from the thread itself, by queries. It has just scheduled this activity, so a worker has
it in its cache; if none answers, its history is read.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import reduce
from typing import TypeVar

from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.deletion.delete import delete_thread
from wakeful.client.queries import query
from wakeful.contract import ids
from wakeful.contract.archive import ArchivedThread, ArchiveInput, ArchiveOutput, ExpireInput, ThreadClosed
from wakeful.contract.base import Wire, json_bytes
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import InternalError, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.names import (
    ACTIVITY_ARCHIVE,
    ACTIVITY_CHECK_THREAD,
    ACTIVITY_EXPIRE,
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
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful.rpc_errors import describe_execution
from wakeful.storage import delete_stored
from wakeful_activities.heartbeats import heartbeating

ANSWER_TIMEOUT = timedelta(seconds=2)
"""How long a worker may take to answer before the history is read instead."""

WAKE_TIME = timedelta(days=1)
"""How much longer than its retention a closed thread's archives are kept."""

MAX_CONCURRENT_SIGNALS = 16

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
        with heartbeating():
            return await self._archive(input)

    async def _archive(self, input: ArchiveInput) -> ArchiveOutput:
        info = activity.info()
        assert info.workflow_id is not None  # our activities are always scheduled by a workflow
        thread = ExecutionRef(info.workflow_id, info.workflow_run_id or "")
        messages = await self._messages(thread, after=archived_messages(input.segments), through=input.messages)
        if reduce(chained, messages, digest_before(input.segments)) != input.digest:
            return ArchiveOutput(segments=())  # the thread was rolled back since
        events = await self._events(thread, after=archived_events(input.segments), through=input.events)
        carryover = await self._ask(thread, QUERY_CARRYOVER, Carryover)
        writer = ArchiveWriter(self._client, thread.thread_id, task_queue=info.task_queue)
        written = tuple[SegmentRef, ...]()
        if not input.closes or sum(map(json_bytes, (*messages, *events))) > TAIL_BYTES:
            written = await writer.write(input.segments, messages, events, carryover.for_fork(), number=input.number)
            messages, events = [], []
        if not input.closes:
            return ArchiveOutput(segments=written)
        segments = (*input.segments, *written)
        run_id = await writer.write_last(segments, messages, events, carryover.fitting(), closed_run_id=thread.run_id)
        archives = {ref.archive_id: ref.run_id for ref in segments} | {ids.last_archive_id(thread.thread_id): run_id}
        await self._release(archives, thread.run_id, input)
        return ArchiveOutput(segments=written, last_run_id=run_id)

    @activity.defn(name=ACTIVITY_CHECK_THREAD)
    async def check_archived_thread(self, thread_id: str) -> ArchivedThread:
        """Whether the thread is open, or can still be woken."""
        described = await describe_execution(self._client, thread_id)
        if described is None:
            return ArchivedThread(is_open=False)
        if described.status is WorkflowExecutionStatus.RUNNING or described.close_time is None:
            return ArchivedThread(is_open=True)
        # By the server's clock, which has the time of the close, too.
        left = described.close_time + await keep_time(self._client) - activity.info().started_time
        return ArchivedThread(is_open=False, keep_seconds=max(0.0, left.total_seconds()))

    @activity.defn(name=ACTIVITY_EXPIRE)
    async def delete_expired_thread(self, input: ExpireInput) -> bool:
        """Delete the thread of an archive, and the archive last: while it is open, Temporal retries this activity."""
        with heartbeating():
            return await self._delete_expired(input)

    async def _delete_expired(self, input: ExpireInput) -> bool:
        info = activity.info()
        assert info.workflow_id is not None  # our activities are always scheduled by a workflow
        thread = await describe_execution(self._client, input.thread_id)
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

    async def _release(self, archives: Mapping[str, str], closed_run_id: str, input: ArchiveInput) -> None:
        """Signal the archives that their thread has closed: they complete once it cannot be woken any more.

        Args:
            archives: their ids and Temporal's run ids, the last archive at the end: it deletes a thread that has
                expired, and wakes one to which messages came after the close.
            closed_run_id: the execution that closes.
        """
        closed = ThreadClosed(keep_seconds=(await keep_time(self._client)).total_seconds())
        of_last = {
            "expired_run_id": closed_run_id if input.expired else None,
            "late_run_id": closed_run_id if input.wakes else None,
        }
        *_, last = archives
        limit = asyncio.Semaphore(MAX_CONCURRENT_SIGNALS)

        async def signal(archive_id: str, run_id: str) -> None:
            said = closed.model_copy(update=of_last) if archive_id == last else closed
            async with limit:
                with ignoring_closed():  # an operator may have ended it
                    await self._client.get_workflow_handle(archive_id, run_id=run_id).signal(SIGNAL_THREAD_CLOSED, said)

        await asyncio.gather(*(signal(archive_id, run_id) for archive_id, run_id in archives.items()))

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


@contextmanager
def ignoring_closed() -> Iterator[None]:
    """An archive that has closed needs nothing any more."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def keep_time(client: Client) -> timedelta:
    """How long the archives of a closed thread are kept: a little longer than the namespace keeps the thread."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    described = await client.workflow_service.describe_namespace(request)
    return (described.config.workflow_execution_retention_ttl.ToTimedelta() or DEFAULT_RETENTION) + WAKE_TIME
