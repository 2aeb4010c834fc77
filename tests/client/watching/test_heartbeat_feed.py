"""When watchers poll for heartbeats: once for all of them, and only when there may be news."""

import asyncio
import gc
import weakref

import pytest
from pydantic import JsonValue

from wakeful.client.watching.heartbeat_feed import (
    POLL_SECONDS,
    QUIET_SECONDS,
    SLOW_POLL_SECONDS,
    HeartbeatFeeds,
    PollSchedule,
)
from wakeful.client.watching.live import ActivityHeartbeat

SERVER_CLOCK = 1_700_000_000.0
"""What the server's clock shows when the watcher's shows 0."""


def beat(at: float, details: JsonValue = None, *, next_in: float = 0.0, id: str = "infer-1") -> ActivityHeartbeat:
    """A heartbeat at this time of the watcher's clock."""
    return ActivityHeartbeat(id, "infer", details, at=round((SERVER_CLOCK + at) * 1000), next_in=next_in)


def polls(until: float, *, interval: float) -> tuple[int, float]:
    """How often an answer is polled that heartbeats at this interval, and how late heartbeats are seen in the end."""
    schedule, count, seen, lag = PollSchedule(), 0, -1, 0.0
    schedule.due = 0.037  # a watcher comes at any time
    while schedule.due < until:
        now, count = schedule.due, count + 1
        number = int(now / interval)
        if number > seen:
            seen, lag = number, now - number * interval
        schedule.on_poll([beat(number * interval, number, next_in=interval)], now=now)
    return count, lag


@pytest.mark.parametrize("interval", [0.2, 1.0])
def test_an_answer_is_polled_about_once_a_heartbeat(interval: float) -> None:
    count, lag = polls(100.0, interval=interval)
    heartbeats = 100 / interval
    assert heartbeats <= count <= 1.3 * heartbeats
    assert lag <= POLL_SECONDS


def test_a_heartbeat_that_is_late_is_polled_for_until_it_comes() -> None:
    schedule = PollSchedule()
    schedule.on_poll([beat(1.0, "a", next_in=0.2)], now=1.0)
    assert schedule.due == pytest.approx(1.2)
    for now in (1.2, 1.3, 1.4):
        schedule.on_poll([beat(1.0, "a", next_in=0.2)], now=now)
        assert schedule.due == pytest.approx(now + POLL_SECONDS, rel=1e-3)
    schedule.on_poll([beat(1.45, "ab", next_in=0.2)], now=1.5)
    assert schedule.due == pytest.approx(1.7)


@pytest.mark.parametrize("heartbeats", [[], [beat(0.0, "a")]])
def test_activities_that_do_not_say_when_they_heartbeat_are_polled_often(heartbeats: list[ActivityHeartbeat]) -> None:
    schedule = PollSchedule()
    for now in (5.0, 5.1):
        schedule.on_poll(heartbeats, now=now)
        assert schedule.due == pytest.approx(now + POLL_SECONDS, rel=1e-3)


def test_the_activity_that_heartbeats_first_decides() -> None:
    schedule = PollSchedule()
    schedule.on_poll([beat(2.0, "a", next_in=1.0), beat(2.0, "b", next_in=0.2, id="tool.1-1")], now=2.0)
    assert schedule.due == pytest.approx(2.2)


def test_activities_without_news_for_a_minute_are_polled_less_often() -> None:
    schedule = PollSchedule()
    schedule.on_poll([beat(0.0, "a")], now=0.0)
    now = QUIET_SECONDS + 1
    schedule.on_poll([beat(now, "a")], now=now)
    assert schedule.due == pytest.approx(now + SLOW_POLL_SECONDS)
    schedule.on_poll([beat(now, "ab")], now=now)
    assert schedule.due == pytest.approx(now + POLL_SECONDS, rel=1e-3)


def test_a_long_answer_is_polled_less_often() -> None:
    schedule = PollSchedule()
    schedule.on_poll([beat(0.0, "x" * 400_000)], now=3.0)
    assert schedule.due == pytest.approx(3.0 + POLL_SECONDS + 1.0, rel=1e-3)


class Server:
    def __init__(self) -> None:
        self.polls = 0
        self.fails = False

    async def read(self) -> list[ActivityHeartbeat]:
        self.polls += 1
        await asyncio.sleep(0)
        if self.fails:
            raise ConnectionError("away")
        return [beat(0.0, self.polls)]


async def test_all_watchers_of_a_client_share_a_poll() -> None:
    feeds, server = HeartbeatFeeds(), Server()
    feed = feeds.feed("t1", server.read)
    assert feeds.feed("t1", server.read) is feed
    found = await asyncio.gather(*(feed.next() for _ in range(20)))
    assert (server.polls, [each[0].details for each in found]) == (1, [1] * 20)
    leaving = asyncio.create_task(feed.next())
    staying = asyncio.create_task(feed.next())
    await asyncio.sleep(0)
    leaving.cancel()
    assert [each.details for each in await staying] == [2]


async def test_a_poll_that_fails_fails_for_all_and_is_made_again() -> None:
    server = Server()
    feed = HeartbeatFeeds().feed("t1", server.read)
    server.fails = True
    failures = await asyncio.gather(feed.next(), feed.next(), return_exceptions=True)
    assert [type(failure) for failure in failures] == [ConnectionError] * 2
    server.fails = False
    assert [each.details for each in await feed.next()] == [2]


async def test_a_feed_is_forgotten_when_no_watcher_holds_it() -> None:
    feeds, server = HeartbeatFeeds(), Server()
    feed = feeds.feed("t1", server.read)
    await feed.next()
    held = weakref.ref(feed)
    del feed
    gc.collect()
    assert held() is None
