"""Read threads from their histories, in this process: no worker has to run, and none is loaded.

`ThreadReader` is what every verb of the client that reads a thread uses. A worker answers only for an execution whose
history does not replay on this program's code.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.pending_memos import PendingMemos
from wakeful.client.read_or_ask import read_or_ask
from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.errors import DoesNotReplay, NotStarted
from wakeful.contract.views import StatusView
from wakeful.history.archive import ArchiveReader
from wakeful.rpc_errors import error_of

if TYPE_CHECKING:  # it imports the workflows and Temporal's whole worker
    from wakeful.history.reader import HistoryReader

HANDLED_WITHIN_SECONDS = 1.0
"""How long a read waits for a worker to handle what was just sent, so that it shows it."""

STARTED_WITHIN = timedelta(seconds=7)
"""How long a read waits for an execution that was just started: there is nothing to show before a worker takes it."""

NEW = timedelta(seconds=10)
"""How old such an execution may be. The clocks of two machines may differ by some of it."""

FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 0.5

V = TypeVar("V", bound=Wire)
T = TypeVar("T")


class ThreadReader:
    """Reads threads of one namespace. It replays each execution once, and keeps the newest in memory until `aclose`.

    Args:
        temporal: has the data converter of the namespace's workers.
        history: replays histories; without one, it makes its own with the first read, and closes it.
    """

    def __init__(self, temporal: Client, *, history: "HistoryReader | None" = None) -> None:
        self.temporal = temporal
        self.archives = ArchiveReader(temporal)
        """Reads what threads have archived."""
        self.pending = PendingMemos(temporal)
        """Reads what lists show of pending decisions."""
        self._given = history
        self._own: HistoryReader | None = None

    @property
    def history(self) -> "HistoryReader":
        """What replays histories, made with the first read: it imports the workflows, which few callers need."""
        if self._given is not None:
            return self._given
        if self._own is None:
            from wakeful.history.reader import HistoryReader

            self._own = HistoryReader(self.temporal, handled_within=HANDLED_WITHIN_SECONDS)
        return self._own

    async def query(
        self,
        thread_id: str,
        name: str,
        kind: type[V],
        argument: object = None,
        *,
        run_id: str | None = None,
        within: timedelta | None = None,
    ) -> V:
        """What a thread, or one execution of it, answers to a query.

        Args:
            within: how long a worker may take, if the history does not replay here.

        Raises:
            NotStarted: no worker has taken the execution, and it continues none.
            ThreadNotFound: there is no such execution.
            NoAnswer: it does not replay here, and no worker answered.
        """

        async def read() -> V:
            return await read_or_ask(self.history, thread_id, name, kind, argument, run_id=run_id, within=within)

        return await self._once_started(thread_id, run_id, read)

    async def status(self, thread_id: str, *, within: timedelta | None = None) -> StatusView:
        """A thread's status, and since when a workflow task of it has been waiting for a worker, if one has.

        Raises:
            NotStarted: no worker has taken the execution, and it continues none.
            ThreadNotFound: there is no such thread.
            NoAnswer: it does not replay here, and no worker answered `within` this time.
        """

        async def read() -> StatusView:
            try:
                return await self.history.status(thread_id)
            except DoesNotReplay:
                return await read_or_ask(self.history, thread_id, names.QUERY_STATUS, StatusView, within=within)

        return await self._once_started(thread_id, None, read)

    async def aclose(self) -> None:
        """Drop everything that it keeps."""
        if self._own is not None:
            own, self._own = self._own, None
            await own.aclose()

    async def _once_started(self, thread_id: str, run_id: str | None, read: Callable[[], Awaitable[T]]) -> T:
        """The result of the read, as soon as a worker has taken an execution that was just started."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
        deadline = loop.time() + STARTED_WITHIN.total_seconds()
        while True:
            try:
                return await read()
            except NotStarted:
                if loop.time() + pause > deadline or not await self._is_new(thread_id, run_id):
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _is_new(self, thread_id: str, run_id: str | None) -> bool:
        try:
            described = await self.temporal.get_workflow_handle(thread_id, run_id=run_id).describe()
        except RPCError as error:
            raise error_of(error, thread_id) from error
        return described.close_time is None and datetime.now(UTC) - described.start_time < NEW
