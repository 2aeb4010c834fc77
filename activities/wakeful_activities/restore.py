"""The `restore_thread` activity: read the conversation and the carryover that a new execution continues from.

A woken thread continues from its own closed execution, a fork from a step of another thread, open or closed.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError

from wakeful.client.queries import ask
from wakeful.contract.base import Wire
from wakeful.contract.carryover import Carryover, json_bytes
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.names import ACTIVITY_RESTORE, QUERY_CARRYOVER, QUERY_FORK_POINT, QUERY_TRANSCRIPT
from wakeful.contract.requests import ForkPointRequest, PageRequest
from wakeful.contract.views import ForkPointView, TranscriptPage
from wakeful.history.latest_execution import latest_started
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

V = TypeVar("V", bound=Wire)

RESTORED_BYTES = 1_500_000
"""Of the activity's result: Temporal fails an activity that returns two megabytes."""

UTF8_BYTES = 4
"""Of one character, at most."""


@dataclass(frozen=True)
class _Execution:
    """An execution that is queried; if it was terminated with events that no worker has handled, history answers."""

    client: Client
    thread_id: str
    run_id: str

    async def query(self, name: str, kind: type[V], argument: object = None) -> V:
        return await ask(self.client, self.thread_id, name, kind, argument, run_id=self.run_id)


class RestoreActivity:
    """The `restore_thread` activity."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ACTIVITY_RESTORE)
    async def restore_thread(self, input: RestoreInput) -> TranscriptTail:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None  # our activities are always scheduled by a workflow
        execution = _Execution(self._client, input.thread_id or workflow_id, input.run_id)
        if input.messages is not None:
            fork_point = ForkPointRequest(messages=input.messages, digest=input.digest)
            return await _unless_shut_down(self._read_fork_point(execution, fork_point))
        return await _unless_shut_down(self._read_closed(workflow_id, input.run_id))

    async def _read_closed(self, thread_id: str, run_id: str) -> TranscriptTail:
        """The thread at the end of this execution, or of its predecessor, if this one never started."""
        start = await latest_started(self._client, thread_id, run_id)
        closed = _Execution(self._client, thread_id, start.run_id)
        return _tail(await _read_transcript(closed), await _read_carryover(closed))

    async def _read_fork_point(self, origin: _Execution, request: ForkPointRequest) -> TranscriptTail:
        """The origin after its first messages, read from the execution that has them."""
        while True:
            point = await _query(origin, QUERY_FORK_POINT, request, ForkPointView)
            if point.earlier is None:
                break
            origin = _Execution(self._client, point.earlier.thread_id or origin.thread_id, point.earlier.run_id)
        transcript = await _read_transcript(origin, through=request.messages)
        wanted = TranscriptPosition(request.messages, request.digest or point.digest)
        found = TranscriptPosition(point.messages, point.digest)
        if point.carryover is None or not transcript.position == wanted == found:
            reason = f"no step of the conversation ends after {request.messages} messages any more"
            raise _not_restorable(origin, reason)
        # The fork's own request names the agent that answers.
        return _tail(transcript, point.carryover.model_copy(update={"agent_id": None}))


async def _unless_shut_down(reading: Coroutine[Any, Any, TranscriptTail]) -> TranscriptTail:
    """Give up when this worker shuts down: without another worker, only it could answer its own queries."""
    read = asyncio.create_task(reading)
    shutdown = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait({read, shutdown}, return_when=asyncio.FIRST_COMPLETED)
        if not read.done():
            raise ApplicationError("the worker is shutting down", type="WorkerShutdown")
        return read.result()
    finally:
        read.cancel()
        shutdown.cancel()


async def _read_transcript(execution: _Execution, *, through: int | None = None) -> Transcript:
    """The newest part of the conversation, which this execution has itself, up to entry number `through`."""
    transcript, after = Transcript(), 0
    while through is None or transcript.length < through:
        page = await _query(execution, QUERY_TRANSCRIPT, PageRequest(after=after), TranscriptPage)
        if page.restoring:
            raise _not_restorable(execution, "it was closed before it was restored itself")
        if page.earlier is not None:
            start = TranscriptPosition(page.earlier.through, page.earlier.digest or "")
            transcript = Transcript(digest=start.digest, before=start)
        room = len(page.messages) if through is None else max(0, through - transcript.length)
        for message in page.messages[:room]:
            transcript = transcript.appending(message, message.id)
        if page.next is None:
            break
        after = page.next
    return transcript.sent()


async def _read_carryover(execution: _Execution) -> Carryover:
    """What the closed execution passes on.

    Raises:
        WorkflowQueryFailedError: the query failed; Temporal retries the activity, since a carryover must not be lost.
    """
    carryover = await execution.query(QUERY_CARRYOVER, Carryover)
    return carryover.fitting()


def _tail(transcript: Transcript, carryover: Carryover) -> TranscriptTail:
    """As much of the transcript as fits beside the carryover."""
    room = max(0, RESTORED_BYTES - json_bytes(carryover)) // UTF8_BYTES
    tail = transcript.tail(min(TAIL_BYTES, room))
    return TranscriptTail(
        length=tail.before.length, digest=tail.before.digest, messages=tail.messages, carryover=carryover
    )


async def _query(execution: _Execution, name: str, request: PageRequest | ForkPointRequest, kind: type[V]) -> V:
    try:
        return await execution.query(name, kind, request)
    except WorkflowQueryFailedError as error:
        raise _not_restorable(execution, str(error)) from error


def _not_restorable(execution: _Execution, why: str) -> ApplicationError:
    message = f"the earlier execution {execution.run_id!r} cannot be restored: {why}"
    return ApplicationError(message, type="NotRestorable", non_retryable=True)
