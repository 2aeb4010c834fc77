"""Too much of anything is cut or refused where it enters, in words, and never leaves a run stuck."""

import os
import random
import subprocess
import sys
from functools import reduce
from operator import and_
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry as app_registry
from tests.support.processes import ROOT
from tests.support.waiting import until, until_refused, until_status
from wakeful import (
    Agent,
    ConfigurationError,
    Registry,
    RunStatus,
    ScriptedModel,
    StateKey,
    ThreadMode,
    ToolContext,
    ToolMode,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError
from wakeful.storage import data_converter
from wakeful.worker import WorkerSettings, running_worker


async def test_a_huge_tool_result_is_cut_with_a_note(usual_client: Client, thread_id: str) -> None:
    await usual_client.run("tester", "flood", thread_id=thread_id)
    (result,) = [message.text for message in await usual_client.transcript(thread_id) if message.tool_call_id]
    assert len(result) < 300_000
    assert result.endswith("[cut: the result has 3,000,002 bytes, and its first 255,998 are shown]")


async def test_the_client_rejects_a_huge_message_and_a_huge_decision(usual_client: Client, thread_id: str) -> None:
    too_large = "at most 1,000,000 are accepted: store large content where a tool can read it"
    with pytest.raises(CallerError, match=too_large):
        await usual_client.send(thread_id, "x" * 1_000_001, agent_id="tester")
    with pytest.raises(CallerError, match=too_large):
        await usual_client.submit(thread_id, "x" * 1_000_001)
    with pytest.raises(CallerError, match="at most 256,000 are accepted"):
        await usual_client.decide(thread_id, "1-1", "resume", result="x" * 256_001)


async def test_a_huge_signal_from_any_client_is_refused_and_harms_nothing(usual_client: Client, thread_id: str) -> None:
    client = usual_client
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal("submit", {"input": "x" * 1_000_001})
    assert "at most 1,000,000 are accepted" in (await until_refused(client, thread_id)).refusals[0].reason
    await client.decide(thread_id, view.pending[0].pending.id, "resume")
    assert (await client.result(thread_id)).status_reason == "natural"


def test_large_payloads_can_be_kept_outside_history(tmp_path: Path) -> None:
    """A whole runtime with the payload store switched on, and a cold worker that reads the thread back from it."""
    program = ROOT / "tests" / "support" / "stored_thread.py"
    env = {**os.environ, "WAKEFUL_PAYLOAD_STORE": f"dir:{tmp_path}/store"}
    ran = subprocess.run([sys.executable, str(program)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "natural 200000", ran.stderr
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.parametrize("place", ["ftp://x", "dir:", "s3://"])
async def test_an_unknown_place_for_payloads_is_named(place: str) -> None:
    with pytest.raises(ConfigurationError, match="write it as dir:/path or s3://bucket"):
        await data_converter({"WAKEFUL_PAYLOAD_STORE": place})


@tool(read_only=True, local=True)
def read_page(page: int) -> str:
    """Read a page; it does not compress."""
    return random.Random(page).randbytes(100_000).hex()


async def test_results_of_many_local_calls_at_once_fit_a_workflow_task(
    temporal: TemporalClient, thread_id: str
) -> None:
    """The server terminates a thread whose workflow task would have more than four megabytes."""
    asks = reduce(and_, (call("read_page", page=page) for page in range(21)))
    agent = Agent(id="reader", tools=[read_page], tool_mode=ToolMode.PARALLEL)
    registry = Registry(agents=[agent], models={"default": ScriptedModel([asks, say("read")])})
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        result = await client.run("reader", "go", thread_id=thread_id)
        assert (result.status_reason, result.response) == ("natural", "read")
        messages = await client.transcript(thread_id)
    assert [len(message.text) for message in messages if message.tool_call_id] == [200_000] * 21


NOTES = StateKey("notes", str, default="", scope="thread")


@tool(idempotent=True)
async def keep(ctx: ToolContext, size: int) -> str:
    """Keep notes of this size, if it is not zero."""
    if size:
        ctx.state.set(NOTES, "n" * size)
    return f"{len(ctx.state.get(NOTES)):,} kept"


async def test_calls_whose_inputs_would_not_fit_a_workflow_task_wait_for_room(
    temporal: TemporalClient, thread_id: str
) -> None:
    """Each call is given the whole state: twelve of them at once would be 4.7 megabytes."""
    many = reduce(and_, (call("keep", size=0) for _ in range(12)))
    agent = Agent(id="keeper", tools=[keep], state=[NOTES], tool_mode=ToolMode.PARALLEL)
    model = ScriptedModel([call("keep", size=390_000), many, say("kept")])
    client = Client(temporal, task_queue=thread_id)
    registry = Registry(agents=[agent], models={"default": model})
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        result = await client.run("keeper", "go", thread_id=thread_id)
        messages = await client.transcript(thread_id)
    assert (result.status_reason, result.response) == ("natural", "kept")
    assert [message.text for message in messages if message.tool_call_id] == ["390,000 kept"] * 13


async def test_a_cancel_in_the_task_that_would_call_the_model_loses_no_message(
    temporal: TemporalClient, thread_id: str
) -> None:
    """What the model was about to be given was in no inference's input, and no later one found it in history."""
    client, settings = Client(temporal, task_queue=thread_id), WorkerSettings(task_queue=thread_id)
    async with running_worker(temporal, app_registry, settings):
        await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal("decide", {"target": "1-1", "action": "cancel"})
    await client.handle(thread_id).signal("cancel", {"reason": "stop"})
    async with running_worker(temporal, app_registry, settings):
        await until_status(client, thread_id, RunStatus.DONE)
        await client.send(thread_id, "hello")
        view = await until(client, thread_id, lambda view: view.runs == 2 and view.result is not None)
    assert view.result is not None
    assert view.result.status_reason == "natural"
