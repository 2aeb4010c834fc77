"""Hooks of tool calls read the conversation on request, with their step's answer and the results so far (B-038)."""

import dataclasses
from typing import Any

import pytest

from tests.activities.hooks.world import ASKED, World, plugin
from tests.activities.wiring import environment
from tests.plugins.conftest import Serving
from wakeful import AfterToolExecute, Agent, Plugin, Registry, ScriptedModel, ToolContext, ToolGate, call, tool
from wakeful.contract.inference import InferInput, ModelResponse, TranscriptRef
from wakeful.contract.messages import Role, ToolCall
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities.history_cache import HistoryCache


@tool(read_only=True)
def look(where: str, ctx: ToolContext) -> str:
    """Look somewhere."""
    if where == "here" and ctx.resume_input is None:
        ctx.suspend("May I?")
    return where


class Reader(Plugin):
    id = "reader"
    read: list[tuple[str, list[str]]]

    def __init__(self) -> None:
        self.read = []

    async def tool_gate(self, ctx: ToolGate) -> None:
        if ctx.is_first_check:
            await self._note("gate", ctx)

    async def after_tool_execute(self, ctx: AfterToolExecute) -> None:
        await self._note("after", ctx)

    async def _note(self, hook: str, ctx: Any) -> None:
        self.read.append((hook, [message.text or message.tool_calls[0].name for message in await ctx.transcript()]))


async def test_hooks_of_a_call_read_the_conversation_with_the_staged_part_of_their_step_b038(
    serving: Serving, thread_id: str
) -> None:
    reader = Reader()
    model = ScriptedModel([call("look", where="up") & call("look", where="down"), call("look", where="here")])
    registry = Registry(agents=[Agent(id="a", tools=[look], plugins=[reader])], models={"default": model})
    async with serving(registry) as client:
        await client.start("a", "Look around.", thread_id=thread_id)
        async for record in client.watch(thread_id):
            if record.event.event_type == "run_finish":
                break
        first = ["Look around.", "look"]
        second = [*first, "up", "down", "look"]
        assert reader.read == [
            ("gate", first),
            ("gate", first),
            ("after", first),
            ("after", [*first, "up"]),
            ("gate", second),
        ]
        made = environment(client.temporal)
        description = await client.temporal.get_workflow_handle(thread_id).describe()
        made.info = dataclasses.replace(made.info, workflow_id=thread_id, workflow_run_id=description.run_id)
        cold = HistoryCache(client.temporal)
        rebuilt = await made.run(cold.conversation, "2-1")
        assert [message.text or message.tool_calls[0].name for message in rebuilt] == second
        assert await made.run(cold.conversation, "2-1", 2) == rebuilt[-2:]
        assert await made.run(cold.conversation, "2-1", 0) == ()


async def test_the_conversation_comes_from_the_cache_of_the_worker_that_called_the_model() -> None:
    """Without a client, whatever is not in the cache would be an error."""
    seen: list[list[str]] = []

    async def note(ctx: AfterToolExecute) -> None:
        (*_, last) = messages = await ctx.transcript(2)
        seen.append([message.role.value for message in messages])
        if last.tool_calls:
            last.tool_calls[0].arguments["where"] = "changed"  # type: ignore[index, call-overload]

    world = World(plugin("p", after_tool_execute=note))
    calls = (ToolCall(id="1-1", name="look", arguments={"where": "up"}), ToolCall(id="1-2", name="look"))
    response = ModelResponse(model="m", tool_calls=calls)

    async def answered() -> None:
        ref = TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, ASKED))
        await world.cache.transcript(InferInput(agent="a", transcript=ref, appended=(ASKED,)))
        world.cache.put_answer("infer-1", response, length=1)

    await environment().run(answered)
    for given in calls:
        await world.call_tool("look", call=given.model_copy(update={"arguments": {"where": "up"}}))
    assert seen == [[Role.USER, Role.ASSISTANT], [Role.ASSISTANT, Role.TOOL]]
    assert response.tool_calls[0].arguments == {"where": "up"}


async def test_a_context_that_a_unit_test_makes_has_an_empty_conversation() -> None:
    world = World()
    ctx = AfterToolExecute[Any](
        identity=None,  # type: ignore[arg-type]
        agent=world.agent,
        settings=None,
        call=ToolCall(id="1-1", name="look"),
        result=None,  # type: ignore[arg-type]
    )
    assert await ctx.transcript() == ()


@pytest.mark.parametrize("last", [0, 1, None])
async def test_hooks_of_an_answer_read_the_newest_messages_with_the_answer(last: int | None) -> None:
    seen: list[list[str]] = []

    async def note(ctx: ToolGate) -> None:
        seen.append([message.role.value for message in await ctx.transcript(last)])

    world = World(plugin("p", tool_gate=note), turn=call("look", where="up"))
    await world.infer()
    assert seen == [[Role.USER, Role.ASSISTANT][2 if last == 0 else -(last or 2) :]]
