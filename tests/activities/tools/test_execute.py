"""What a tool call has besides its result: a handoff, and an entry in the transcript of its thread."""

import asyncio
from typing import Any, cast

import pytest
from temporalio.client import Client as TemporalClient

from tests.activities.wiring import activities, cache_of, environment, raw
from wakeful import Agent, Registry, ToolContext, ToolError, ToolResult, tool
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, TaskRef
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful_activities import HistoryCache


@tool
def hand_over(to: list[str], how: str, ctx: ToolContext) -> Any:
    """Hand the run over."""
    for agent_id in to:
        ctx.handoff(agent_id)
    if how == "raise":
        raise ToolError("no")
    if how == "suspend":
        ctx.suspend("May I?")
    return ToolResult.suspended("hand_over", message="May I?") if how == "pending" else how


@tool
def look() -> str:
    """Look."""
    return "up"


@tool
def misbehave(how: str) -> str:
    """Raise what a tool must not raise, in a thread."""
    raise MISBEHAVIOUR[how]


@tool
async def misbehave_in_the_loop(how: str) -> str:
    """Raise what a tool must not raise, in the event loop."""
    raise MISBEHAVIOUR[how]


MISBEHAVIOUR = {"exit": SystemExit(3), "cancel": asyncio.CancelledError()}
REGISTRY = Registry(agents=[Agent(id="a", tools=[hand_over, look, misbehave, misbehave_in_the_loop])])


async def run(
    tool: str, arguments: Any = None, *, task: TaskRef | None = None, cache: HistoryCache | None = None
) -> ToolOutcome:
    input = ToolCallInput(
        call=ToolCall(id="1-1", name=tool, arguments=arguments),
        identity=RunIdentity(thread_id="owner", run_id="r", agent_id="a", task=task),
        idempotency_key="r:1-1",
    )
    with activities(REGISTRY, cache or cache_of()) as made:
        return await environment(cast("TemporalClient", _Handles()), tool=input.call.name).run(
            made.tools.call_tool, raw(input)
        )


class _Handles:
    """A client whose handles are never used."""

    def get_workflow_handle(self, thread_id: str) -> None: ...


@pytest.mark.parametrize(
    ("to", "how", "handoff"),
    [
        (["clerk"], "return", "clerk"),
        (["clerk", "boss"], "return", "boss"),
        ([], "return", None),
        (["clerk"], "raise", None),
        (["clerk"], "suspend", None),
        (["clerk"], "pending", None),
    ],
)
async def test_only_a_tool_that_returns_hands_the_run_over(to: list[str], how: str, handoff: str | None) -> None:
    outcome = await run("hand_over", {"to": to, "how": how})
    assert outcome.handoff == handoff


@pytest.mark.parametrize(("task_thread_id", "cached"), [("test", []), ("task", ["test"])])
async def test_the_result_of_a_task_is_not_a_transcript_entry(task_thread_id: str, cached: list[str]) -> None:
    """A task runs in a workflow of its own; the environment's workflow is called "test", and so is its activity."""

    class Recording(HistoryCache):
        def put_outcome(self, id: str, call_id: str, outcome: ToolOutcome) -> None:
            put.append(id)

    put: list[str] = []
    task = TaskRef(task_id="bg_1", thread_id=task_thread_id, owner_thread_id="owner")
    await run("look", task=task, cache=Recording(cast("TemporalClient", None)))
    assert put == cached


async def test_a_call_of_an_unknown_tool_tells_the_model_that_nothing_was_executed() -> None:
    outcome = await run("fly")
    expected = "The call was not executed: this worker has no tool 'fly'. Use another tool, or report the problem."
    assert outcome == ToolOutcome(result=ToolResult.error("fly", expected))


@pytest.mark.parametrize("name", ["misbehave", "misbehave_in_the_loop"])
@pytest.mark.parametrize(
    ("how", "problem"),
    [("exit", "SystemExit: it called sys.exit(3)"), ("cancel", "CancelledError: it cancelled itself")],
)
async def test_a_tool_that_exits_or_cancels_itself_has_an_error_as_its_result(
    name: str, how: str, problem: str
) -> None:
    outcome = await run(name, {"how": how})
    assert outcome == ToolOutcome(result=ToolResult.error(name, f"Execution failed: RuntimeError: {problem}"))
