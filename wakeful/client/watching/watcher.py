"""Follow one thread: its events as they come, through all its executions, and what is in flight between them.

History's long poll wakes the watcher and queries bring the events, each once and in order; with `live`, heartbeats of
pending activities show meanwhile what is not an event yet. None of it is written to history. Threads below are the
business of `below.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.queries import query
from wakeful.client.watching.execution import Execution
from wakeful.client.watching.live import Live, Pending, Speaker
from wakeful.client.watching.reading import read_events
from wakeful.client.watching.retrying import Patience, Shared, Troubles
from wakeful.client.watching.rewound import Reset, first_reset, last_standing
from wakeful.contract import names
from wakeful.contract.errors import ThreadNotFound, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.views import EarlierExecution, EventsPage, StatusView
from wakeful.history.latest_execution import started_before

ANSWER_TIME = timedelta(seconds=10)
"""How long a thread is given to answer before its watcher calls it trouble: a long one may have to be replayed."""

GLANCE_SECONDS = 0.1
LONG_ANSWER = 400_000
"""Characters of an answer for which a second is added between two looks: all of them come with each."""
QUIET_SECONDS, SLOW_SECONDS = 60.0, 0.5
"""A tool that has not said anything for a minute is looked at less often."""


@dataclass(frozen=True)
class Reach:
    """How threads are watched: over which client, together with whom in this process, and who is told of trouble."""

    temporal: Client
    shared: Shared
    troubles: Troubles


class Watcher:
    """One thread, followed through its executions."""

    def __init__(self, reach: Reach, thread_id: str, *, after: int, live: bool, past: bool = False) -> None:
        self._temporal = reach.temporal
        self._shared = reach.shared
        self._thread_id = thread_id
        self._is_live = live
        self._is_past = past
        """What happens from now on is not waited for."""
        self._patience = Patience(thread_id, reach.troubles)
        self._position = after
        """The number of the newest event that has been read."""
        self._ahead: EventsPage | None = None
        """A page that was read to find out who has it."""
        self._following: dict[str, str] = {}
        """Which execution goes on with the thread after which: a rewind leaves others that once did."""
        self._is_done = False
        self._is_behind = False
        """What was seen of the thread is not there any more."""
        self._is_astray = False
        """An earlier execution has what comes next."""
        self._live = Live(after)
        self._glances = Glances()

    async def records(self) -> AsyncGenerator[EventRecord, None]:
        """The thread's events after the position, as they come, until it ends."""
        execution = await self._execution()
        while True:
            async with aclosing(self._follow(execution)) as followed:
                async for record in followed:
                    yield record
            if self._is_astray:
                execution = await self._execution()
                continue
            following = self._following.get(execution.run_id) or execution.successor
            if following is not None and not self._is_behind:
                execution = await self._opened(following)
                continue
            if self._is_done or self._is_past:
                return
            standing: Execution | None = None
            async with aclosing(self._undone(execution)) as undone:
                async for found in undone:
                    forgetting, standing = found
                    yield forgetting
            if standing is None:
                return
            execution = standing

    async def _follow(self, execution: Execution) -> AsyncGenerator[EventRecord, None]:
        """What this execution has to tell, until it is closed or the thread has ended."""
        while True:
            is_closed, more = execution.closing is not None, True
            while more:
                page = firm(await self._page(execution), execution.firm)
                self._is_behind, self._is_astray = page.last < self._position, page.earlier is not None
                if self._is_behind or self._is_astray:
                    return
                self._position, self._is_done, more = page.last, page.done, page.more
                for record in self._live.heard(page):
                    yield record
            if self._is_done or is_closed or self._is_past:
                return
            waiting = asyncio.create_task(execution.changed())
            try:
                while not await self._is_over(waiting):
                    for record in await self._drafts(execution):
                        yield record
            finally:
                waiting.cancel()
            await waiting

    async def _is_over(self, waiting: asyncio.Task[None]) -> bool:
        """Whether the wait is over, now or when it is time for the next look at what is in flight."""
        is_worth_a_look = self._is_live and self._live.awaited
        await asyncio.wait({waiting}, timeout=self._glances.pause if is_worth_a_look else None)
        return waiting.done()

    async def _drafts(self, execution: Execution) -> list[EventRecord]:
        try:
            within = GLANCE_SECONDS / 2
            pending = await self._shared.recent((self._thread_id, execution.run_id), execution.pending, within=within)
            if self._live.speaker is None and pending:
                self._live.speaker = await self._speaker()
        except (RPCError, WakefulError):
            return []  # the wait for history tells of the trouble, if it lasts
        records = [record for activity in pending for record in self._live.seen(activity)]
        self._glances.note(pending, is_news=bool(records))
        return records

    async def _speaker(self) -> Speaker:
        view = await query(self._temporal, self._thread_id, names.QUERY_STATUS, StatusView, within=ANSWER_TIME)
        who = view.identity
        path = (*who.path[1:], who.thread_id) if who.path else ()
        return Speaker(who.thread_id, who.run_id, view.active_agent or who.agent_id, path)

    async def _page(self, execution: Execution) -> EventsPage:
        if (ahead := self._ahead) is not None:
            self._ahead = None
            return ahead
        after, run_id = self._position, execution.run_id
        if execution.never_began:
            return EventsPage(events=(), last=after, done=False)

        async def ask() -> EventsPage:
            return await read_events(self._temporal, self._thread_id, after=after, run_id=run_id, within=ANSWER_TIME)

        return await self._patience.get(lambda: self._shared.newest((self._thread_id, run_id, after), ask))

    async def _undone(self, execution: Execution) -> AsyncGenerator[tuple[EventRecord, Execution], None]:
        """What is to be forgotten, and where the thread goes on, if an execution was not the last: it was rewound.

        While that is found out the thread may be rewound again: the execution that is gone on with knows of it.
        """
        closing = execution.closing
        since = closing.at if closing is not None and not self._is_behind else 0
        reset = await self._reset_since(since)
        if reset is None and (self._is_behind or closing is None):  # it has begun anew, or has fewer events than seen
            yield await self._forgetting(0, at=0), await self._execution()
        while reset is not None:
            standing = await self._patience.get(partial(last_standing, self._temporal, self._thread_id, reset))
            forgetting = await self._forgetting(min(standing, self._position), at=reset.at)
            execution = await self._execution()
            yield forgetting, execution
            reset = await self._reset_since(reset.at + 1)

    async def _reset_since(self, since: int) -> Reset | None:
        return await self._patience.get(lambda: first_reset(self._temporal, self._thread_id, since=since))

    async def _forgetting(self, position: int, *, at: int) -> EventRecord:
        self._position, self._ahead = position, None
        self._live.speaker = self._live.speaker or await self._patience.get(self._speaker)
        return self._live.rewound(position, at=at)

    async def _execution(self) -> Execution:
        """The execution that has the event after the position, or will have it."""
        described = await self._patience.get(self._temporal.get_workflow_handle(self._thread_id).describe)
        if described.workflow_type != names.WORKFLOW:
            raise ThreadNotFound(self._thread_id)
        execution = await self._opened(described.run_id)
        while (earlier := (page := await self._restored_page(execution)).earlier) is not None:
            try:
                before = await self._opened(earlier.run_id)
            except ThreadNotFound:  # so old that the server has deleted it
                if self._position >= earlier.through:
                    page = page.model_copy(update={"earlier": None})
                    break
                self._position = earlier.through
            else:
                self._following[before.run_id] = execution.run_id
                execution = before
        self._ahead = page
        return execution

    async def _restored_page(self, execution: Execution) -> EventsPage:
        """A page of an execution that knows its numbers: one that is being woken is waited for.

        One that was closed before it knew them has nothing of its own; the one before it goes on for it.
        """
        while (page := await self._page(execution)).restoring and execution.closing is None:
            await execution.changed()
        if not (page.restoring or execution.never_began):
            return page
        asking = partial(started_before, self._temporal, self._thread_id, execution.run_id)
        before = await self._patience.get(asking)
        earlier = None if before is None else EarlierExecution(run_id=before, through=self._position)
        return page.model_copy(update={"earlier": earlier})

    async def _opened(self, run_id: str) -> Execution:
        execution = Execution(self._temporal, self._thread_id, run_id, self._patience)
        await execution.open()
        return execution


def firm(page: EventsPage, until: int) -> EventsPage:
    """What of a page will not change; the rest is read again when history has it."""
    events = tuple(record for record in page.events if record.at <= until)
    if len(events) == len(page.events):
        return page
    return EventsPage(events=events, last=page.last - (len(page.events) - len(events)), done=False)


class Glances:
    """How often pending activities are looked at."""

    def __init__(self) -> None:
        self._size = 0
        self._quiet = 0.0

    @property
    def pause(self) -> float:
        """Seconds until the next look: more for a long answer, and for one that nobody adds to."""
        if self._quiet > QUIET_SECONDS:
            return SLOW_SECONDS
        return GLANCE_SECONDS + self._size / LONG_ANSWER

    def note(self, pending: Sequence[Pending], *, is_news: bool) -> None:
        self._quiet = 0.0 if is_news else self._quiet + self.pause
        self._size = max((len(str(activity.said)) for activity in pending), default=0)
