"""Which execution of a thread has its conversation: the newest that really began.

One that was closed before its first workflow task was done, or while it still read what it goes on from, has nothing of
the thread: all that was said and kept stands in the execution before it. Read from history alone: no worker is needed.
"""

from dataclasses import dataclass

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.contract.errors import CallerError, ThreadNotFound
from wakeful.contract.names import ACTIVITY_RESTORE, CARRIED
from wakeful.contract.requests import RunRequest, parse_request
from wakeful.rpc_errors import translated

FIRST_EVENTS = 50
"""An execution begins with its first events, however long it gets."""


@dataclass
class Start:
    """How an execution of a thread was started, and whether anything came of it."""

    run_id: str
    has_begun: bool = False
    """It has taken in what it goes on from, if there is anything, and done its first workflow task with it."""
    earlier: str | None = None
    """The execution of the same thread that it goes on from."""
    request: RunRequest | None = None
    """Not there if it goes on with a carried state, or if the request was not understood."""


async def begun(temporal: Client, thread_id: str, run_id: str) -> Start:
    """The newest execution of a thread that began, from this one back; the first that is left, if none did.

    Raises:
        ThreadNotFound: there is no such execution.
    """
    start = await _read(temporal, thread_id, run_id)
    while not start.has_begun and start.earlier is not None:
        try:
            start = await _read(temporal, thread_id, start.earlier)
        except ThreadNotFound:  # so old that the server has deleted it
            break
    return start


async def begun_before(temporal: Client, thread_id: str, run_id: str) -> str | None:
    """The execution that has the conversation of this one, which never began; None if it did, or none is left.

    Raises:
        ThreadNotFound: there is no such execution.
    """
    start = await begun(temporal, thread_id, run_id)
    return start.run_id if start.has_begun and start.run_id != run_id else None


async def _read(temporal: Client, thread_id: str, run_id: str) -> Start:
    reader = _Reader(temporal, run_id)
    handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
    try:
        async for event in handle.fetch_history_events(page_size=FIRST_EVENTS):
            await reader.read(event)
            if reader.start.has_begun:
                break
    except RPCError as error:
        raise translated(error, thread_id) from error
    return reader.start


class _Reader:
    """Reads the first events of an execution."""

    def __init__(self, temporal: Client, run_id: str) -> None:
        self._temporal = temporal
        self._is_understood = False
        self._is_restored = True
        self._restoring = 0
        self.start = Start(run_id)

    async def read(self, event: HistoryEvent) -> None:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                self.start.earlier = started.continued_execution_run_id or None
                self._take(await self._json(started.input))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                if event.activity_task_scheduled_event_attributes.activity_type.name == ACTIVITY_RESTORE:
                    self._restoring = event.event_id
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                ended = event.activity_task_completed_event_attributes.scheduled_event_id
                self._is_restored |= ended == self._restoring
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                self.start.has_begun = self._is_understood and self._is_restored
            case _:
                pass

    def _take(self, given: object) -> None:
        if isinstance(given, dict) and CARRIED in given:
            self._is_understood = True
            return
        try:
            self.start.request = request = parse_request(given)
        except CallerError:
            return  # it has failed with that
        self._is_understood = True
        self._is_restored = request.fork is None and request.restore_from is None
        self.start.earlier = request.restore_from or self.start.earlier

    async def _json(self, payloads: Payloads) -> object:
        decoded = await self._temporal.data_converter.decode(payloads.payloads)
        return decoded[0] if decoded else None
