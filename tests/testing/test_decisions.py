"""Approvals and deadlines in tests: wait for a decision, and let days pass in moments."""

import asyncio
import time
from datetime import timedelta

import pytest

from tests.testing.desk import WEEK, desk
from wakeful import Agent, Client, ProviderError, ProviderErrorKind, Registry, ThreadMode, ThreadNotFound
from wakeful.authoring.scripted import Turn
from wakeful.contract.inference import ModelRequest
from wakeful.testing import NoDecision, ScriptedModel, WakefulRuntime, call, say, skip_time, wait_for_decision

ORDERING = [call("order", item="cup"), say("{result}.")]


async def test_a_decision_is_there_as_soon_as_the_run_asks(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(*ORDERING)
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please")
        pending = await wait_for_decision(client, thread)
        assert (pending.message, pending.tool_name, pending.arguments) == ("Order cup?", "order", {"item": "cup"})
        await client.decide(thread, pending.call_id, "resume")
        assert (await client.result(thread)).response == "ordered cup."


async def test_a_decision_that_was_made_is_not_waited_for_again(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(call("order", item="cup"), call("order", item="pot"), say("{result}."))
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups and pots, please")
        for item in ("cup", "pot"):
            pending = await wait_for_decision(client, thread, tool="order")
            assert pending.arguments == {"item": item}
            await client.decide(thread, pending.call_id, "resume")
        assert (await client.result(thread)).response == "ordered pot."


async def test_a_decision_that_was_sent_is_not_found_again_before_a_worker_has_handled_it(
    wakeful_runtime: WakefulRuntime,
) -> None:
    registry, _ = desk(*ORDERING)
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please")
        pending = await wait_for_decision(client, thread)
    async with Client(client.temporal) as without_worker:
        assert (await wait_for_decision(without_worker, thread)).ticket == pending.ticket
        await without_worker.decide(thread, pending.call_id, "resume")
        with pytest.raises(NoDecision, match="asks for no decision within 0 s"):
            await wait_for_decision(without_worker, thread, within=0)


async def test_a_decision_of_a_sub_agent_is_found(wakeful_runtime: WakefulRuntime) -> None:
    helper = ScriptedModel(ORDERING)
    registry, _ = desk(call("agent_run_helper", prompt="order a cup"), say("{result}"), helper=helper)
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please")
        pending = await wait_for_decision(client, thread)
        assert pending.path == (thread, pending.thread_id)
        await client.decide(pending.thread_id, pending.call_id, "cancel", reason="too dear")
        assert "too dear" in (await client.result(thread)).response


async def test_a_run_that_ends_without_asking_is_an_error_at_once(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(say("We have enough."))
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please", thread_id="t")
        ended = r"^thread 't' asks for no decision: its run has ended \(natural\); its answer: 'We have enough.'$"
        with pytest.raises(NoDecision, match=ended):
            await wait_for_decision(client, thread, within=60)
        with pytest.raises(ThreadNotFound):
            await wait_for_decision(client, "another")


async def test_a_run_that_does_not_ask_in_time_is_an_error_that_says_what_it_does(
    wakeful_runtime: WakefulRuntime,
) -> None:
    registry, _ = desk(*ORDERING)
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please", thread_id="t")
        await wait_for_decision(client, thread)
        with pytest.raises(NoDecision) as raised:
            await wait_for_decision(client, thread, tool="refund", within=0)
        await client.cancel(thread)
    said = str(raised.value)
    assert said.startswith(
        "thread 't' asks for no decision about tool 'refund' within 0 s. t is at step 1 and has been"
    )
    assert "'Order cup?'" in said


async def test_a_week_without_a_decision_takes_moments(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(*ORDERING)
    began = time.time()
    async with wakeful_runtime(registry, time_skipping=True) as client:
        async with asyncio.timeout(60):
            result = await client.run("buyer", "cups, please", thread_id="t")
        events = (await client.handle("t").fetch_history()).events
    assert result.response == "denied: no decision within 604800 s."
    assert events[-1].event_time.ToDatetime() - events[0].event_time.ToDatetime() >= WEEK
    assert time.time() - began < 60


async def test_time_passes_only_as_far_as_a_test_says(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(*ORDERING)
    async with wakeful_runtime(registry) as client:
        thread = await client.start("buyer", "cups, please")
        pending = await wait_for_decision(client, thread)
        await skip_time(client, thread, WEEK - timedelta(hours=1))
        assert (await wait_for_decision(client, thread)).ticket == pending.ticket
        await skip_time(client, thread, 2 * 3600)
        assert (await client.result(thread)).response == "denied: no decision within 604800 s."


async def test_the_backoff_of_a_model_call_takes_moments(wakeful_runtime: WakefulRuntime) -> None:
    attempts = []

    def busy(request: ModelRequest) -> Turn:
        attempts.append(time.time())
        if len(attempts) < 4:
            raise ProviderError(ProviderErrorKind.OVERLOADED, "busy", retry_after=600)
        return say("there you are")

    registry = Registry(agents=[Agent(id="buyer")], models={"default": ScriptedModel([busy])})
    async with wakeful_runtime(registry, time_skipping=True) as client, asyncio.timeout(60):
        assert (await client.run("buyer", "hello")).response == "there you are"
    assert len(attempts) == 4


async def test_a_thread_that_expires_after_days_is_gone_in_moments(wakeful_runtime: WakefulRuntime) -> None:
    registry, _ = desk(say("hi"))
    async with wakeful_runtime(registry, time_skipping=True) as client, asyncio.timeout(60):
        await client.start("buyer", "hello", thread_id="t", mode=ThreadMode.THREAD, expire_after=WEEK)
        while [thread.thread_id async for thread in client.threads()]:
            await asyncio.sleep(0.02)
