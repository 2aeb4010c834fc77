"""Agents as children of a user's own workflow, in the sandbox, on the user's own worker."""

import asyncio
from typing import Any, assert_type

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError

from tests.embedding.conftest import QUEUE, Counting
from tests.embedding.desk import Ask, Asks, Compensates, Quote, Quotes, Uncaught
from wakeful import CallerError, Client, RunResult
from wakeful.workflow import AgentHandle, run_agent, start_agent

BOUND_SECONDS = 60


async def test_a_sandboxed_workflow_gets_the_typed_output_of_an_agent(
    temporal: TemporalClient, counting: Counting, thread_id: str
) -> None:
    """B-683. Its own activities run beside those of agents, and its interceptor sees both."""
    before = len(counting.seen)
    said = await temporal.execute_workflow(Quotes.run, "quoter", id=thread_id, task_queue=QUEUE)
    assert said == "tea costs 3, stamped"
    assert counting.seen[before:] == ["resolve_agent", "infer", "stamp"]


async def test_an_agent_is_a_child_whose_id_starts_with_that_of_its_workflow(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="talker"))
    assert await asks.result() == "natural: you said hello"
    child = await asks.query(Asks.thread_id)
    assert child is not None
    assert child.startswith(f"{thread_id}/talker-")
    described = await agents.handle(child).describe()
    assert (described.parent_id, described.status) == (thread_id, WorkflowExecutionStatus.COMPLETED)


async def test_a_workflow_passes_decisions_and_messages_on_to_its_agent(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="refunder"))
    child = await _child(asks)
    pending = await _pending(agents, child)
    await asks.signal(Asks.send, "and be quick")
    await asks.signal(Asks.approve, pending)
    assert await asks.result() == "natural: quickly"
    said = [message.text for message in await agents.transcript(child) if message.text]
    assert said == ["hello", "refunded 5", "and be quick", "quickly"]


async def test_cancelling_a_workflow_cancels_its_agent(agents: Client, thread_id: str) -> None:
    """B-684."""
    asks = await _start(agents, thread_id, Ask(agent_id="waiter"))
    child = await _child(asks)
    await _calling(agents, child)
    await asks.cancel()
    with pytest.raises(WorkflowFailureError) as raised:
        await asks.result()
    assert isinstance(raised.value.cause, CancelledError)
    assert (await asks.describe()).status is WorkflowExecutionStatus.CANCELED
    assert (await agents.result(child)).status_reason == "cancelled"


async def test_an_agent_that_takes_too_long_is_cancelled(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="refunder", timeout=0.5))
    child = await _child(asks)
    problem = f"agent 'refunder' on thread {child!r}: it took longer than 0:00:00.500000, and was cancelled"
    assert (await asks.result()).startswith(f"AgentTimedOut: {problem}")
    assert (await agents.result(child)).status_reason == "cancelled"


async def test_an_agent_of_a_workflow_that_has_caught_its_cancel_can_time_out(agents: Client, thread_id: str) -> None:
    ask = Ask(agent_id="waiter", timeout=0.5)
    handle = await agents.temporal.start_workflow(Compensates.run, ask, id=thread_id, task_queue=QUEUE)
    await _calling(agents, await _only_child(handle))
    await handle.cancel()
    assert await handle.result() == "AgentTimedOut"


async def test_a_timeout_of_asyncio_around_an_agent_cancels_it(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="refunder", scope=0.5))
    assert await asks.result() == "the scope ended"
    assert (await agents.result(await _child(asks))).status_reason == "cancelled"


async def test_a_workflow_can_cancel_its_agent_alone(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="refunder"))
    child = await _child(asks)
    await _pending(agents, child)
    await asks.signal(Asks.cancel, "the order was withdrawn")
    said = await asks.result()
    assert said.startswith(f"AgentCancelled: agent 'refunder' on thread {child!r}: it was cancelled")


async def test_an_abandoned_agent_lives_on_when_its_workflow_ends(agents: Client, thread_id: str) -> None:
    """B-684."""
    asks = await _start(agents, thread_id, Ask(agent_id="refunder", abandon=True))
    child = await asks.result()
    assert (await asks.describe()).status is WorkflowExecutionStatus.COMPLETED
    await agents.decide(child, await _pending(agents, child), "resume")
    assert (await agents.result(child)).response == "refunded 5"


async def test_a_run_that_ends_in_an_error_is_an_error_of_the_workflow(agents: Client, thread_id: str) -> None:
    asks = await _start(agents, thread_id, Ask(agent_id="broken"))
    said = await asks.result()
    assert said.startswith("AgentFailed: agent 'broken' on thread")
    assert "its run ended in an error (unauthorized)" in said
    assert said.endswith("the key is wrong)")  # in the result of the run


async def test_an_error_of_an_agent_that_a_workflow_does_not_catch_fails_it(agents: Client, thread_id: str) -> None:
    """B-685."""
    ask = Ask(agent_id="broken")
    with pytest.raises(WorkflowFailureError) as raised:
        await agents.temporal.execute_workflow(Uncaught.run, ask, id=thread_id, task_queue=QUEUE)
    assert isinstance(raised.value.cause, ApplicationError)
    assert raised.value.cause.type == "AgentFailed"
    history = await agents.temporal.get_workflow_handle(thread_id).fetch_history()
    assert "the key is wrong" not in history.to_json()  # only in payloads, which a codec can encode


async def test_agents_run_in_workflows_only() -> None:
    with pytest.raises(CallerError, match=r"work in a workflow; elsewhere, use wakeful\.Client"):
        await run_agent("talker", "hello")


async def typed() -> None:
    """Checked by mypy, as the rest of the tests is: `make check` fails if a line here has another type."""
    assert_type(await run_agent("quoter", "hello", output_type=Quote), Quote)
    assert_type(await run_agent("talker", "hello"), RunResult)
    assert_type(await start_agent("quoter", "hello", output_type=Quote), AgentHandle[Quote])
    assert_type(await start_agent("talker", "hello"), AgentHandle[RunResult])
    await run_agent("talker", "hello", time_out=3)  # type: ignore[call-overload]


async def _start(agents: Client, id: str, ask: Ask) -> WorkflowHandle[Any, str]:
    return await agents.temporal.start_workflow(Asks.run, ask, id=id, task_queue=QUEUE)


async def _child(asks: WorkflowHandle[Any, str]) -> str:
    async with asyncio.timeout(BOUND_SECONDS):
        while (child := await asks.query(Asks.thread_id)) is None:
            await asyncio.sleep(0.02)
    return child


async def _only_child(handle: WorkflowHandle[Any, str]) -> str:
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            for child in (await handle.describe()).raw_description.pending_children:
                if child.run_id:  # it has started
                    return child.workflow_id
            await asyncio.sleep(0.02)


async def _pending(agents: Client, child: str) -> str:
    """The id of the call that waits for a decision."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async for pending in agents.inbox(thread_id=child):
                return pending.call_id
            await asyncio.sleep(0.02)


async def _calling(agents: Client, child: str) -> None:
    """Wait until the agent calls its tool."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not (await agents.status(child)).calls:
            await asyncio.sleep(0.02)
