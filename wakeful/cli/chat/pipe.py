"""`wakeful chat` for programs: a message per line on standard input, answers on standard output.

There is no person to ask: the chat waits for decisions, and prints on standard error how to make them.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

from wakeful.cli.chat.resume import newest_events
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.outage_notice import OutageNotice, warn
from wakeful.cli.terminal.pending_lines import pending_lines
from wakeful.cli.terminal.render import event_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.client.wake import describe
from wakeful.contract.errors import CallerError
from wakeful.contract.events import AnswerGiven, EventRecord, MessageReceived, RunFinish, TextDelta
from wakeful.contract.runs import Suspended

Send = Callable[[str, str], Awaitable[str]]
"""Sends a message to a thread."""


async def pipe(client: Client, agent_id: str, thread_id: str | None, *, send: Send, as_json: bool) -> None:
    """Send each message when the one before has been answered, until the input ends."""
    thread = thread_id or f"{agent_id}-{uuid.uuid4().hex[:8]}"
    if not as_json:
        print(f"thread {thread}", file=sys.stderr, flush=True)
    after = await _last_event(client, thread)
    async for text in _read_messages(as_json=as_json):
        await send(thread, text)
        after = await _print_answer(client, thread, after, as_json=as_json)


async def _print_answer(client: Client, thread_id: str, after: int, *, as_json: bool) -> int:
    """Print a run's answer, and return the number of its last event."""
    async with OutageNotice(client, thread_id, warn) as notice:
        async for record in client.watch(thread_id, after=after, on_trouble=notice.on_trouble):
            notice.on_record()
            after = record.seq
            if as_json:
                print(record.model_dump_json(), flush=True)
            else:
                await _print(client, record)
            if isinstance(record.event, RunFinish) and not isinstance(record.event.termination, Suspended):
                break
    return after


async def _print(client: Client, record: EventRecord) -> None:
    match record.event:
        case TextDelta(delta=text) | AnswerGiven(text=text):
            print(readable(text), flush=True)
        case RunFinish(termination=Suspended()):
            for pending in pending_of(await client.status(record.thread_id)):
                print("\n".join(pending_lines(pending)), file=sys.stderr, flush=True)
        case MessageReceived():
            pass  # it was read from standard input
        case event:
            for line in event_lines(event):
                print(line, file=sys.stderr, flush=True)


async def _read_messages(*, as_json: bool) -> AsyncIterator[str]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        if text := (_parse_message(line) if as_json else line).strip():
            yield text


def _parse_message(line: str) -> str:
    """A message as a JSON string, so that it can have several lines."""
    try:
        text = json.loads(line)
    except json.JSONDecodeError:
        text = None
    if not isinstance(text, str):
        raise CallerError(f"with --json, each line is a message as a JSON string; this one is not: {line.strip()!r}")
    return text


async def _last_event(client: Client, thread_id: str) -> int:
    """The number of the thread's last event so far."""
    if await describe(client.temporal, thread_id) is None:
        return 0
    records = await newest_events(client, thread_id)
    return records[-1].seq if records else 0
