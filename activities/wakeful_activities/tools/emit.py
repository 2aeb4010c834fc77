"""Signal the events of a background task to its owner: in order, and all of them before the task's call has ended."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from datetime import timedelta

from pydantic import JsonValue
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.contract.ids import task_event_id
from wakeful.contract.mail import TaskEvent
from wakeful.contract.names import SIGNAL_DELIVER
from wakeful.contract.runs import TaskRef
from wakeful.rpc_errors import RETRYABLE
from wakeful.telemetry.log_causes import log_failure

_logger = logging.getLogger("wakeful")

ATTEMPTS = 4
FIRST_BACKOFF_SECONDS = 0.25
RPC_TIMEOUT = timedelta(seconds=10)


class Emitter:
    """The events of one call, for the thread that owns its task.

    Their ids contain the execution, the activity and its attempt: the owner ignores a signal that is sent twice, and a
    retried call emits new events.
    """

    def __init__(self, client: Client, task: TaskRef) -> None:
        self._owner = client.get_workflow_handle(task.owner_thread_id)
        self._task = task
        info = activity.info()
        self._emitter = f"{info.workflow_run_id}:{info.activity_id}:{info.attempt}"
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[TaskEvent | None] = asyncio.Queue()
        self._lock = threading.Lock()
        self._count = 0
        self._is_closed = False

    def emit(self, event_type: str, payload: JsonValue = None, *, message: str | None = None) -> bool:
        """Enqueue an event, from any thread; False if the call has ended already."""
        with self._lock:  # several threads of one tool may emit: numbers and queue must have the same order
            if self._is_closed:
                return False
            number = self._count + 1
            event = TaskEvent(
                message_id=task_event_id(self._task.thread_id, self._emitter, number),
                task_id=self._task.task_id,
                thread_id=self._task.thread_id,
                event_type=event_type,
                payload=payload,
                message=message,
            )
            self._count = number
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        return True

    def close(self) -> None:
        """Accept no more events; those in the queue are still sent."""
        with self._lock:
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    async def send(self) -> None:
        """Send the events one after another until the emitter is closed."""
        while (event := await self._queue.get()) is not None:
            try:
                await self._signal(event)
            except Exception as error:  # an event that cannot be sent must not fail the task
                dropped = {"task": self._task.task_id, "event_type": event.event_type}
                log_failure(_logger, "task event dropped", error, extra=dropped)

    async def _signal(self, event: TaskEvent) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._owner.signal(SIGNAL_DELIVER, event, rpc_timeout=RPC_TIMEOUT)
                return
            except RPCError as error:
                if error.status not in RETRYABLE or attempt == ATTEMPTS:
                    raise
            await asyncio.sleep(FIRST_BACKOFF_SECONDS * 2 ** (attempt - 1))


@contextlib.asynccontextmanager
async def emitting(client: Client, task: TaskRef) -> AsyncIterator[Emitter]:
    """Signal the events that the body emits; the context exits when all of them are sent."""
    emitter = Emitter(client, task)
    sending = asyncio.create_task(emitter.send())
    try:
        yield emitter
    finally:
        emitter.close()
        await sending
