"""One thread, thousands of messages, watchers all along, and a worker that is killed again and again.

WAKEFUL_FAULT_MESSAGES=2000 WAKEFUL_FAULT_KILLS=20 make faults
"""

import asyncio
import os
import random
import statistics
import sys
import time
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.support.journal import Journal
from tests.support.processes import kill, worker_process
from wakeful.client import WakefulClient
from wakeful.contract.events import RunFinish

MESSAGES = int(os.environ.get("WAKEFUL_FAULT_MESSAGES", "2000"))
KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "20"))
EVENTS_BUDGET = 2000
APP = "tests.faults.long_thread_app:registry"


@pytest.mark.faults
async def test_nothing_is_lost_or_doubled_however_often_the_worker_dies(temporal: Client, tmp_path: Path) -> None:
    thread, journal = "long-thread", Journal(tmp_path / "journal.jsonl")
    client = WakefulClient(temporal, task_queue="long-thread")
    kill_before = set(random.Random(7).sample(range(1, MESSAGES), KILLS))
    seen: list[list[int]] = [[], [], []]
    answered = [asyncio.Event() for _ in range(MESSAGES + 1)]
    took: list[float] = []
    address = temporal.service_client.config.target_host
    processes = worker_process(address, "long-thread", journal.path, app=APP)
    process = await processes.__aenter__()
    await client.send(thread, "message 1", agent_id="marker", message_id="m1")
    watchers = [asyncio.create_task(watch(client, thread, seen[n], answered if n == 0 else None)) for n in range(3)]
    for number in range(1, MESSAGES + 1):
        began = time.monotonic()
        if number > 1:
            await client.send(thread, f"message {number}", message_id=f"m{number}")
        if number in kill_before:
            await asyncio.sleep(random.Random(number).random() * 0.2)
            await kill(process)
            processes = worker_process(address, "long-thread", journal.path, app=APP)
            process = await processes.__aenter__()
        async with asyncio.timeout(300):
            await answered[number].wait()
        took.append(time.monotonic() - began)
        if number % 100 == 0:
            print(
                f"{number} messages, median {statistics.median(took[-50:]) * 1000:.0f} ms", file=sys.stderr, flush=True
            )
    await asyncio.gather(*watchers)

    transcript = await client.transcript(thread)
    asked = [message.text for message in transcript if message.role == "user"]
    assert asked == [f"message {number}" for number in range(1, MESSAGES + 1)]
    assert [message.text for message in transcript if message.role == "assistant"][1::2] == [
        f"answer to message {number}" for number in range(1, MESSAGES + 1)
    ]
    marks = [message.text for message in transcript if message.tool_call_id]
    assert marks == [f"mark {n}" for n in (1, 2, 3, 4, 5)] * MESSAGES
    assert len({line["key"] for line in journal.lines()}) == 5 * MESSAGES
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in seen)
    assert len({len(seqs) for seqs in seen}) == 1
    await client.handle(thread).cancel()
    await client.result(thread)
    await kill(process)
    lengths = [e.history_length or 0 async for e in temporal.list_workflows(f"WorkflowId = '{thread}'")]
    first, last = (statistics.median(turns) * 1000 for turns in (took[:50], took[-50:]))
    print(
        f"{len(lengths)} executions, the longest {max(lengths)} events; first turns {first:.0f} ms, last {last:.0f} ms"
    )
    assert max(lengths) < EVENTS_BUDGET + 200
    assert last < 10 * first  # a bound for busy machines; the figures are printed above


async def watch(client: WakefulClient, thread: str, seen: list[int], answered: list[asyncio.Event] | None) -> None:
    """See every event of the thread, until the last message is answered; begin again wherever the line breaks."""
    while True:
        try:
            async for record in client.watch(thread, after=len(seen)):
                seen.append(record.seq)
                if not isinstance(record.event, RunFinish):
                    continue
                run = int(record.run_id.partition(".")[2] or 1)
                if answered is not None:
                    answered[run].set()
                if run == MESSAGES:
                    return
        except Exception as error:
            print(f"watcher begins again: {error}", file=sys.stderr)
            await asyncio.sleep(0.2)
