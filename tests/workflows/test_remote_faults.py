"""Remote agents under faults: cancels, lost submissions, services that are down, secrets."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.a2a_peer import running_peer
from tests.support.remote_app import Remote, remote_runtime, remote_worker
from tests.support.waiting import until, until_status
from wakeful import RunStatus, Secret, call, say
from wakeful.client.client import Client
from wakeful.contract.runs import Cancelled, Errored, RunResult
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.service import RemoteService, Sending
from wakeful_activities.a2a.snapshots import RemoteSnapshot

Runtime = Callable[..., AbstractAsyncContextManager[Remote]]


@pytest.fixture(params=[2000, pytest.param(1, marks=pytest.mark.restless)], ids=["usual", "restless"])
def remote(temporal: TemporalClient, thread_id: str, request: pytest.FixtureRequest) -> Runtime:
    return partial(remote_runtime, temporal, f"queue-{thread_id}", events=request.param)


async def result(client: Client, thread_id: str) -> RunResult:
    async with asyncio.timeout(60):
        return await client.result(thread_id)


async def test_a_cancel_reaches_the_service_while_it_streams(remote: Runtime, thread_id: str) -> None:
    """B-629."""
    async with remote() as there:
        await there.client.start("remote", "stream one two", thread_id=thread_id)
        await there.peer.until(lambda peer: len(peer.methods) >= 3)
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()
        assert there.peer.cancels == there.peer.tasks


async def test_a_cancel_reaches_the_service_between_two_polls(remote: Runtime, thread_id: str) -> None:
    """B-629."""
    async with remote(peer={"streams": False}, poll_seconds=600) as there:
        await there.client.start("remote", "work", thread_id=thread_id)
        await until_polled(there.client, thread_id)
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()
        assert there.peer.cancels == there.peer.tasks


async def test_a_cancel_reaches_the_service_of_a_delegate(remote: Runtime, thread_id: str) -> None:
    turns = [call("agent_run_remote", prompt="work"), say("done")]
    async with remote(turns=turns) as there:
        await there.client.start("local", "go", thread_id=thread_id)
        await there.peer.until(lambda peer: bool(peer.ledger))
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()
        assert there.peer.cancels == there.peer.tasks


async def test_a_run_that_is_cancelled_while_its_agent_waits_for_an_answer_cancels_the_task(
    remote: Runtime, thread_id: str
) -> None:
    async with remote() as there:
        await there.client.start("remote", "ask Which city?", thread_id=thread_id)
        await until_status(there.client, thread_id, RunStatus.WAITING)
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()
        assert there.peer.cancels == there.peer.tasks


async def test_a_cancelled_run_does_not_wait_for_a_service_that_has_no_task(remote: Runtime, thread_id: str) -> None:
    async with remote(peer={"down": True}) as there:
        await there.client.start("remote", "work", thread_id=thread_id)
        await there.peer.until(lambda peer: bool(peer.methods))
        there.peer.down = False
        await there.client.cancel(thread_id)
        assert (await result(there.client, thread_id)).termination == Cancelled()


async def test_a_service_that_is_down_is_retried_and_gets_the_message_once(remote: Runtime, thread_id: str) -> None:
    async with remote(peer={"down": True}) as there:
        await there.client.start("remote", "say hello", thread_id=thread_id)
        await there.peer.until(lambda peer: len(peer.methods) >= 2)
        there.peer.down = False
        assert (await result(there.client, thread_id)).response == "hello"
        assert there.peer.messages == ["say hello"]


async def test_a_service_that_is_down_while_its_task_works_is_polled_again(remote: Runtime, thread_id: str) -> None:
    async with remote(peer={"streams": False}) as there:
        await there.client.start("remote", "work", thread_id=thread_id)
        await there.peer.until(lambda peer: bool(peer.ledger))
        there.peer.down = True
        asked = len(there.peer.methods)
        await there.peer.until(lambda peer: len(peer.methods) >= asked + 2)
        there.peer.released.set()
        there.peer.down = False
        assert (await result(there.client, thread_id)).response == "worked on "
        assert len(there.peer.messages) == 1


async def test_a_call_that_takes_too_long_ends_and_its_task_is_cancelled(remote: Runtime, thread_id: str) -> None:
    """B-629."""
    async with remote(peer={"streams": False}, timeout_seconds=1) as there:
        await there.client.start("remote", "work", thread_id=thread_id)
        ended = await result(there.client, thread_id)
        late = "remote agent 'remote' has not answered within 1 s: its task was cancelled"
        assert ended.termination == Errored(value=late, code="timeout")
        assert there.peer.cancels == there.peer.tasks


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first submission of each message is answered, and the answer does not arrive."""
    send, lost = RemoteService.send, set[str]()

    async def losing(self: RemoteService, sending: Sending, *, within: float) -> RemoteSnapshot:
        answer = await send(self, sending, within=within)
        if sending.message_id in lost:
            return answer
        lost.add(sending.message_id)
        raise RemoteError(RemoteErrorKind.UNAVAILABLE, "the connection failed", was_sent=True)

    monkeypatch.setattr(RemoteService, "send", losing)


