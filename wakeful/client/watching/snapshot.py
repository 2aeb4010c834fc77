"""Watch a thread from its present state: the conversation and the state first, and then what happens.

A page that opens a long thread need not read it from its first event. What it gets first are provisional records with
the number of the newest event that they include; after a rewind, it gets them again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from wakeful.client.changes import read_queued
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.live import REWOUND
from wakeful.client.watching.reading import read_events, read_messages
from wakeful.client.watching.watcher import WatchContext, Watcher
from wakeful.contract import names
from wakeful.contract.errors import NoAnswer
from wakeful.contract.events import (
    AgentEvent,
    EventRecord,
    MailArrived,
    MessageReceived,
    MessagesSnapshot,
    StateSnapshot,
    StreamReset,
)
from wakeful.contract.state import StateView
from wakeful.contract.views import StatusView

ATTEMPTS, PAUSE_SECONDS = 50, 0.1
"""How often a thread is read that changes meanwhile, or is being restored."""

_AFTER_ALL = 2**31


async def watch_from_snapshot(
    context: WatchContext, thread_id: str, *, live: bool
) -> AsyncGenerator[EventRecord, None]:
    """The thread as it is now, and its events from then on.

    Raises:
        NoAnswer: no worker has started the thread, or it changes faster than it can be read.
    """
    is_rewound = True
    while is_rewound:
        is_rewound = False
        snapshot = await read_snapshot(context.reader, thread_id)
        for record in snapshot:
            yield record
        watcher = Watcher(context, thread_id, after=snapshot[0].seq, live=live)
        async with aclosing(watcher.records()) as records:
            async for record in records:
                yield record
                if record.provisional and record.event == StreamReset(reason=REWOUND):
                    is_rewound = True
                    break


async def read_snapshot(reader: ThreadReader, thread_id: str) -> list[EventRecord]:
    """The conversation, the state and what waits, all as they were at one event; the first has the conversation."""
    for _ in range(ATTEMPTS):
        position = await _position(reader, thread_id)
        if position is not None:
            events = await _events(reader, thread_id)
            view = await reader.query(thread_id, names.QUERY_STATUS, StatusView)
            if position == await _position(reader, thread_id):
                return _records(position, view, events)
        await asyncio.sleep(PAUSE_SECONDS)
    raise NoAnswer(f"thread {thread_id!r} is being restored, or changes faster than it can be read: try again")


async def _position(reader: ThreadReader, thread_id: str) -> int | None:
    """The number of the newest event; None while the thread is being restored."""
    page = await read_events(reader, thread_id, after=_AFTER_ALL, run_id=None)
    return None if page.restoring else page.last


async def _events(reader: ThreadReader, thread_id: str) -> list[AgentEvent]:
    state = await reader.query(thread_id, names.QUERY_STATE, StateView)
    events: list[AgentEvent] = [MessagesSnapshot(messages=tuple(await read_messages(reader, thread_id)))]
    if state.values:
        events.append(StateSnapshot(snapshot={"revision": state.revision, "extensions": state.values}))
    for waiting in await read_queued(reader, thread_id):
        message = waiting.message
        mail = MailArrived(message_id=message.id, text=message.text)
        events.append(mail if waiting.mail else MessageReceived(message=message))
    return events


def _records(position: int, view: StatusView, events: list[AgentEvent]) -> list[EventRecord]:
    run = view.identity
    return [
        EventRecord(
            seq=position,
            at=int(time.time() * 1000),
            thread_id=run.thread_id,
            run_id=run.run_id,
            agent_id=view.active_agent or run.agent_id,
            path=(*run.path[1:], run.thread_id) if run.path else (),
            provisional=True,
            event=event,
        )
        for event in events
    ]
