"""A long thread and a small window, on the real server: the model sees what fits, and nothing is lost."""

from temporalio.client import Client as TemporalClient

from tests.support.app import TOOLS, Recording
from tests.support.waiting import until
from wakeful import Agent, ModelRequest, ModelResponse, Registry, RunStatus, call, say
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
    await talk(temporal, thread_id, Summarising([say("noted")]), policy, turns=10)
    after = Recording([say("noted")])
    await talk(temporal, thread_id, after, policy, turns=1, before=10, events=2_000)
    first, *others = after.requests[0].messages
    assert first.text == "<conversation-summary>\nThey said words.\n</conversation-summary>"
    assert len(others) < 20


async def talk(
    temporal: TemporalClient,
    thread_id: str,
    model: Recording,
    policy: ContextPolicy,
    *,
    turns: int,
    before: int = 0,
    events: int = 1,
) -> list[str]:
    """Let a thread have that many turns, continuing as new after so many events; the whole transcript."""
    registry = Registry(agents=[Agent(id="solo", tools=TOOLS, context=policy)], models={"default": model})
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=events))
    async with running_worker(temporal, registry, settings):
        client = Client(temporal, task_queue=thread_id)
        for number in range(before + 1, before + turns + 1):
            await client.send(thread_id, f"{number} {WORDS}", agent_id="solo")
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
    transcript = await talk(temporal, thread_id, model, policy, turns=8)
    assert len(transcript) == 8 * 4
    assert max(len(request.messages) for request in model.requests) < 24
    assert all(request.messages[0].role is not Role.TOOL for request in model.requests)


async def test_the_past_is_summarised_and_stays_readable(temporal: TemporalClient, thread_id: str) -> None:
    """B-460 to B-464, H-14"""
    model = Summarising([say("noted")])
    policy = ContextPolicy(max_context_tokens=20_000, max_output_tokens=100, autocompact_threshold=2_000)
    transcript = await talk(temporal, thread_id, model, policy, turns=10)
    assert len(transcript) == 10 * 2
    first = model.requests[-1].messages[0]
    assert first.text == "<conversation-summary>\nThey said words.\n</conversation-summary>"
    assert len(model.requests[-1].messages) < 19
