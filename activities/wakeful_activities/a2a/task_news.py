"""Signal the push notifications of a thread when its workflow has changed an A2A task: an interceptor of the worker.

The signal is a hint that may be lost; `A2aPush` also looks by itself, once an hour. Most threads have no push
notifications: then Temporal answers that there is no such workflow, and that is all it costs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from wakeful.contract import ids, names
from wakeful.contract.push import TASK_CHANGED


class TaskNews(Interceptor):
    """Provides workflows with the function that reports changes, and sends the signals."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending = set[asyncio.Task[None]]()

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        input.unsafe_extern_functions[TASK_CHANGED] = self._report
        return None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send signals while the body runs, and the last ones after it."""
        self._loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            self._loop = None
            if self._sending:
                await asyncio.wait(self._sending)

    def _report(self, thread_id: str) -> None:
        """Called by a workflow, in a thread of its own."""
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._start, thread_id)

    def _start(self, thread_id: str) -> None:
        sending = asyncio.create_task(self._signal(thread_id))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _signal(self, thread_id: str) -> None:
        with contextlib.suppress(RPCError):  # there are no push notifications, or the server does not answer
            await self._client.get_workflow_handle(ids.push_id(thread_id)).signal(names.SIGNAL_TASK_CHANGED)
