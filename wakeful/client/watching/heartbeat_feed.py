"""The heartbeats of an execution's activities, polled once for all watchers of a client, when there may be news.

The server shows the newest heartbeat of each activity, and does not notify of the next one. A heartbeat says how soon
another may follow, so that a watcher polls an answer that is watched several times a second, and others once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from weakref import WeakValueDictionary

from wakeful.client.watching.live import ActivityHeartbeat

POLL_SECONDS = 0.1
"""The interval while a heartbeat is due, or if it is not known when one is."""
LEAD_SECONDS = 0.01
"""How much earlier than the last time a poll comes, until one comes too early."""
LONG_ANSWER = 400_000
"""Characters of a streaming answer for which a second is added to the interval: every poll returns all of them."""
QUIET_SECONDS, SLOW_POLL_SECONDS = 60.0, 0.5
"""After a minute without news, activities are polled less often."""

ReadHeartbeats = Callable[[], Awaitable[list[ActivityHeartbeat]]]


class HeartbeatFeeds:
    """The feeds that watchers of one client share."""

    def __init__(self) -> None:
        self._feeds: WeakValueDictionary[Hashable, HeartbeatFeed] = WeakValueDictionary()

    def feed(self, key: Hashable, read: ReadHeartbeats) -> "HeartbeatFeed":
        """The feed of an execution, which lives for as long as a watcher holds it."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = HeartbeatFeed(read)
        return feed


class HeartbeatFeed:
    """Polls the heartbeats of one execution while a watcher waits for them."""

    def __init__(self, read: ReadHeartbeats) -> None:
        self._read = read
        self._schedule = PollSchedule()
        self._polling: asyncio.Task[list[ActivityHeartbeat]] | None = None

    async def next(self) -> list[ActivityHeartbeat]:
        """What the next poll finds; all watchers that wait for it share it.

        Raises:
            RPCError: Temporal did not answer.
        """
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
            # Every watcher may have left by the time it fails: asyncio must not report it as never retrieved.
            self._polling.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._polling)

    async def _poll(self) -> list[ActivityHeartbeat]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._schedule.due - loop.time())
        found: list[ActivityHeartbeat] = []
        try:
            found = await self._read()
        finally:
            self._schedule.on_poll(found, now=loop.time())
        return found


class PollSchedule:
    """When to poll next. Times are seconds on the watcher's clock; those of heartbeats are on the server's."""

    def __init__(self) -> None:
        self.due = 0.0
        self._shown: dict[str, ActivityHeartbeat] = {}
        self._news_at: float | None = None
        self._offset: float | None = None
        """What the watcher's clock shows when a heartbeat can be seen, minus the heartbeat's own time."""
        self._was_early = False
        """The last poll found nothing new."""

    def on_poll(self, heartbeats: Sequence[ActivityHeartbeat], *, now: float) -> None:
        before, self._shown = self._shown, {heartbeat.id: heartbeat for heartbeat in heartbeats}
        new = [heartbeat for heartbeat in heartbeats if before.get(heartbeat.id) != heartbeat]
        self._adjust_offset(new, now)
        if self._news_at is None or any(_is_news(heartbeat, before) for heartbeat in new):
            self._news_at = now
        interval = POLL_SECONDS + max((_size(heartbeat) for heartbeat in heartbeats), default=0) / LONG_ANSWER
        if now - self._news_at > QUIET_SECONDS:
            interval = SLOW_POLL_SECONDS
        expected = [self._expected(heartbeat) for heartbeat in heartbeats]
        self._was_early = not new
        next_polls = (time if time > now + LEAD_SECONDS else now + interval for time in expected)
        self.due = min(next_polls, default=now + interval)

    def _adjust_offset(self, new: Sequence[ActivityHeartbeat], now: float) -> None:
        if not new:
            return
        seen = now - max(heartbeat.at for heartbeat in new) / 1000
        # A heartbeat that was there at the first poll may have been there for a while: poll a little earlier next time.
        is_exact = self._was_early or self._offset is None
        self._offset = seen if is_exact else min(seen, self._offset or seen) - LEAD_SECONDS

    def _expected(self, heartbeat: ActivityHeartbeat) -> float:
        """When the next heartbeat of this activity can be seen at the earliest."""
        return heartbeat.at / 1000 + heartbeat.next_in + (self._offset or 0.0)


def _is_news(heartbeat: ActivityHeartbeat, before: dict[str, ActivityHeartbeat]) -> bool:
    return heartbeat.id not in before or before[heartbeat.id].details != heartbeat.details


def _size(heartbeat: ActivityHeartbeat) -> int:
    return len(str(heartbeat.details))
