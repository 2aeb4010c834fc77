"""Read a thread's earlier, closed execution, so that a new one can go on with its conversation and what it kept."""

from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError

from wakeful.contract.family import Keeps
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.names import ACTIVITY_RESTORE, QUERY_KEEPS, QUERY_TRANSCRIPT
from wakeful.contract.views import TranscriptPage
from wakeful.loop.carrying import TAIL_BYTES
from wakeful.loop.keeping import fitting, json_bytes
from wakeful.loop.transcript import Mark, Transcript

RESTORED_BYTES = 1_500_000
"""Of all that is read back: an activity that returned two megabytes would fail, and the thread with it."""

UTF8_BYTES = 4
"""A character's, at most."""

UNKNOWN_QUERY = f"Query handler for '{QUERY_KEEPS}' expected but not found"
"""How the SDK begins to say so; it has no type for it."""


class Restoring:
    """The `restore_thread` activity."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ACTIVITY_RESTORE)
    async def restore_thread(self, input: RestoreInput) -> TranscriptTail:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None  # our activities are always scheduled by a workflow
        handle = self._client.get_workflow_handle(workflow_id, run_id=input.run_id)
        transcript, after = Transcript(), 0
        while True:
            try:
                page: TranscriptPage = await handle.query(
                    QUERY_TRANSCRIPT, {"after": after}, result_type=TranscriptPage
                )
            except WorkflowQueryFailedError as error:
                reason = f"the earlier execution {input.run_id} cannot be read: {error}"
                raise ApplicationError(reason, type="NotRestorable", non_retryable=True) from error
            if page.earlier is not None:
                place = Mark(page.earlier.through, page.earlier.digest or "")
                transcript = Transcript(digest=place.digest, before=place)
            for message in page.messages:
                transcript = transcript.appending(message, message.id)
            if page.next is None:
                break
            after = page.next
        keeps = await _keeps(handle)
        room = max(0, RESTORED_BYTES - (json_bytes(keeps) if keeps else 0)) // UTF8_BYTES
        tail = transcript.sent().tail(min(TAIL_BYTES, room))
        return TranscriptTail(length=tail.before.length, digest=tail.before.digest, messages=tail.messages, keeps=keeps)


async def _keeps(handle: WorkflowHandle[Any, Any]) -> Keeps | None:
    """What it kept; an older worker that answers for it may not know the question, and knows of nothing to keep.

    Raises:
        WorkflowQueryFailedError: it cannot be told for now; the activity is tried again, since it must not be lost.
    """
    try:
        keeps: Keeps = await handle.query(QUERY_KEEPS, result_type=Keeps)
    except WorkflowQueryFailedError as error:
        if not error.message.startswith(UNKNOWN_QUERY):
            raise
        return None
    return fitting(keeps)
