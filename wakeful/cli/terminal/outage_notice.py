"""Tells a person who waits that no worker answers, or that none has what the run needs."""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from datetime import timedelta
from time import time
from typing import Self

from wakeful.client.client import Client
from wakeful.client.diagnosis.activities import last_seen
from wakeful.client.diagnosis.evidence import QueueKind, TaskQueue
from wakeful.client.diagnosis.reader import missing_of
from wakeful.client.diagnosis.server_answers import read_queue
from wakeful.client.diagnosis.wording import clock, start_worker
from wakeful.client.queries import query
from wakeful.client.wake import describe
from wakeful.contract import names
from wakeful.contract.errors import NoAnswer, WakefulError
from wakeful.contract.runs import RunResult
from wakeful.contract.views import StatusView

SILENCE_SECONDS = 4.0
"""Without a record, until a worker is asked."""
LONGEST_SILENCE_SECONDS = 60.0
MISSING_SECONDS = 2.0
"""Without a record, until Temporal is asked whether the workers lack something, such as the agent."""


async def wait_for_result(client: Client, thread_id: str) -> RunResult:
    """The result of a thread's run; if no worker answers meanwhile, a line on stderr says so."""
    async with OutageNotice(client, thread_id, warn):
        return await client.result(thread_id)


def warn(message: str) -> None:
    print(f"! {message}", file=sys.stderr, flush=True)


async def warn_without_worker(client: Client) -> None:
    """A line on stderr if no worker polls the client's task queue: what a schedule starts there would wait."""
    queue = await read_queue(client.temporal, client.task_queue, QueueKind.WORKFLOW)
    now = int(time() * 1000)
    if isinstance(queue, TaskQueue) and not queue.live_pollers(now):
        worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
        warn(
            f"no worker polls task queue {queue.name!r}: {last_seen(queue, now)}. What the schedule starts waits there "
            f"for one: {worker}"
        )


class OutageNotice:
    """Warns once per outage, which ends with the next record.

    A thread that no worker has picked up has no events, so a watcher of it waits in silence: this asks a worker for it.
    """

    def __init__(self, client: Client, thread_id: str, warn: Callable[[str], None]) -> None:
        self._client = client
        self._thread_id = thread_id
        self._warn = warn
        self._record_arrived = asyncio.Event()
        self._has_warned = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._wait_for_silence())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def on_record(self) -> None:
        """A record has arrived."""
        self._has_warned = False
        self._record_arrived.set()

    def on_trouble(self, error: WakefulError) -> None:
        """Watching fails."""
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"{error}; waiting")

    async def _wait_for_silence(self) -> None:
        silence = 0.0
        while True:
            self._record_arrived.clear()
            following = _next_silence(silence)
            try:
                await asyncio.wait_for(self._record_arrived.wait(), following - silence)
                silence = 0.0
            except TimeoutError:
                silence = following
                if not self._has_warned:
                    await self._ask_what_is_missing()
                if not self._has_warned and silence >= SILENCE_SECONDS:
                    await self._ask_worker()

    async def _ask_what_is_missing(self) -> None:
        with contextlib.suppress(WakefulError):  # the watcher of the thread reports it
            missing = await missing_of(self._client.temporal, self._thread_id)
            if missing is not None:
                known = f" (worker {missing.worker} knows {', '.join(missing.known)})" if missing.known else ""
                until = clock(missing.retried_until, missing.missing_since)
                problem = f"no worker has {missing.what} yet{known}; others are tried until {until}"
                if missing.reason:
                    problem = f"{missing.what} is away ({missing.reason}); it is tried again until {until}"
                self.on_trouble(NoAnswer(problem))

    async def _ask_worker(self) -> None:
        temporal, within = self._client.temporal, timedelta(seconds=SILENCE_SECONDS)
        try:
            await query(temporal, self._thread_id, names.QUERY_STATUS, StatusView, within=within)
        except NoAnswer:
            with contextlib.suppress(WakefulError):
                described = await describe(self._client.temporal, self._thread_id)
                queue = described.task_queue if described else self._client.task_queue
                self.on_trouble(NoAnswer(f"no worker answers on task queue {queue!r}"))
        except WakefulError:
            pass  # the watcher of the thread reports it


def _next_silence(silence: float) -> float:
    """How long a thread has been silent when it is looked at again."""
    if silence < MISSING_SECONDS < SILENCE_SECONDS:
        return MISSING_SECONDS
    if silence < SILENCE_SECONDS:
        return SILENCE_SECONDS
    return silence + min(silence * 2, LONGEST_SILENCE_SECONDS)
