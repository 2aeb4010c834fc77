"""Watch one thread: its events in order, through all its executions, and live records in between.

A long poll of history wakes the watcher. It reads events from history, and asks a worker only if that has just handled
the run, and so has it in memory; with `live`, heartbeats of pending activities show what is not an event yet. None of
it is written to history. `descendants.py` watches the sub-agents.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from temporalio.service import RPCError

from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.closing import closing_error
from wakeful.client.watching.detect_reset import Reset, first_reset, last_retained
from wakeful.client.watching.execution import Execution
from wakeful.client.watching.heartbeat_feed import HeartbeatFeed, HeartbeatFeeds
from wakeful.client.watching.live import LiveRecords, RecordIdentity
from wakeful.client.watching.reading import ask_for_events, read_events
from wakeful.client.watching.retrying import OutageReporter, Retrier, SharedCalls
from wakeful.contract import names
from wakeful.contract.errors import NoAnswer, ThreadNotFound, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.views import EventsPage, StatusView
from wakeful.history.latest_execution import started_before

WORKER_TIMEOUT = timedelta(seconds=2)
"""How long the worker that has just handled a run may take to answer; history has the events, too."""
OUTAGE_POLL_SECONDS = 10.0
"""How often a watcher that waits looks whether a worker takes the thread's workflow task."""


@dataclass(frozen=True)
class WatchContext:
    """What all watchers of a `client.watch` share."""

    reader: ThreadReader
    calls: SharedCalls
    feeds: HeartbeatFeeds
    outages: OutageReporter


