"""Read an execution, so that a new one can go on with its conversation and what it kept.

A thread that is woken goes on from its own closed execution, and a fork from a place in another thread, open or closed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError

from wakeful.contract.carryover import Carryover, json_bytes
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.names import ACTIVITY_RESTORE, QUERY_CARRYOVER, QUERY_FORK_POINT, QUERY_TRANSCRIPT
from wakeful.contract.requests import ForkPointRequest, PageRequest
from wakeful.contract.views import ForkPointView, TranscriptPage
from wakeful.history.latest_execution import latest_started
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

Handle = WorkflowHandle[Any, Any]
V = TypeVar("V", ForkPointView, TranscriptPage)

RESTORED_BYTES = 1_500_000
"""Of all that is read back: an activity that returned two megabytes would fail, and the thread with it."""

UTF8_BYTES = 4
"""A character's, at most."""

UNKNOWN_QUERY = f"Query handler for '{QUERY_CARRYOVER}' expected but not found"
"""How the SDK begins to say so; it has no type for it."""


class RestoreActivity:
    """The `restore_thread` activity."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ACTIVITY_RESTORE)
    async def restore_thread(self, input: RestoreInput) -> TranscriptTail:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None  # our activities are always scheduled by a workflow
        handle = self._client.get_workflow_handle(input.thread_id or workflow_id, run_id=input.run_id)
        if input.messages is not None:
            return await _unless_stopped(
                self._forked(handle, ForkPointRequest(messages=input.messages, digest=input.digest))
            )
        return await _unless_stopped(self._woken(workflow_id, input.run_id))

    async def _woken(self, thread_id: str, run_id: str) -> TranscriptTail:
        """The thread as it was at the end of this execution, or of the one before, if this one never began."""
        start = await latest_started(self._client, thread_id, run_id)
        closed = self._client.get_workflow_handle(thread_id, run_id=start.run_id)
        return _tail(await _transcript(closed), await _keeps(closed))

    async def _forked(self, origin: Handle, place: ForkPointRequest) -> TranscriptTail:
        """The origin as it was after so many messages, read from whichever execution has that place."""
        while True:
            point: ForkPointView = await _query(origin, QUERY_FORK_POINT, place, ForkPointView)
            if point.earlier is None:
                break
            thread_id = point.earlier.thread_id or origin.id
            origin = self._client.get_workflow_handle(thread_id, run_id=point.earlier.run_id)
        transcript = await _transcript(origin, through=place.messages)
        mark = TranscriptPosition(place.messages, place.digest or point.digest)
        if point.carryover is None or not transcript.position == mark == TranscriptPosition(
            point.messages, point.digest
        ):
            reason = f"the conversation has no step that ends after these {place.messages} messages any more"
            raise _unreadable(origin, reason)
        # The request says who answers.
        return _tail(transcript, point.carryover.model_copy(update={"agent_id": None}))


async def _unless_stopped(reading: Coroutine[Any, Any, TranscriptTail]) -> TranscriptTail:
    """What is read, by another worker if this one stops: it would wait for an answer that only itself could give."""
    read = asyncio.create_task(reading)
    stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait({read, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not read.done():
            raise ApplicationError("the worker stops", type="WorkerStops")
        return read.result()
    finally:
        read.cancel()
        stopping.cancel()


async def _transcript(handle: Handle, *, through: int | None = None) -> Transcript:
    """The newest part of an execution's conversation that it has itself, up to number `through`."""
    transcript, after = Transcript(), 0
    while through is None or transcript.length < through:
        page = await _query(handle, QUERY_TRANSCRIPT, PageRequest(after=after), TranscriptPage)
        if page.restoring:
            raise _unreadable(handle, "it was closed before it had read what it goes on from")
        if page.earlier is not None:
            place = TranscriptPosition(page.earlier.through, page.earlier.digest or "")
            transcript = Transcript(digest=place.digest, before=place)
        room = len(page.messages) if through is None else max(0, through - transcript.length)
        for message in page.messages[:room]:
            transcript = transcript.appending(message, message.id)
        if page.next is None:
            break
        after = page.next
    return transcript.sent()


def _tail(transcript: Transcript, carryover: Carryover | None) -> TranscriptTail:
    """As much of it as can be handed on together with what is kept."""
    room = max(0, RESTORED_BYTES - (json_bytes(carryover) if carryover else 0)) // UTF8_BYTES
    tail = transcript.tail(min(TAIL_BYTES, room))
    return TranscriptTail(
        length=tail.before.length, digest=tail.before.digest, messages=tail.messages, carryover=carryover
    )


async def _query(handle: Handle, name: str, asked: PageRequest | ForkPointRequest, kind: type[V]) -> V:
    try:
        answer: V = await handle.query(name, asked, result_type=kind)
    except WorkflowQueryFailedError as error:
        raise _unreadable(handle, str(error)) from error
    return answer


def _unreadable(handle: Handle, why: str) -> ApplicationError:
    reason = f"the earlier execution {handle.run_id} cannot be read: {why}"
    return ApplicationError(reason, type="NotRestorable", non_retryable=True)


async def _keeps(handle: Handle) -> Carryover | None:
    """What it kept; an older worker that answers for it may not know the question, and knows of nothing to keep.

    Raises:
        WorkflowQueryFailedError: it cannot be told for now; the activity is tried again, since it must not be lost.
    """
    try:
        carryover: Carryover = await handle.query(QUERY_CARRYOVER, result_type=Carryover)
    except WorkflowQueryFailedError as error:
        if not error.message.startswith(UNKNOWN_QUERY):
            raise
        return None
    return carryover.fitting()
