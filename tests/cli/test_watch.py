"""`wakeful watch` and `wakeful run`: what happens on a thread, for programs, for pipes and for people."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.fake_provider.script import Answer, Call, Hold
from tests.support.fake_provider.server import FakeProvider
from tests.support.processes import ROOT, WAKEFUL, running, wakeful
from tests.support.provider_app import AGENT, HELPER, QUEUE
from tests.support.terminal import CTRL_C, terminal
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunStatus
from wakeful.client.client import Client


@pytest.fixture
def talkers(client: Client) -> Client:
    """A client for the agents whose model is the fake provider."""
    return Client(client.temporal, task_queue=QUEUE)


async def test_a_run_that_has_ended_is_shown_from_its_start_or_from_any_event_on(
    client: Client, address: str, thread_id: str
) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    whole = await wakeful("watch", thread_id, address=address)
    assert (whole.code, whole.out.splitlines()) == (
        0,
        ["> add", "→ add(a=2, b=3)", "✓ add: 5", "  the sum is 5", "■ natural"],
    )
    stored = [record.model_dump(mode="json") async for record in client.watch(thread_id)]
    printed = [
        json.loads(line) for line in (await wakeful("watch", thread_id, "--json", address=address)).out.splitlines()
    ]
    assert printed == stored
    rest = await wakeful("watch", thread_id, "--json", "--after", "4", address=address)
    assert [json.loads(line)["seq"] for line in rest.out.splitlines()] == [record["seq"] for record in stored[4:]]


async def test_a_closed_pipe_ends_the_command(client: Client, address: str, thread_id: str) -> None:
    """As `wakeful watch … | head -1` does."""
    await client.run("tester", "count", thread_id=thread_id)
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "TEMPORAL_ADDRESS": address}
    process = await asyncio.create_subprocess_exec(WAKEFUL, "watch", thread_id, env=env, cwd=ROOT, stdout=write)
    os.close(write)
    async with asyncio.timeout(BOUND_SECONDS):
        assert await process.wait() == 128 + signal.SIGPIPE


async def test_an_after_that_is_no_number_is_one_clear_line(client: Client, address: str) -> None:
    ran = await wakeful("watch", "t", "--after", "x=y", address=address)
    says = "wakeful: --after 'x=y' is not an event's number: write SEQ, or THREAD=SEQ for a sub-agent\n"
    assert (ran.code, ran.err) == (1, says)


async def test_ctrl_c_leaves_and_prints_how_to_continue(client: Client, address: str, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    async with (
        running("watch", thread_id, address=address, errors=asyncio.subprocess.PIPE) as program,
        asyncio.timeout(BOUND_SECONDS),
    ):
        assert program.stdout is not None
        while b"suspended" not in await program.stdout.readline():
            pass
        program.send_signal(signal.SIGINT)
        _, err = await program.communicate()
    last = (await client.events(thread_id)).last
    assert (program.returncode, err.decode()) == (
        130,
        f"continue with:  wakeful watch --after {last} {thread_id}\n",
    )
    await client.cancel(thread_id)


async def test_sub_agents_are_printed_under_their_paths(
    address: str, talkers: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(
        Answer(calls=(Call("c1", f"agent_run_{HELPER}", '{"prompt": "Help."}'),)),
        Answer("I have helped."),
        Answer("Done."),
    )
    await talkers.run(AGENT, "Get help.", thread_id=thread_id)
    ran = await wakeful("watch", thread_id, "--descendants", address=address)
    (child,) = {line.split(":")[0].strip() for line in ran.out.splitlines() if line.startswith(f"  {thread_id}/")}
    assert f"  {child}:   I have helped." in ran.out.splitlines()
    assert ran.out.index("I have helped.") < ran.out.index(f"✓ agent_run_{HELPER}")
    async with terminal("watch", thread_id, "--descendants", TEMPORAL_ADDRESS=address) as seen:
        assert await seen.ended() == 0
        shown = await seen.until("■ natural")
        assert f"  {child}\n  > Help.\n    I have helped.\n" in shown


async def test_a_watched_answer_is_seen_before_it_is_whole(
    address: str, talkers: Client, provider: FakeProvider, thread_id: str
) -> None:
    rest = asyncio.Event()
    provider.will(Answer("Once upon a time there was a worker.", chunk=4, faults=(Hold(3, rest),)))
    await talkers.start(AGENT, "Tell.", thread_id=thread_id)
    async with terminal("watch", thread_id, TEMPORAL_ADDRESS=address) as seen:
        shown = await seen.until("Once upon a")
        assert "worker" not in shown
        rest.set()
        await seen.until("Once upon a time there was a worker.")
        assert await seen.ended() == 0


async def test_a_run_at_a_terminal_is_live_and_prints_its_answer_once(
    address: str, talkers: Client, provider: FakeProvider, thread_id: str
) -> None:
    rest = asyncio.Event()
    provider.will(Answer("Once upon a time there was a worker.", chunk=4, faults=(Hold(3, rest),)))
    command = ("run", AGENT, "Tell.", "--thread", thread_id, "--task-queue", QUEUE)
    async with terminal(*command, TEMPORAL_ADDRESS=address) as seen:
        await seen.until("Once upon a")
        rest.set()
        assert await seen.ended() == 0
        shown = await seen.until("■ natural")
        assert shown.count("Once upon a time there was a worker.") == 1


async def test_a_run_whose_answer_is_captured_shows_its_events_on_the_terminal(
    address: str, talkers: Client, provider: FakeProvider, thread_id: str, tmp_path: Path
) -> None:
    """As `answer=$(wakeful run …)` captures it."""
    rest = asyncio.Event()
    provider.will(Answer("Once upon a time there was a worker.", chunk=4, faults=(Hold(3, rest),)))
    command = ("run", AGENT, "Tell.", "--thread", thread_id, "--task-queue", QUEUE)
    captured = tmp_path / "answer"
    async with terminal(*command, out=captured, TEMPORAL_ADDRESS=address) as seen:
        await seen.until("Once upon a")
        rest.set()
        assert await seen.ended() == 0
        await seen.until("■ natural")
    assert captured.read_text() == "Once upon a time there was a worker.\n"


async def test_only_a_model_that_reasons_is_shown_thinking(
    address: str, talkers: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("Seven.", reasoning="Five and two."))
    ran = await wakeful("run", AGENT, "Add.", "--thread", thread_id, "--task-queue", QUEUE, address=address)
    assert (ran.out, ran.err.splitlines()[1:]) == ("Seven.\n", ["· thinking: Five and two.", "  Seven.", "■ natural"])


@pytest.mark.integration
async def test_a_missing_worker_is_reported(client: Client, address: str, thread_id: str) -> None:
    command = ("run", "tester", "hi", "--thread", thread_id, "--task-queue", "no-worker")
    async with terminal(*command, TEMPORAL_ADDRESS=address) as seen:
        # The command asks for a worker, and so does the watcher of the thread: whichever is first says so.
        await seen.until(lambda screen: "! no worker" in screen.text and "; waiting" in screen.text)
        seen.type(CTRL_C)
        assert await seen.ended() == 130
    await client.handle(thread_id).terminate()


async def test_a_thread_that_waits_is_watched_until_it_has_ended(client: Client, address: str, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    watching = asyncio.create_task(wakeful("watch", thread_id, address=address))
    await client.decide(thread_id, "1-1", "resume", result=True)
    assert (await watching).out.splitlines()[-1] == "■ natural"


async def test_a_thread_that_was_terminated_is_watched_to_its_error(
    client: Client, address: str, thread_id: str
) -> None:
    """B-702"""
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).terminate(reason="by hand")
    ran = await wakeful("watch", thread_id, address=address)
    assert ran.out.splitlines()[-1] == f"✗ thread {thread_id!r} was terminated in Temporal: by hand"


async def test_a_run_that_was_ended_from_outside_says_so_once(client: Client, address: str, thread_id: str) -> None:
    command = ("run", "tester", "approve", "--thread", thread_id, "--task-queue", client.task_queue)
    running = asyncio.create_task(wakeful(*command, address=address))
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).terminate(reason="by hand")
    ran = await running
    assert (ran.code, (ran.out + ran.err).count("by hand")) == (1, 1)
