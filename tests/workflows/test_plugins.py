"""Plugins and state on the real server: their cost, what parallel tools may write, and what a change leaves alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.app.hooked import ROOMS, TWENTY
from tests.support.waiting import until_status
from wakeful import Agent, ModelRequest, ModelResponse, Plugin, Registry, RunStatus, ToolContext, tool
from wakeful.authoring.hook_contexts import RunEnd, StepStart
from wakeful.client.client import Client
from wakeful.contract.events import PluginEvent, StateConflict
from wakeful.contract.messages import Role, ToolCall
from wakeful.worker import WorkerSettings, running_worker


@asynccontextmanager
async def served(temporal: TemporalClient, registry: Registry, queue: str) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry, WorkerSettings(task_queue=queue)):
        yield Client(temporal, task_queue=queue)


async def test_parallel_tools_lose_nothing(temporal: TemporalClient, thread_id: str) -> None:
    """Twenty at once add to one counter and append to one list."""
    async with served(temporal, registry, "parallel-state") as client:
        result = await client.run("tallying", "go", thread_id=thread_id)
        assert result.status_reason == "natural"
        view = await client.state(thread_id)
    assert view.values == {"count": 20, "names": TWENTY}


async def test_two_that_set_one_exclusive_key_do_not_both_win(temporal: TemporalClient, thread_id: str) -> None:
    """The first in the model's order is applied; the other is refused as a whole, and an event names it."""
    async with served(temporal, registry, "exclusive-state") as client:
        await client.run("tallying", "claim it", thread_id=thread_id)
        view = await client.state(thread_id)
        events = [record.event async for record in client.watch(thread_id)]
    assert view.values == {"owner": "ann", "count": 1}
    (conflict,) = [event for event in events if isinstance(event, StateConflict)]
    assert conflict.key == "owner"
    assert conflict.source == "1-2"


async def test_hooks_add_no_event_to_a_step(temporal: TemporalClient, thread_id: str) -> None:
    """An agent with hooks in all nine phases writes as many events a step as one without."""
    lengths: dict[tuple[str, int], int] = {}
    async with served(temporal, registry, "hooked") as client:
        for agent in ("hooked", "plain"):
            for steps in ROOMS:
                thread = f"{thread_id}-{agent}-{steps}"
                await client.run(agent, str(steps), thread_id=thread)
                lengths[agent, steps] = len((await client.handle(thread).fetch_history()).events)
        told = [record.event async for record in client.watch(f"{thread_id}-hooked-1")]
    assert lengths["hooked", 6] - lengths["hooked", 1] == lengths["plain", 6] - lengths["plain", 1]
    assert lengths["hooked", 1] - lengths["plain", 1] == 2  # one local activity when the run begins, one when it ends
    assert [event.name for event in told if isinstance(event, PluginEvent)] == [
        "on_activate",
        "run_start",
        "step_start",
        "before_inference",
        "after_inference",
        "tool_gate",
        "tool_gate",
        "before_tool_execute",
        "after_tool_execute",
        "step_end",
        "step_start",
        "before_inference",
        "after_inference",
        "step_end",
        "run_end",
        "on_deactivate",
    ]


class Echo:
    """A model that asks for a signature once, and then says what it was told to be and which tools it has."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if not any(message.role is Role.TOOL for message in request.messages):
            calls = (ToolCall(id="call_1", name="sign", arguments={}),)
            return ModelResponse(model="echo", tool_calls=calls)
        result = next(message.text for message in reversed(request.messages) if message.role is Role.TOOL)
        tools = ",".join(sorted(tool.id for tool in request.tools))
        return ModelResponse(model="echo", text=f"{request.instructions} | {tools} | {result}")


def version(number: int) -> Registry:
    """The same agent before and after a deploy: its prompt, its tools and plugins, and the code of both, changed."""

    @tool
    def sign(ctx: ToolContext) -> str:
        """Sign it."""
        if ctx.resume_input is None:
            ctx.suspend("May I?")
        return f"signed by code {number}"

    @tool(name=f"only_in_{number}", read_only=True)
    def only() -> str:
        """Be there in one version."""
        return "here"

    class Audit(Plugin):
        id = "audit"

        def step_start(self, ctx: StepStart) -> None:
            ctx.emit("audited", {"code": number})

    class Late(Plugin):
        id = "late"

        def run_end(self, ctx: RunEnd) -> None:
            ctx.emit("late")

    plugins: list[Plugin] = [Audit()] if number == 1 else [Audit(), Late()]
    agent = Agent(id="a", instructions=f"prompt {number}", model="m", tools=[sign, only], plugins=plugins)
    return Registry(agents=[agent], models={"m": Echo()})


async def test_a_change_of_everything_leaves_sleeping_runs_as_they_were(
    temporal: TemporalClient, thread_id: str
) -> None:
    """I-12: runs asleep between two steps, a deploy, a restart: all complete, each with its pinned agent."""
    threads = [f"{thread_id}-{number}" for number in range(5)]
    async with served(temporal, version(1), "changing") as client:
        await asyncio.gather(*(client.start("a", "go", thread_id=thread) for thread in threads))
        for thread in threads:
            await until_status(client, thread, RunStatus.WAITING)
    async with served(temporal, version(2), "changing") as client:
        for thread in threads:
            await client.decide(thread, "1-1", "resume")
        results = await asyncio.gather(*(client.result(thread) for thread in threads))
        fresh = f"{thread_id}-fresh"
        await client.start("a", "go", thread_id=fresh)
        await until_status(client, fresh, RunStatus.WAITING)
        await client.decide(fresh, "1-1", "resume")
        new = await client.result(fresh)
        told = [record.event async for record in client.watch(threads[0])]
    # The pinned prompt, tools and plugins; the newest code of the tool and of the plugin.
    assert {result.response for result in results} == {"prompt 1 | only_in_1,sign | signed by code 2"}
    assert new.response == "prompt 2 | only_in_2,sign | signed by code 2"
    assert [event.name for event in told if isinstance(event, PluginEvent)] == ["audited", "audited"]
    for thread in threads:
        history = await client.handle(thread).fetch_history()
        types = {event.event_type for event in history.events}
        assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in types