class Watcher:
    """Watches one thread through its executions."""

    def __init__(
        self, context: WatchContext, thread_id: str, *, after: int, live: bool, stop_at_newest: bool = False
    ) -> None:
        self._reader = context.reader
        self._temporal = context.reader.temporal
        self._calls = context.calls
        self._feeds = context.feeds
        self._thread_id = thread_id
        self._is_live = live
        self._stops_at_newest = stop_at_newest
        """It yields what there is, and does not wait for more."""
        self._outages = context.outages
        self._retrier = Retrier(thread_id, context.outages)
        self._position = after
        """The number of the newest event that was read."""
        self._prefetched: EventsPage | None = None
        """A page that was read to find the execution that has it."""
        self._successors: dict[str, str] = {}
        """Which execution follows which: after a reset there are others that once did."""
        self._is_done = False
        self._is_undone = False
        """The thread has fewer events than were read: a reset has undone the others."""
        self._records = LiveRecords(after)

    async def records(self) -> AsyncGenerator[EventRecord, None]:
        """The thread's events after the position, until it ends."""
        execution = await self._find_execution()
        while True:
            async with aclosing(self._follow(execution)) as followed:
                async for record in followed:
                    yield record
            successor = self._successors.get(execution.run_id) or execution.successor
            if successor is not None and not self._is_undone:
                before, execution = execution, await self._open(successor)
                if not await self._is_started(execution):
                    return
                execution.was_just_handled = before.is_followed and execution.closed is None
                continue
            if self._is_done or self._stops_at_newest:
                return
            following: Execution | None = None
            async with aclosing(self._after_resets(execution)) as resets:
                async for reset_record, found in resets:
                    following = found
                    yield reset_record
            if following is None:
                for record in await self._closing_records(execution):
                    yield record
                return
            execution = following

    async def _follow(self, execution: Execution) -> AsyncGenerator[EventRecord, None]:
        """The records of this execution, until it is closed or the thread has ended."""
        while True:
            is_closed, more = execution.closed is not None, True
            while more:
                page = confirmed(await self._page(execution), execution.confirmed_until)
                self._is_undone = page.last < self._position
                if self._is_undone:
                    return
                self._position, self._is_done, more = page.last, page.done, page.more
                for record in self._records.on_page(page):
                    yield record
            if self._is_done or is_closed or self._stops_at_newest:
                return
            change = asyncio.create_task(self._wait_for_change(execution))
            feed = self._feeds.feed((self._thread_id, execution.run_id), execution.read_heartbeats)
            try:
                while not change.done():
                    for record in await self._live_records(feed, change):
                        yield record
            finally:
                change.cancel()
            await change

    async def _wait_for_change(self, execution: Execution) -> None:
        """Wait for the next completed workflow task, and report the outage if no worker takes the task."""
        reporting = asyncio.create_task(self._report_outage(execution))
        try:
            await execution.wait_for_change()
        finally:
            reporting.cancel()
            self._outages.call_ended(self)

    async def _report_outage(self, execution: Execution) -> None:
        while True:
            await asyncio.sleep(OUTAGE_POLL_SECONDS)
            with suppress(RPCError):  # if the outage lasts, the long poll of history reports it
                if await execution.waits_for_worker():
                    error = NoAnswer(f"no worker takes the next workflow task of thread {self._thread_id!r}")
                    self._outages.call_failed(self, error)

    async def _live_records(self, feed: HeartbeatFeed, change: asyncio.Task[None]) -> list[EventRecord]:
        """What the next poll of heartbeats adds; nothing if history changes first."""
        if not (self._is_live and self._records.awaits_heartbeats):
            await asyncio.wait({change})
            return []
        polling = asyncio.create_task(feed.next())
        try:
            await asyncio.wait({change, polling}, return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                return []
            heartbeats = await polling
            if self._records.identity is None and heartbeats:
                self._records.identity = await self._read_identity()
        except (RPCError, WakefulError):
            return []  # if the outage lasts, the long poll of history reports it
        finally:
            polling.cancel()
        return [record for heartbeat in heartbeats for record in self._records.on_heartbeat(heartbeat)]

    async def _read_identity(self) -> RecordIdentity:
        view = await self._reader.query(self._thread_id, names.QUERY_STATUS, StatusView)
        run = view.identity
        path = (*run.path[1:], run.thread_id) if run.path else ()
        return RecordIdentity(run.thread_id, run.run_id, view.active_agent or run.agent_id, path)

    async def _page(self, execution: Execution) -> EventsPage:
        if (prefetched := self._prefetched) is not None:
            self._prefetched = None
            return prefetched
        after, run_id = self._position, execution.run_id
        if not execution.has_started:
            return EventsPage(events=(), last=after, done=False)
        is_in_memory = execution.was_just_handled

        async def read() -> EventsPage:
            if is_in_memory:
                with suppress(NoAnswer):
                    page = await ask_for_events(
                        self._reader, self._thread_id, after=after, run_id=run_id, within=WORKER_TIMEOUT
                    )
                    if page.last >= after:  # else another worker answered, which has the run as it was earlier
                        return page
            return await read_events(self._reader, self._thread_id, after=after, run_id=run_id)

        return await self._retrier.call(lambda: self._calls.fresh((self._thread_id, run_id, after), read))

    async def _after_resets(self, execution: Execution) -> AsyncGenerator[tuple[EventRecord, Execution], None]:
        """If the execution was not the last because of a reset: the `stream_reset`, and the execution that follows.

        The thread may be reset again meanwhile: the execution that follows records that.
        """
        closed = execution.closed
        since = closed.at if closed is not None and not self._is_undone else 0
        reset = await self._reset_since(since)
        if reset is None and (self._is_undone or closed is None):  # it was started over, or has fewer events than read
            yield await self._rewind_to(0, at=0), await self._find_execution()
        while reset is not None:
            retained = await self._retrier.call(partial(last_retained, self._reader, self._thread_id, reset))
            record = await self._rewind_to(min(retained, self._position), at=reset.at)
            execution = await self._find_execution()
            yield record, execution
            reset = await self._reset_since(reset.at + 1)

    async def _closing_records(self, execution: Execution) -> list[EventRecord]:
        """The error that ends the stream, if the thread was ended from outside or failed as a workflow."""
        closed = execution.closed
        error = closing_error(self._thread_id, closed) if closed is not None else None
        if closed is None or error is None:
            return []
        if self._records.identity is None and execution.has_started:
            with suppress(RPCError, WakefulError):  # the error is worth showing also without its run and agent
                self._records.identity = await self._read_identity()
        self._records.identity = self._records.identity or RecordIdentity(self._thread_id)
        return [self._records.on_error(error, at=closed.at)]

    async def _reset_since(self, since: int) -> Reset | None:
        return await self._retrier.call(lambda: first_reset(self._temporal, self._thread_id, since=since))

    async def _rewind_to(self, position: int, *, at: int) -> EventRecord:
        self._position, self._prefetched = position, None
        self._records.identity = self._records.identity or await self._retrier.call(self._read_identity)
        return self._records.on_rewind(position, at=at)

    async def _find_execution(self) -> Execution:
        """The execution that has the event after the position, or will have it."""
        described = await self._retrier.call(self._temporal.get_workflow_handle(self._thread_id).describe)
        if described.workflow_type != names.WORKFLOW:
            raise ThreadNotFound(self._thread_id)
        execution = await self._open(described.run_id)
        page = await self._page(execution)
        while page.restoring or not execution.has_started:
            # It has no events of its own yet: those of the execution before it come first.
            find_before = partial(started_before, self._temporal, self._thread_id, execution.run_id)
            before = await self._retrier.call(find_before)
            if before is not None:
                following, execution = execution, await self._open(before)
                self._successors[before] = following.run_id
                page = await self._page(execution)
                break
            if execution.closed is not None or self._stops_at_newest:
                break
            await self._wait_for_change(execution)
            page = await self._page(execution)
        self._prefetched = page
        return execution

    async def _is_started(self, execution: Execution) -> bool:
        """Wait until a worker has started the execution; False if it has not, and the watcher does not wait."""
        while not (execution.has_started or execution.closed is not None or self._stops_at_newest):
            await self._wait_for_change(execution)
        return execution.has_started or execution.closed is not None

    async def _open(self, run_id: str) -> Execution:
        execution = Execution(self._temporal, self._thread_id, run_id, self._retrier)
        await execution.open()
        return execution


def confirmed(page: EventsPage, until: int) -> EventsPage:
    """The part of a page that cannot change any more; the rest is read again when history has it."""
    events = tuple(record for record in page.events if record.at <= until)
    if len(events) == len(page.events):
        return page
    return EventsPage(events=events, last=page.last - (len(page.events) - len(events)), done=False)
