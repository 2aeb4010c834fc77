"""Who decided what, when and why, in every thread: the record for an audit. `Client.decisions` is the verb.

Nothing stores it twice: the events of a thread have its decisions, through every execution, wake and archive of it. So
it lasts as long as the thread does: until it is deleted, or Temporal deletes its closed workflow.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from wakeful.client.thread_runs import DecisionRecord, read_runs_since
from wakeful.client.threads import ThreadFilter, list_threads, written_time
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract.errors import NotStarted, ThreadNotFound, WakefulError

READ_TOGETHER = 8
"""Threads that are read at the same time."""


@dataclass(frozen=True)
class DecisionFilter:
    """Which decisions to list: all, or those of a thread, a tenant, a user's runs, a time."""

    thread_id: str | None = None
    tenant: str | None = None
    user: str | None = None
    since: datetime | None = None

    @property
    def since_ms(self) -> int | None:
        return None if self.since is None else int(self.since.timestamp() * 1000)

    def includes(self, record: DecisionRecord) -> bool:
        if record.unknown is not None:
            return True
        is_late = record.decision is not None and record.decision.at >= (self.since_ms or 0)
        return is_late and self.tenant in (None, record.tenant) and self.user in (None, record.user)

    @property
    def threads(self) -> ThreadFilter:
        """The threads that may have such decisions: those that were closed before the time have none."""
        query = None
        if self.since is not None:
            query = f"ExecutionStatus = 'Running' OR CloseTime >= '{written_time(self.since)}'"
        return ThreadFilter(tenant=self.tenant, subagents=True, query=query)


async def read_decisions(context: WatchContext, wanted: DecisionFilter) -> AsyncIterator[DecisionRecord]:
    """Yield the decisions, those of one thread after those of another, each thread's oldest first.

    A thread that cannot be read has one record, with the reason in `unknown`.

    Raises:
        ThreadNotFound: no workflow has the id that is wanted.
    """
    if wanted.thread_id is not None:
        for record in await _of_thread(context, wanted.thread_id, wanted):
            yield record
        return
    together: list[str] = []
    async for summary in list_threads(context.reader, wanted.threads, details=False, limit=None):
        together.append(summary.thread_id)
        if len(together) == READ_TOGETHER:
            for record in await _of_threads(context, together, wanted):
                yield record
            together = []
    for record in await _of_threads(context, together, wanted):
        yield record


async def _of_threads(context: WatchContext, thread_ids: list[str], wanted: DecisionFilter) -> list[DecisionRecord]:
    read = await asyncio.gather(*(_or_why_not(context, thread_id, wanted) for thread_id in thread_ids))
    return [record for of_thread in read for record in of_thread]


async def _or_why_not(context: WatchContext, thread_id: str, wanted: DecisionFilter) -> list[DecisionRecord]:
    """An audit must not end at the first thread that cannot be read, nor leave it out."""
    try:
        return await _of_thread(context, thread_id, wanted)
    except ThreadNotFound:  # it was deleted meanwhile
        return []
    except WakefulError as error:
        return [DecisionRecord(thread_id=thread_id, unknown=str(error))]


async def _of_thread(context: WatchContext, thread_id: str, wanted: DecisionFilter) -> list[DecisionRecord]:
    try:
        runs = await read_runs_since(context, thread_id, since=wanted.since_ms)
    except NotStarted:
        return []
    return [record for run in runs for record in run.decisions if wanted.includes(record)]
