"""The `restore_thread` activity: read the conversation and the carryover that a new execution continues from.

A woken thread continues from its own closed execution, a fork from a step of another thread, open or closed. Both are
read from history, up to the last completed workflow task: a query would also show what a task that was never completed
would have done, such as background tasks that were never started.
"""

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.client.read_or_ask import read_or_ask
from wakeful.contract.carryover import Carryover, json_bytes
from wakeful.contract.ids import interrupted_message_id
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.names import (
    ACTIVITY_RESTORE,
    QUERY_CARRYOVER,
    QUERY_FORK_POINT,
    QUERY_TRANSCRIPT,
    TOOL_INTERRUPTED,
)
from wakeful.contract.requests import ForkPointRequest, PageRequest
from wakeful.contract.tools import ToolResult
from wakeful.contract.transcript import tool_message
from wakeful.contract.views import ForkPointView, TranscriptPage
from wakeful.history.decoder import ExecutionRef
from wakeful.history.latest_execution import latest_started
from wakeful.history.reader import HistoryReader
from wakeful.loop.thread.continue_as_new import TAIL_BYTES
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

RESTORED_BYTES = 1_500_000
"""Of the activity's result: Temporal fails an activity that returns two megabytes."""

UTF8_BYTES = 4
"""Of one character, at most."""


class RestoreActivity:
    """The `restore_thread` activity."""

    def __init__(self, client: Client, reader: HistoryReader) -> None:
        self._client = client
        self._reader = reader

    @activity.defn(name=ACTIVITY_RESTORE)
    async def restore_thread(self, input: RestoreInput) -> TranscriptTail:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None  # our activities are always scheduled by a workflow
        if input.messages is None:
            return await self._read_closed(workflow_id, input.run_id)
        fork_point = ForkPointRequest(messages=input.messages, digest=input.digest)
        return await self._read_fork_point(ExecutionRef(input.thread_id or workflow_id, input.run_id), fork_point)

    async def _read_closed(self, thread_id: str, run_id: str) -> TranscriptTail:
        """The thread at the end of this execution, or of its predecessor, if this one never started."""
        start = await latest_started(self._client, thread_id, run_id)
        closed = ExecutionRef(thread_id, start.run_id)
        if not start.has_started:
            raise _not_restorable(closed, "it never started")
        transcript = _with_interrupted_calls(await self._read_transcript(closed))
        carryover = await read_or_ask(self._reader, thread_id, QUERY_CARRYOVER, Carryover, run_id=start.run_id)
        return _tail(transcript, carryover.fitting())

    async def _read_fork_point(self, origin: ExecutionRef, request: ForkPointRequest) -> TranscriptTail:
        """The origin after its first messages, read from the execution that has them."""
        while True:
            thread_id, run_id = origin.thread_id, origin.run_id
            point = await read_or_ask(self._reader, thread_id, QUERY_FORK_POINT, ForkPointView, request, run_id=run_id)
            if point.earlier is None:
                break
            origin = ExecutionRef(point.earlier.thread_id or origin.thread_id, point.earlier.run_id)
        transcript = await self._read_transcript(origin, through=request.messages)
        wanted = TranscriptPosition(request.messages, request.digest or point.digest)
        found = TranscriptPosition(point.messages, point.digest)
        if point.carryover is None or not transcript.position == wanted == found:
            reason = f"no step of the conversation ends after {request.messages} messages any more"
            raise _not_restorable(origin, reason)
        # The fork's own request names the agent that answers.
        return _tail(transcript, point.carryover.model_copy(update={"agent_id": None}))

    async def _read_transcript(self, execution: ExecutionRef, *, through: int | None = None) -> Transcript:
        """The newest part of the conversation, which this execution has itself, up to entry number `through`."""
        thread_id, run_id = execution.thread_id, execution.run_id
        transcript, after = Transcript(), 0
        while through is None or transcript.length < through:
            request = PageRequest(after=after)
            page = await read_or_ask(self._reader, thread_id, QUERY_TRANSCRIPT, TranscriptPage, request, run_id=run_id)
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


def _with_interrupted_calls(transcript: Transcript) -> Transcript:
    """A result for every call that was under way when the execution was terminated: no provider accepts one without."""
    messages = transcript.messages
    answered = {message.tool_call_id for message in messages}
    for call in [call for message in messages for call in message.tool_calls if call.id not in answered]:
        result = ToolResult.error(call.name, TOOL_INTERRUPTED)
        message = tool_message(call.id, result, id=interrupted_message_id(call.id))
        transcript = transcript.appending(message, message.id)
    return transcript.sent()


def _tail(transcript: Transcript, carryover: Carryover) -> TranscriptTail:
    """As much of the transcript as fits beside the carryover."""
    room = max(0, RESTORED_BYTES - json_bytes(carryover)) // UTF8_BYTES
    tail = transcript.tail(min(TAIL_BYTES, room))
    return TranscriptTail(
        length=tail.before.length, digest=tail.before.digest, messages=tail.messages, carryover=carryover
    )


def _not_restorable(execution: ExecutionRef, why: str) -> ApplicationError:
    message = f"the earlier execution {execution.run_id!r} cannot be restored: {why}"
    return ApplicationError(message, type="NotRestorable", non_retryable=True)
