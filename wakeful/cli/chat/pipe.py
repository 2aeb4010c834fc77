"""`wakeful chat` for programs: a message a line on standard input, and answers on standard output.

Nobody is there to be asked: a decision is waited for, and how to make it is said on standard error.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator

from wakeful.cli.chat.resume import newest_events
from wakeful.cli.terminal.follow import Quiet
from wakeful.cli.terminal.render import event_lines, pending_lines, readable
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.client.wake import describe
from wakeful.contract.errors import CallerError
from wakeful.contract.events import EventRecord, RunFinish, TextDelta
from wakeful.contract.runs import Suspended


async def pipe(client: Client, agent_id: str, thread_id: str | None, *, as_json: bool) -> None:
    """Send each line when the one before has been answered, until there are no more."""
    thread = thread_id or f"{agent_id}-{uuid.uuid4().hex[:8]}"
    if not as_json:
        print(f"thread {thread}", file=sys.stderr, flush=True)
    after = await _last(client, thread)
    async for text in _messages(as_json=as_json):
        await client.send(thread, text, agent_id=agent_id)
        after = await _answered(client, thread, after, as_json=as_json)


async def _answered(client: Client, thread_id: str, after: int, *, as_json: bool) -> int:
    """Show one turn, and give the number of its last event."""
    async with Quiet(client, thread_id, _say) as quiet:
        async for record in client.watch(thread_id, after=after, on_trouble=quiet.troubled):
            quiet.heard()
            after = record.seq
            if as_json:
                print(record.model_dump_json(), flush=True)
            else:
                await _show(client, record)
            if isinstance(record.event, RunFinish) and not isinstance(record.event.termination, Suspended):
                break
    return after


async def _show(client: Client, record: EventRecord) -> None:
    match record.event:
        case TextDelta(delta=text):
            print(readable(text), flush=True)
        case RunFinish(termination=Suspended()):
            for pending in pending_of(await client.status(record.thread_id)):
                print("\n".join(pending_lines(pending)), file=sys.stderr, flush=True)
        case event:
            for line in event_lines(event):
                print(line, file=sys.stderr, flush=True)


async def _messages(*, as_json: bool) -> AsyncIterator[str]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        if text := (_parsed(line) if as_json else line).strip():
            yield text


def _parsed(line: str) -> str:
    """A message as JSON, so that it can have several lines."""
    try:
        text = json.loads(line)
    except json.JSONDecodeError:
        text = None
    if not isinstance(text, str):
        raise CallerError(f"with --json, a message is a JSON string a line: {line.strip()!r} is none")
    return text


async def _last(client: Client, thread_id: str) -> int:
    """The number of the thread's last event so far."""
    if await describe(client.temporal, thread_id) is None:
        return 0
    records = await newest_events(client, thread_id)
    return records[-1].seq if records else 0


def _say(words: str) -> None:
    print(f"! {words}", file=sys.stderr, flush=True)
