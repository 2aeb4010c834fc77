"""A long thread and a small window, on the real server: the model sees what fits, and nothing is lost."""

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import TOOLS, Recording
from tests.support.waiting import until
from wakeful import Agent, InputMessage, ModelRequest, ModelResponse, Registry, RunStatus, ThreadMode, call, say
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import Role
from wakeful.worker import WorkerSettings, running_worker

WORDS = "word " * 300


class Summarising(Recording):
    """Summarises when it is asked to, and answers otherwise."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.instructions.startswith("You summarise"):
            return ModelResponse(model=request.model, text="They said words.")
        return await super().complete(request)


async def test_a_woken_thread_still_has_its_summary(temporal: TemporalClient, thread_id: str) -> None:
    """Another worker reads it from the history of the execution that woke."""
    policy = ContextPolicy(max_context_tokens=20_000, max_output_tokens=100, autocompact_threshold=2_000)
    await talk(temporal, thread_id, Summarising([say("noted")]), policy, turns=4, words=WORDS * 3)
    after = Recording([say("noted")])
    await talk(temporal, thread_id, after, policy, turns=1, before=4, events=2_000)
    first, *others = after.requests[0].messages
    assert first.text == "<conversation-summary>\nThey said words.\n</conversation-summary>"
    assert len(others) < 2 * 4


async def talk(
    temporal: TemporalClient,
    thread_id: str,
    model: Recording,
    policy: ContextPolicy,
    *,
    turns: int,
    before: int = 0,
    events: int = 1,
    opening: tuple[InputMessage, ...] = (),
    words: str = WORDS,
) -> list[str]:
    """Let a thread have that many turns, continuing as new after so many events; the whole transcript."""
    registry = Registry(agents=[Agent(id="solo", tools=TOOLS, context=policy)], models={"default": model})
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=events))
    async with running_worker(temporal, registry, settings):
        client = Client(temporal, task_queue=thread_id)
        for number in range(before + 1, before + turns + 1):
            if opening and number == 1:
                first = (*opening, InputMessage(content=words))
                await client.start("solo", first, thread_id=thread_id, mode=ThreadMode.THREAD)
            else:
                await client.send(thread_id, f"{number} {words}", agent_id="solo")
            await until(client, thread_id, lambda view, n=number: view.status is RunStatus.DONE and view.runs == n)  # type: ignore[misc]
        transcript = [message.text for message in await client.transcript(thread_id)]
        await client.handle(thread_id).cancel()
        await client.result(thread_id)
        return transcript


async def test_the_model_sees_what_fits_and_no_call_without_its_result(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-452, B-453"""
    model = Recording([call("echo", text="x" * 400), say("done")])
    policy = ContextPolicy(max_context_tokens=1_500, max_output_tokens=100, min_recent_messages=1)
    transcript = await talk(temporal, thread_id, model, policy, turns=4, words=WORDS * 2)
    assert len(transcript) == 4 * 4
    assert max(len(request.messages) for request in model.requests) < 3 * 4
    assert all(request.messages[0].role is not Role.TOOL for request in model.requests)


@pytest.mark.parametrize("events", [1, 2_000], ids=["continues as new", "one execution"])
async def test_the_system_messages_that_a_thread_begins_with_stay_in_the_window(
    temporal: TemporalClient, thread_id: str, events: int
) -> None:
    """B-452"""
    model = Recording([say("noted")])
    policy = ContextPolicy(max_context_tokens=700, max_output_tokens=100, min_recent_messages=1)
    latin = InputMessage(content="Speak Latin.", role=Role.SYSTEM)
    transcript = await talk(temporal, thread_id, model, policy, turns=4, opening=(latin,), events=events)
    assert len(transcript) == 1 + 4 * 2
    assert [request.messages[0].text for request in model.requests] == ["Speak Latin."] * 4
    assert len(model.requests[-1].messages) < 1 + 3 * 2


async def test_leading_system_messages_are_read_from_the_archive_of_a_long_thread(
    temporal: TemporalClient, thread_id: str
) -> None:
    """Another worker wakes the thread, and has only its newest messages."""
    policy = ContextPolicy(max_context_tokens=4_000, max_output_tokens=100, min_recent_messages=1)
    latin = InputMessage(content="Speak Latin.", role=Role.SYSTEM)
    words = WORDS * 20
    await talk(temporal, thread_id, Recording([say("noted")]), policy, turns=12, opening=(latin,), words=words)
    after = Recording([say("noted")])
    await talk(temporal, thread_id, after, policy, turns=2, before=12, events=2_000)
    assert [request.messages[0].text for request in after.requests] == ["Speak Latin."] * 2
    assert len(after.requests[0].messages) < 10


async def test_the_past_is_summarised_and_stays_readable(temporal: TemporalClient, thread_id: str) -> None:
    """B-460 to B-464, H-14"""
    model = Summarising([say("noted")])
    policy = ContextPolicy(max_context_tokens=20_000, max_output_tokens=100, autocompact_threshold=2_000)
    transcript = await talk(temporal, thread_id, model, policy, turns=4, words=WORDS * 3)
    assert len(transcript) == 4 * 2
    first = model.requests[-1].messages[0]
    assert first.text == "<conversation-summary>\nThey said words.\n</conversation-summary>"
    assert len(model.requests[-1].messages) < 7
