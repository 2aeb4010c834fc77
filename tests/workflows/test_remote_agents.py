"""Agents that another service runs: a real A2A peer, which is a2a-sdk's own server."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client as TemporalClient

from tests.support.a2a_peer import PNG
from tests.support.remote_app import Remote, remote_runtime
from tests.support.waiting import until, until_status
from wakeful import FrontendTool, RunStatus, call, say
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.contract.messages import Base64Source, ImageBlock
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.remote import RemoteState
from wakeful.contract.runs import Cancelled, Errored, NaturalEnd, RunResult

Runtime = Callable[..., AbstractAsyncContextManager[Remote]]


@pytest.fixture(params=[2000, pytest.param(1, marks=pytest.mark.restless)], ids=["usual", "restless"])
def remote(temporal: TemporalClient, thread_id: str, request: pytest.FixtureRequest) -> Runtime:
    return partial(remote_runtime, temporal, f"queue-{thread_id}", events=request.param)


async def run(remote: Remote, text: str, thread_id: str, **more: Any) -> RunResult:
    async with asyncio.timeout(60):
        return await remote.client.run("remote", text, thread_id=thread_id, **more)


async def result(client: Client, thread_id: str) -> RunResult:
    async with asyncio.timeout(60):
        return await client.result(thread_id)


async def test_a_remote_agent_answers_as_the_agent_of_a_run(remote: Runtime, thread_id: str) -> None:
    """B-628, B-629."""
    async with remote() as there:
        ended = await run(there, "say hello", thread_id)
        assert (ended.response, ended.termination, ended.steps) == ("hello", NaturalEnd(), 1)
        events = [record.event.event_type async for record in there.client.watch(thread_id)]
        step = ["step_start", "text_delta", "inference_complete", "step_end"]
        assert events == ["message_received", "run_start", *step, "run_finish"]
        assert there.peer.messages == ["say hello"]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streams", [True, False], ids=["streams", "polled"])
async def test_a_task_that_takes_long_is_polled_and_submitted_once(
    remote: Runtime, thread_id: str, binding: str, streams: bool
) -> None:
    async with remote(peer={"binding": binding, "streams": streams}) as there:
        await there.client.start("remote", "work hard", thread_id=thread_id)
        await there.peer.until(lambda peer: len(peer.methods) >= (3 if streams else 6))
        there.peer.released.set()
        assert (await result(there.client, thread_id)).response == "worked on hard"
        assert there.peer.messages == ["work hard"]


async def test_between_two_polls_no_worker_holds_the_call(remote: Runtime, thread_id: str) -> None:
    async with remote(peer={"streams": False}, poll_seconds=30) as there:
        await there.client.start("remote", "work hard", thread_id=thread_id)
        await there.peer.until(lambda peer: bool(peer.ledger))
        async with asyncio.timeout(60):
            while await _state(there.client, thread_id) != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
                await asyncio.sleep(0.05)
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()


async def _state(client: Client, thread_id: str) -> PendingActivityState.ValueType | None:
    described = await client.handle(thread_id).describe()
    [pending] = described.raw_description.pending_activities
    return pending.state if pending.attempt > 1 else None


async def test_text_appears_while_the_service_streams_it(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        await there.client.start("remote", "stream one two", thread_id=thread_id, live=True)
        text, was_live = "", False
        async with asyncio.timeout(60):
            async for record in there.client.watch(thread_id, live=True):
                if record.event.event_type == "text_delta":
                    text, was_live = text + record.event.delta, was_live or record.provisional
                if was_live:
                    there.peer.released.set()
        assert (text, was_live) == ("one two ", True)


@pytest.mark.parametrize(
    ("text", "response", "code"),
    [
        ("message hi", "hi", ""),
        ("data Rome", '{"city": "Rome", "degrees": 7}', ""),
        ("fail no luck", "remote agent 'remote' failed: no luck", "remote_failed"),
        ("reject not for you", "remote agent 'remote' rejected the task: not for you", "remote_rejected"),
    ],
)
async def test_every_end_of_a_task_is_an_end_of_the_run(
    remote: Runtime, thread_id: str, text: str, response: str, code: str
) -> None:
    """B-629."""
    async with remote() as there:
        ended = await run(there, text, thread_id)
    if code:
        assert ended.termination == Errored(value=response, code=code)
    else:
        assert (ended.response, ended.termination) == (response, NaturalEnd())


async def test_structured_data_of_the_service_is_the_output_of_the_run(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        assert (await run(there, "data Rome", thread_id)).output == {"city": "Rome", "degrees": 7}


@pytest.mark.parametrize(("verb", "kind"), [("ask", "input"), ("auth", "auth")])
async def test_a_question_waits_for_a_decision_which_continues_the_same_task(
    remote: Runtime, thread_id: str, verb: str, kind: str
) -> None:
    """B-629."""
    async with remote() as there:
        await there.client.start("remote", f"{verb} Which city?", thread_id=thread_id)
        view = await until_status(there.client, thread_id, RunStatus.WAITING)
        [ticket] = view.pending
        [first] = there.peer.ledger
        assert ticket.pending.name == "remote_input"
        asked = {"question": "Which city?", "kind": kind, "task_id": first.task_id, "context_id": first.context_id}
        assert ticket.pending.arguments == asked
        await there.client.decide(thread_id, ticket.pending.id, "resume", result="Rome")
        assert (await result(there.client, thread_id)).response == "you said Rome"
        assert [(entry.task_id, entry.text) for entry in there.peer.ledger[1:]] == [(first.task_id, "Rome")]


async def test_a_denied_question_is_answered_with_the_reason(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        await there.client.start("remote", "ask Which city?", thread_id=thread_id)
        view = await until_status(there.client, thread_id, RunStatus.WAITING)
        await there.client.decide(thread_id, view.pending[0].pending.id, "cancel", reason="ask someone else")
        assert "ask someone else" in (await result(there.client, thread_id)).response
        assert len(there.peer.tasks) == 1


async def test_later_messages_of_a_thread_continue_the_conversation_at_the_service(
    remote: Runtime, thread_id: str
) -> None:
    """B-629: a task that has ended is not used again."""
    async with remote() as there:
        for number in (1, 2):
            await there.client.send(thread_id, f"say {number}", agent_id="remote", message_id=f"m{number}")
            await until(there.client, thread_id, lambda view: view.runs == number and view.result is not None)  # noqa: B023
        assert there.peer.messages == ["say 1", "say 2"]
        assert len({entry.context_id for entry in there.peer.ledger}) == 1
        assert len(there.peer.tasks) == 2
        await there.client.close(thread_id)


async def test_a_fork_begins_a_conversation_of_its_own_and_tells_what_was_said(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        await run(there, "say one", thread_id)
        fork_id = await there.client.fork(thread_id, at=1, message="say two", new_thread_id=f"{thread_id}-fork")
        assert (await result(there.client, fork_id)).response == "two"
        first, second = there.peer.ledger
        assert second.context_id != first.context_id
        assert "User: say one" in second.text
        assert "Assistant: one" in second.text


async def test_a_remote_agent_is_a_delegate(remote: Runtime, thread_id: str) -> None:
    """B-629."""
    turns = [call("agent_run_remote", prompt="say it rains"), say("told: {result}")]
    async with remote(turns=turns) as there:
        await there.client.start("local", "weather?", thread_id=thread_id)
        ended = await result(there.client, thread_id)
        assert "it rains" in ended.response
        assert there.peer.messages == ["say it rains"]


async def test_the_files_of_a_remote_agent_are_in_the_result_of_its_run(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        ended = await run(there, "file the plan", thread_id)
        picture = ImageBlock(source=Base64Source(media_type="image/png", data=b64encode(PNG).decode()))
        assert (ended.artifacts, ended.response.splitlines()[0]) == ((picture,), "the plan")


async def test_the_files_of_a_remote_agent_reach_the_agent_that_delegated_to_it(
    remote: Runtime, thread_id: str
) -> None:
    """B-505"""
    turns = [call("agent_run_remote", prompt="file the plan"), call("agent_run_remote", prompt="say no"), say("seen")]
    async with remote(turns=turns) as there:
        await there.client.start("local", "Where?", thread_id=thread_id)
        assert (await result(there.client, thread_id)).response == "seen"
        [told] = [message for message in await there.client.transcript(thread_id) if message.media]
        picture = ImageBlock(source=Base64Source(media_type="image/png", data=b64encode(PNG).decode()))
        assert told.media == (picture,)
        events = [record.event async for record in there.client.watch(thread_id)]
        [first, _] = [event.result.media for event in events if event.event_type == "tool_call_done"]
        assert first == (picture,)


async def test_a_remote_agent_is_a_background_task(remote: Runtime, thread_id: str) -> None:
    turns = [call("spawn_agent", agent="remote", prompt="say it rains"), say("waiting"), say("done")]
    async with remote(turns=turns) as there:
        await there.client.start("local", "weather?", thread_id=thread_id)
        assert (await result(there.client, thread_id)).response == "done"
        told = [message.text for message in await there.client.transcript(thread_id)]
        assert any("background-task-event" in text and "it rains" in text for text in told)


async def test_a_conversation_is_handed_off_to_a_remote_agent(remote: Runtime, thread_id: str) -> None:
    turns = [call("handoff_to_remote", reason="it knows")]
    async with remote(turns=turns) as there:
        tools = [FrontendTool(id="open_page")]  # meant for the local agent
        await there.client.start("local", "say hello", thread_id=thread_id, frontend_tools=tools)
        assert (await result(there.client, thread_id)).termination == NaturalEnd()
        [told] = there.peer.messages
        assert "User: say hello" in told


async def test_what_a_remote_agent_cannot_do_is_refused(remote: Runtime, thread_id: str) -> None:
    """B-628."""
    async with remote() as there:
        overrides, tools = InferenceOverrides(temperature=0.5), [FrontendTool(id="open_page")]
        await there.client.start("remote", "say hello", thread_id=thread_id, overrides=overrides, frontend_tools=tools)
        ended = await result(there.client, thread_id)
        refused = "agent 'remote' backend does not support: overrides, frontend_tools"
        assert ended.termination == Errored(value=refused, code="unsupported")
        assert there.peer.ledger == []


async def test_a_remote_task_is_shown_truthfully(remote: Runtime, thread_id: str) -> None:
    async with remote(peer={"streams": False}, poll_seconds=30) as there:
        await there.client.start("remote", "work hard", thread_id=thread_id)
        async with asyncio.timeout(60):
            while "A worker has asked for it" not in (found := await there.client.why(thread_id)).why:
                await asyncio.sleep(0.05)
        assert (found.cause, bool(found.commands)) == (Cause.REMOTE_WORKING, True)
        [task_id] = there.peer.tasks
        assert "waits for remote agent remote, whose task has been " in found.doing
        assert f"Its task is {task_id} at {there.peer.url}. A worker has asked for it 1 time" in found.why
        task = (await there.client.tree(thread_id)).remote
        assert task is not None
        assert (task.service, task.task_id) == (there.peer.url, task_id)
        assert task.state in (RemoteState.SUBMITTED, RemoteState.WORKING)
        assert task.next_poll is not None
        assert (await there.client.status(thread_id)).doing == f"calling remote agent remote at {there.peer.url}"
        await there.client.cancel(thread_id)
        await result(there.client, thread_id)