@pytest.mark.usefixtures("lost_answers")
async def test_a_lost_submission_is_found_again(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        await there.client.start("remote", "say hello", thread_id=thread_id)
        assert (await result(there.client, thread_id)).response == "hello"
        assert there.peer.messages == ["say hello"]


@pytest.mark.usefixtures("lost_answers")
async def test_a_lost_answer_to_a_question_is_not_given_twice(remote: Runtime, thread_id: str) -> None:
    async with remote() as there:
        await there.client.start("remote", "ask Which city?", thread_id=thread_id)
        view = await until_status(there.client, thread_id, RunStatus.WAITING)
        await there.client.decide(thread_id, view.pending[0].pending.id, "resume", result="Rome")
        assert (await result(there.client, thread_id)).response == "you said Rome"
        assert there.peer.messages == ["ask Which city?", "Rome"]


@pytest.mark.usefixtures("lost_answers")
async def test_a_lost_submission_has_an_unknown_outcome_if_the_service_cannot_list_its_tasks(
    remote: Runtime, thread_id: str
) -> None:
    async with remote(peer={"lists": False}) as there:
        await there.client.start("remote", "say hello", thread_id=thread_id)
        end = (await result(there.client, thread_id)).termination
        assert isinstance(end, Errored)
        assert (end.value[:15], end.code) == ("outcome unknown", "remote_outcome_unknown")
        assert there.peer.messages == ["say hello"]


@pytest.mark.usefixtures("lost_answers")
async def test_a_lost_submission_is_sent_again_if_the_service_recognises_messages(
    remote: Runtime, thread_id: str
) -> None:
    async with remote(peer={"lists": False}, idempotent=True) as there:
        await there.client.start("remote", "say hello", thread_id=thread_id)
        assert (await result(there.client, thread_id)).response == "hello"
        first, second = there.peer.ledger
        assert first.message_id == second.message_id


CANARIES = ("canary-of-the-token", "canary-of-the-header")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name, canary in zip(("REMOTE_TOKEN", "REMOTE_KEY"), CANARIES, strict=True):
        monkeypatch.setenv(name, canary)
    return {"token": Secret(env="REMOTE_TOKEN"), "headers": {"x-key": Secret(env="REMOTE_KEY")}}


async def test_secrets_reach_the_service_and_nothing_else(
    remote: Runtime, thread_id: str, secrets: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the service repeats them: in an answer, in a question, and in an error."""
    caplog.set_level(logging.DEBUG)
    async with remote(peer={"streams": False, "token": CANARIES[0]}, **secrets) as there:
        await there.client.start("remote", "work", thread_id=f"{thread_id}-1")
        await until_polled(there.client, f"{thread_id}-1")
        described = str((await there.client.handle(f"{thread_id}-1").describe()).raw_description)
        there.peer.released.set()
        await result(there.client, f"{thread_id}-1")
        histories = [described, await history(there.client, f"{thread_id}-1")]
        there.peer.token = "another"
        await there.client.start("remote", "say hello", thread_id=f"{thread_id}-2")
        refused = (await result(there.client, f"{thread_id}-2")).termination
        assert isinstance(refused, Errored)
        assert refused.code == "remote_unauthorized"
        histories.append(await history(there.client, f"{thread_id}-2"))
    assert all(headers["x-key"] == CANARIES[1] for headers in there.peer.headers)
    logged = [str(vars(record)) for record in caplog.records if not record.name.startswith("a2a.server")]
    seen = "".join([*histories, *logged])
    assert not any(canary in seen for canary in CANARIES)


async def test_a_secret_that_a_service_repeats_is_removed(
    remote: Runtime, thread_id: str, secrets: dict[str, Any]
) -> None:
    async with remote(**secrets) as there:
        there.peer.echo = CANARIES[0]
        await there.client.start("remote", "echo", thread_id=thread_id)
        assert (await result(there.client, thread_id)).response == "it is [secret]"


async def test_a_worker_without_the_secret_says_which_it_lacks(remote: Runtime, thread_id: str) -> None:
    async with remote(token=Secret(env="NOT_SET_ANYWHERE")) as there:
        await there.client.start("remote", "say hello", thread_id=thread_id)
        end = (await result(there.client, thread_id)).termination
        assert isinstance(end, Errored)
        assert "environment variable 'NOT_SET_ANYWHERE' is missing or empty" in end.value
        assert there.peer.methods == []


async def test_another_worker_continues_the_task_of_one_that_has_stopped(
    temporal: TemporalClient, thread_id: str
) -> None:
    async with running_peer() as peer:
        async with remote_worker(temporal, thread_id, peer) as client:
            await client.start("remote", "work on", thread_id=thread_id)
            await until_task(client, thread_id)
        async with remote_worker(temporal, thread_id, peer) as client:
            peer.released.set()
            assert (await result(client, thread_id)).response == "worked on on"
        assert len(peer.messages) == 1


async def test_a_worker_that_has_never_seen_the_thread_continues_its_conversation(
    temporal: TemporalClient, thread_id: str
) -> None:
    """It rebuilds the transcript from history, and with it where the answers were made."""
    async with running_peer() as peer:
        for number in (1, 2):
            async with remote_worker(temporal, thread_id, peer) as client:
                await client.send(thread_id, f"say {number}", agent_id="remote", message_id=f"m{number}")
                await until(client, thread_id, lambda view, run=number: view.runs == run and view.result is not None)  # type: ignore[misc]
        assert peer.messages == ["say 1", "say 2"]
        assert len({entry.context_id for entry in peer.ledger}) == 1


async def until_polled(client: Client, thread_id: str) -> None:
    """Until an attempt has found the task at work, and Temporal waits with the next one."""
    async with asyncio.timeout(60):
        while True:
            described = await client.handle(thread_id).describe()
            pending = described.raw_description.pending_activities
            if any(each.attempt > 1 and each.activity_type.name == "call_remote_agent" for each in pending):
                return
            await asyncio.sleep(0.05)


async def until_task(client: Client, thread_id: str) -> None:
    """Until the heartbeat has the task."""
    async with asyncio.timeout(60):
        while True:
            described = await client.handle(thread_id).describe()
            pending = described.raw_description.pending_activities
            if any(b'"task_id"' in beat.data for each in pending for beat in each.heartbeat_details.payloads):
                return
            await asyncio.sleep(0.05)


async def history(client: Client, thread_id: str) -> str:
    """Everything that Temporal has of the thread, as text."""
    fetched = await client.handle(thread_id).fetch_history()
    return fetched.to_json()
