"""Write and read the archives of a thread: a segment of it is the start input of a `ThreadArchive` workflow.

Reading takes the first event of its history, so it needs no worker. `wakeful.contract.archive` says why there are
archives. The last archive, which a thread writes before it closes, has a fixed id: one call to the server finds it.
"""

import asyncio
import hashlib
import lzma
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from pydantic_core import to_json
from temporalio.api.common.v1 import WorkflowExecution as ExecutionProto
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import ids, names
from wakeful.contract.archive import SegmentContent, SegmentHeader
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import ArchiveMissing, ThreadNotFound
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.segments import SegmentRef, archived_events, archived_messages
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import describe_execution, error_of
from wakeful.storage import delete_stored
from wakeful.undecodable import decoding

SEGMENT_BYTES = 1_000_000
"""Of a segment's JSON. It stays under Temporal's limit of two megabytes even if it cannot be compressed."""

FILL = 0.8
"""How full segments are planned to be."""

MAX_KEPT = 16
"""Segments that a reader keeps in memory."""

COMPRESSION = 1
"""Of 0 to 9: higher levels take longer, and hardly save more."""

E = TypeVar("E", Message, EventRecord)


class ArchiveReader:
    """Reads the segments of threads of one namespace."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal
        self._kept: OrderedDict[tuple[str, str], SegmentContent] = OrderedDict()

    async def content(self, ref: SegmentRef) -> SegmentContent:
        """What a segment holds, without messages that were rolled back since.

        Raises:
            ArchiveMissing: the server does not have it any more.
        """
        key = (ref.archive_id, ref.run_id)
        if key not in self._kept:
            self._kept[key] = await read_segment(self._temporal, ref)
        self._kept.move_to_end(key)
        content = self._kept[key]
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        messages = content.messages[: ref.messages - ref.first_message]
        return content.model_copy(update={"messages": messages})

    async def messages(self, segments: Sequence[SegmentRef], *, after: int, through: int) -> list[Message]:
        """The messages after number `after`, up to number `through`, as far as these segments hold them."""
        found = list[Message]()
        for ref in segments:
            held = (await self.content(ref)).messages
            found += held[max(0, after - ref.first_message) : max(0, through - ref.first_message)]
        return found

    async def events(self, segments: Sequence[SegmentRef], *, after: int) -> list[EventRecord]:
        """The events after number `after` that these segments hold."""
        return [record for ref in segments for record in (await self.content(ref)).events if record.seq > after]


async def read_segment(temporal: Client, ref: SegmentRef) -> SegmentContent:
    """What a segment holds.

    Raises:
        ArchiveMissing: the server does not have it any more.
    """
    return await _read(temporal, ref.archive_id, ref.run_id)


async def read_last_archive(temporal: Client, thread_id: str, run_id: str | None = None) -> SegmentContent:
    """What a thread archived as its last act; without `run_id`, when it closed last.

    Raises:
        ArchiveMissing: the server does not have it.
    """
    return await _read(temporal, ids.last_archive_id(thread_id), run_id)


async def _read(temporal: Client, archive_id: str, run_id: str | None) -> SegmentContent:
    handle = temporal.get_workflow_handle(archive_id, run_id=run_id)
    try:
        async for event in handle.fetch_history_events(page_size=1):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            with decoding(temporal.data_converter, f"archive {archive_id!r}"):
                _, content = await temporal.data_converter.decode(payloads, [SegmentHeader, bytes])
            return await asyncio.to_thread(_expanded, content)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, archive_id) from error
    raise ArchiveMissing(ids.archived_thread_id(archive_id), archive_id)


def _expanded(content: bytes) -> SegmentContent:
    return SegmentContent.model_validate_json(lzma.decompress(content))


def _compressed(content: SegmentContent) -> bytes:
    return lzma.compress(to_json(content), preset=COMPRESSION)


class ArchiveWriter:
    """Writes the archives of one thread."""

    def __init__(self, temporal: Client, thread_id: str, *, task_queue: str) -> None:
        self._temporal = temporal
        self._thread_id = thread_id
        self._task_queue = task_queue

    async def write(
        self,
        segments: tuple[SegmentRef, ...],
        messages: Sequence[Message],
        events: Sequence[EventRecord],
        carryover: Carryover | None = None,
        *,
        number: int,
    ) -> tuple[SegmentRef, ...]:
        """The references to new segments that continue `segments` with these messages and events.

        Writing the same again has no effect.

        Args:
            carryover: what a fork of these messages starts with.
            number: how often the thread has been archived.

        Raises:
            ThreadNotFound: the thread was deleted meanwhile; nothing stays of what was written.
        """
        digest, written = digest_before(segments), list[SegmentRef]()
        try:
            for part in segments_of(messages, events, carryover):
                digest = reduce(chained, part.messages, digest)
                header = self._header((*segments, *written), part)
                # Without the carryover, which an attempt that is repeated may find changed.
                named = to_json(part.model_copy(update={"carryover": None}))
                identity = hashlib.sha256(to_json(header) + named).hexdigest()[:12]
                archive_id = ids.archive_id(self._thread_id, number, identity)
                run_id = await self._start(archive_id, header, part)
                place = header.model_dump(exclude={"thread_id"})
                written.append(SegmentRef(archive_id=archive_id, run_id=run_id, digest=digest, **place))
        finally:  # also if the activity that writes is cancelled, because its thread was deleted
            await self._check_exists({ref.archive_id: ref.run_id for ref in written})
        return tuple(written)

    async def write_last(
        self,
        segments: tuple[SegmentRef, ...],
        messages: Sequence[Message],
        events: Sequence[EventRecord],
        carryover: Carryover,
        *,
        closed_run_id: str,
    ) -> str:
        """Write the last archive of a thread that closes, and return its run id; an earlier one ends.

        No execution of the thread needs the earlier one: what it held came with the result of `restore_thread`.

        Raises:
            ThreadNotFound: the thread was deleted meanwhile; nothing stays of what was written.
        """
        kept = carryover.model_copy(update={"segments": segments})
        content = SegmentContent(
            messages=tuple(messages), events=tuple(events), carryover=kept, closed_run_id=closed_run_id
        )
        archive_id = ids.last_archive_id(self._thread_id)
        run_id = await self._start(
            archive_id, self._header(segments, content), content, WorkflowIDConflictPolicy.TERMINATE_EXISTING
        )
        await self._check_exists({archive_id: run_id})
        return run_id

    def _header(self, segments: tuple[SegmentRef, ...], part: SegmentContent) -> SegmentHeader:
        """The place of a part that follows these segments."""
        first_message, first_event = archived_messages(segments), archived_events(segments)
        return SegmentHeader(
            thread_id=self._thread_id,
            first_message=first_message,
            messages=first_message + len(part.messages),
            first_event=first_event,
            events=part.events[-1].seq if part.events else first_event,
        )

    async def _check_exists(self, written: Mapping[str, str]) -> None:
        """Undo the writing if the thread was deleted meanwhile: the deletion may not have found these archives."""
        try:
            if await describe_execution(self._temporal, self._thread_id) is not None:
                return
        except RPCError as error:
            raise error_of(error, self._thread_id) from error
        for archive_id, run_id in written.items():
            await delete_execution(self._temporal, archive_id, run_id)
            await delete_stored(self._temporal.data_converter, self._temporal.namespace, archive_id)
        raise ThreadNotFound(self._thread_id)

    async def _start(
        self,
        archive_id: str,
        header: SegmentHeader,
        part: SegmentContent,
        conflict_policy: WorkflowIDConflictPolicy = WorkflowIDConflictPolicy.USE_EXISTING,
    ) -> str:
        content = await asyncio.to_thread(_compressed, part)
        try:
            handle = await self._temporal.start_workflow(
                names.WORKFLOW_ARCHIVE,
                args=[header, content],
                id=archive_id,
                task_queue=self._task_queue,
                id_conflict_policy=conflict_policy,
                static_summary=f"messages {header.first_message + 1} to {header.messages} of {self._thread_id}",
            )
        except RPCError as error:
            raise error_of(error, archive_id) from error
        assert handle.result_run_id is not None  # the server has just named it
        return handle.result_run_id


def segments_of(
    messages: Sequence[Message], events: Sequence[EventRecord], carryover: Carryover | None
) -> list[SegmentContent]:
    """Everything in segments that fit; the last one has the carryover.

    Events repeat what messages say. They compress well together, so a segment has the events of about the same time;
    only where that would be too large are they apart.
    """
    parts = [part for part in _together(messages, events, carryover) if part != SegmentContent()] or [SegmentContent()]
    if max(len(to_json(part)) for part in parts) <= SEGMENT_BYTES:
        return parts
    return list(_apart(messages, events, carryover))


def _together(
    messages: Sequence[Message], events: Sequence[EventRecord], carryover: Carryover | None
) -> list[SegmentContent]:
    total = sum(len(to_json(entry)) for entry in (*messages, *events, carryover) if entry is not None)
    number = math.ceil(total / (SEGMENT_BYTES * FILL)) or 1
    slices = list(zip(_sliced(messages, number), _sliced(events, number), strict=True))
    return [
        SegmentContent(messages=said, events=shown, carryover=carryover if part == number else None)
        for part, (said, shown) in enumerate(slices, start=1)
    ]


def _sliced(entries: Sequence[E], number: int) -> list[tuple[E, ...]]:
    """So many slices of about the same size."""
    slices: list[list[E]] = [[] for _ in range(number)]
    sizes = [len(to_json(entry)) for entry in entries]
    before, total = 0, sum(sizes)
    for entry, size in zip(entries, sizes, strict=True):
        slices[min(number - 1, before * number // total)].append(entry)
        before += size
    return [tuple(found) for found in slices]


def _apart(
    messages: Sequence[Message], events: Sequence[EventRecord], carryover: Carryover | None
) -> Iterator[SegmentContent]:
    """Messages first, then events; one that does not fit has a segment of its own."""
    part_messages, part_events = list[Message](), list[EventRecord]()
    size = 0
    for entry in (*messages, *events, carryover):
        if entry is None:
            continue
        added = len(to_json(entry))
        if size and size + added > SEGMENT_BYTES:
            yield SegmentContent(messages=tuple(part_messages), events=tuple(part_events))
            part_messages, part_events, size = [], [], 0
        size += added
        if isinstance(entry, Message):
            part_messages.append(entry)
        elif isinstance(entry, EventRecord):
            part_events.append(entry)
    yield SegmentContent(messages=tuple(part_messages), events=tuple(part_events), carryover=carryover)


async def last_archive(temporal: Client, thread_id: str) -> WorkflowExecution | None:
    """The archive that the thread wrote when it closed last, if it is open."""
    archive_id = ids.last_archive_id(thread_id)
    try:
        described = await describe_execution(temporal, archive_id)
    except RPCError as error:
        raise error_of(error, archive_id) from error
    return described if described is not None and described.status is WorkflowExecutionStatus.RUNNING else None


async def open_archives(temporal: Client, thread_id: str) -> AsyncIterator[WorkflowExecution]:
    """The last archive of a thread, and its others as far as visibility lists them."""
    if (last := await last_archive(temporal, thread_id)) is not None:
        yield last
    prefix = ids.archive_prefix(thread_id)
    listed = temporal.list_workflows(
        f"WorkflowType = '{names.WORKFLOW_ARCHIVE}' AND ExecutionStatus = 'Running'"
        f" AND WorkflowId STARTS_WITH {quoted(prefix)}"
    )
    try:
        async for archive in listed:
            if ids.archived_thread_id(archive.id) == thread_id and archive.id != ids.last_archive_id(thread_id):
                yield archive
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def end_archive(temporal: Client, archive: WorkflowExecution, *, reason: str) -> None:
    """Terminate an archive that no thread needs any more."""
    try:
        await temporal.get_workflow_handle(archive.id, run_id=archive.run_id).terminate(reason=reason)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # else it has completed
            raise error_of(error, archive.id) from error


async def delete_execution(temporal: Client, workflow_id: str, run_id: str) -> None:
    """Have the server delete an execution, in the background; it terminates one that is open.

    Raises:
        RPCError: the server does not have it, or refused.
    """
    execution = ExecutionProto(workflow_id=workflow_id, run_id=run_id)
    request = DeleteWorkflowExecutionRequest(namespace=temporal.namespace, workflow_execution=execution)
    await temporal.workflow_service.delete_workflow_execution(request)


def digest_before(segments: tuple[SegmentRef, ...]) -> str:
    """The digest of all messages that these segments hold."""
    return segments[-1].digest if segments else EMPTY_DIGEST
