"""`wakeful a2a serve`, in a process of its own."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from a2a.types import SubscribeToTaskRequest, TaskState
from temporalio.client import Client as TemporalClient

from tests.a2a.conftest import calling, own, serving, text_of
from tests.support.processes import ROOT, WAKEFUL, wakeful
from tests.support.subagent_app import delegate, plan, written
from tests.support.waiting import BOUND_SECONDS, until
from wakeful.a2a import app
from wakeful.client.client import Client
from wakeful.contract.errors import ConfigurationError


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[str]:
    """A server in a process of its own; yields its url, and stops it with SIGTERM, which must end it cleanly."""
    process = await asyncio.create_subprocess_exec(
        *(WAKEFUL, "a2a", "serve", "--port", "0", *options), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            line = (await process.stdout.readline()).decode()
        yield line.removeprefix("A2A on ").partition(",")[0]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND_SECONDS):
            assert (await process.stdout.read()).decode() == "A2A server stopped\n"
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_the_command_serves_agents_that_it_does_not_have_itself(
    client: Client, temporal: TemporalClient, thread_id: str
) -> None:
    address = temporal.service_client.config.target_host
    async with served("--address", address, "--agent", "tester=Does what tests ask.") as url:
        async with calling(url, thread_id) as caller:
            assert text_of(await caller.task(caller.request("add"))) == "the sum is 5"
            card = (await caller.http.get(f"{url}/.well-known/agent-card.json")).json()
        # A client that is connected does not keep the server from stopping.
        streaming = asyncio.create_task(_stream(url, f"{thread_id}-streamed"))
        await until(client, own(f"{thread_id}-streamed"), lambda view: bool(view.pending))
    streaming.cancel()
    assert (card["name"], card["description"]) == ("tester", "Does what tests ask.")


async def _stream(url: str, context_id: str) -> None:
    async with calling(url, context_id, streaming=True) as caller:
        (asked, *_) = await caller.stream(caller.request("approve"))
        async for _ in caller.official.subscribe(SubscribeToTaskRequest(id=asked.task.id)):
            pass


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    for name in [name for name in sys.modules if name.startswith("wakeful.a2a.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "a2a", None)
    monkeypatch.setitem(sys.modules, "a2a.server.context", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'wakeful\[a2a\]'"):
        app(client, agents={"tester": ""}, url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "say which agents to serve"),
        (("--agent", "a=b", "--host", "0.0.0.0"), "set WAKEFUL_A2A_TOKEN to a token for the clients"),
        (("--app", "tests.support.app:registry", "--agent", "nobody"), "agent 'nobody' is unknown"),
        (("--agent", "a=b", "--url", "agents.example.com"), "must start with http:// or https://"),
    ],
)
async def test_the_command_says_what_is_missing(
    temporal: TemporalClient, options: tuple[str, ...], problem: str
) -> None:
    ran = await wakeful("a2a", "serve", "--port", "0", *options, address=temporal.service_client.config.target_host)
    assert (ran.code, problem in ran.err) == (1, True), ran.err


async def test_a_question_of_a_delegate_is_asked_and_answered_by_its_task(
    usual_subagents: Client, thread_id: str
) -> None:
    asking = plan([delegate(plan([("sign", {"what": "the lease"})]))])
    async with (
        serving(usual_subagents, agents={"node": "Follows plans."}) as url,
        calling(url, thread_id) as caller,
    ):
        asked = await caller.task(caller.request(written(asking)))
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert asked.status.message.parts[0].text == "May I the lease?"
        answer = caller.request("go ahead", task_id=asked.id)
        done = await caller.task(answer)
        assert (done.status.state, "signed the lease" in text_of(done)) == (TaskState.TASK_STATE_COMPLETED, True)
        assert await caller.task(answer) == done
