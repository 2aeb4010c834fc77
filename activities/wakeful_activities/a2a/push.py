"""The `post_task_update` activity: wait for the next state of an A2A task, and post it to a webhook.

It follows the thread's history for a moment and no longer, so that a task that waits for days holds no slot of a
worker. No error has the webhook's path, its token or what it answered: the messages of errors are not encrypted.
"""

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.heartbeat_feed import HeartbeatFeeds
from wakeful.client.watching.retrying import OutageReporter, SharedCalls
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract import ids
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.names import ACTIVITY_POST_TASK
from wakeful.contract.push import Posted, PostInput, PushConfig
from wakeful_activities.heartbeats import HeartbeatIntervals, heartbeating

if TYPE_CHECKING:
    from wakeful.a2a.changes import TaskChange

R = TypeVar("R")

FOLLOW_SECONDS = 20.0
"""How long a task is followed after its last change."""

HEARTBEAT_SECONDS = 2.0

NO_EXTRA = "push notifications need a worker with the extra a2a: pip install 'wakeful[a2a]'"
UNDELIVERED = "undelivered"
BENIGN = ApplicationErrorCategory.BENIGN

PATIENCE = timedelta(days=3)
"""With a webhook that does not accept a notification. Then its config is dropped."""

SHARE = 4
"""The part of a worker's slots that notifications may have: one of so many."""

BUSY = "other notifications have all slots of this worker that are for them"
BUSY_SECONDS = 2.0


class PushActivity:
    """Posts the states of tasks.

    Args:
        slots: how many activities the worker executes at once.
    """

    def __init__(self, reader: ThreadReader, *, slots: int) -> None:
        self._free = max(1, slots // SHARE)
        self._context = WatchContext(reader, SharedCalls(), HeartbeatFeeds(), OutageReporter())

    @activity.defn(name=ACTIVITY_POST_TASK)
    async def post_task_update(self, input: PostInput) -> Posted:
        with self._slot(), heartbeating(intervals=HeartbeatIntervals(HEARTBEAT_SECONDS)):
            try:
                change = await _unless_worker_stops(self._next_change(input))
            except ThreadNotFound:  # it was deleted, or Temporal has deleted it
                return Posted(is_over=True)
            if change is None:
                return Posted()
            await _post(input.subscription.config, change)
            return Posted(state=change.key, is_over=change.is_last)

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        """One of the slots that notifications have. If none is free, the activity leaves the worker's slot at once.

        So tools and models have the rest of the worker to themselves, however many webhooks answer slowly.
        """
        if not self._free:
            later = timedelta(seconds=BUSY_SECONDS * (1 + random.random()))
            raise ApplicationError(BUSY, type=UNDELIVERED, next_retry_delay=later, category=BENIGN)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def _next_change(self, input: PostInput) -> "TaskChange | None":
        """The first change that was not posted; None if there is none for a while."""
        try:
            from wakeful.a2a.changes import task_changes
            from wakeful.a2a.tasks import TaskRef
        except ModuleNotFoundError as error:
            raise ApplicationError(NO_EXTRA, type=UNDELIVERED) from error
        config = input.subscription.config
        ref, decisions = TaskRef(input.thread_id, config.message_id), config.decisions or ClientDecisions.ALL
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout(FOLLOW_SECONDS) as waiting,
                aclosing(task_changes(self._context, ref, decisions)) as changes,
            ):
                async for change in changes:
                    if change.key not in input.subscription.sent:
                        return change
                    waiting.reschedule(loop.time() + FOLLOW_SECONDS)
        return None


async def _unless_worker_stops(work: Coroutine[Any, Any, R]) -> R:
    """The result of some work, which another worker does if this one stops before."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
    finally:
        working.cancel()
        stopping.cancel()
    raise ApplicationError("the worker stops", type=UNDELIVERED, category=BENIGN)


async def _post(config: PushConfig, change: "TaskChange") -> None:
    from wakeful.a2a.webhooks import WebhookRefused, parse_webhook, post_task

    host = parse_webhook(config.url).host
    try:
        await post_task(config, change.task, id=ids.notification_id(config.task_id, config.id, change.key))
    except WebhookRefused as error:
        problem = str(error)
    except httpx.HTTPStatusError as error:
        problem = f"it answered {error.response.status_code}"
    except TimeoutError:
        problem = "it took too long"
    except (httpx.HTTPError, OSError) as error:
        problem = f"it cannot be reached ({type(error).__name__})"
    else:
        return
    # Outside of the handlers: the failure in history has no cause whose message could have the address.
    raise ApplicationError(
        f"the webhook at {host!r} has not accepted a notification: {problem}",
        type=UNDELIVERED,
        category=BENIGN,
        non_retryable=_age() > PATIENCE,
    )


def _age() -> timedelta:
    """For how long the notification has been tried. Attempts do not tell: some only found no free slot."""
    return datetime.now(UTC) - activity.info().scheduled_time
