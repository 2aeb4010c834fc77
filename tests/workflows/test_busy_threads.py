"""The double-texting matrix of docs/threads.md: each policy in each phase, on the real server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.waiting import until, until_status
from wakeful import Agent, ModelRequest, ModelResponse, Registry, RunStatus, ScriptedModel, ToolContext, call, say, tool
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.runs import OnBusy
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker

INTERRUPTED = "[Tool execution was interrupted]"


class Stage:
    """A model that thinks and a tool that holds until they are released."""

    def __init__(self) -> None:
        self.reached, self.released = asyncio.Event(), asyncio.Event()
        self.script = ScriptedModel(
            [say("answer to {input}")],
            when={
                "^hold": [call("hold"), say("held")],
                "^approve": [call("approve"), say("approved")],
            },
        )

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.messages[-1].text == "think":
            await self.pause()
        return self.script.answer(request)

    async def pause(self) -> None:
        self.reached.set()
        await self.released.wait()

    def registry(self) -> Registry:
        @tool
        async def hold() -> str:
            """Hold until released."""
            await self.pause()
            return "was held"

        @tool
        def approve(ctx: ToolContext) -> str:
            """Ask first."""
            if ctx.resume_input is None:
                ctx.suspend("May I?")
            return "yes"

        return Registry(agents=[Agent(id="solo", tools=[hold, approve])], models={"default": self})


PHASES = {"idle": "hello", "in a model call": "think", "in a tool": "hold", "suspended": "approve"}
"""Each phase, and the message that brings a thread there."""

FIRST = {
    "idle": ["hello", "answer to hello"],
    "in a model call": ["think", "answer to think"],
    "in a tool": ["hold", "", "was held", "held"],
    "suspended": ["approve", "", "yes", "approved"],
}
"""What the first run comes to when nothing disturbs it."""

SECOND = ["again", "answer to again"]

MATRIX = {
    (OnBusy.ENQUEUE, "in a model call"): (FIRST["in a model call"] + SECOND, 2),
    (OnBusy.ENQUEUE, "in a tool"): (FIRST["in a tool"] + SECOND, 2),
    (OnBusy.ENQUEUE, "suspended"): (FIRST["suspended"] + SECOND, 2),
    (OnBusy.REJECT, "in a model call"): (FIRST["in a model call"], 1),
    (OnBusy.REJECT, "in a tool"): (FIRST["in a tool"], 1),
    (OnBusy.REJECT, "suspended"): (FIRST["suspended"], 1),
    (OnBusy.STEER, "in a model call"): (FIRST["in a model call"] + SECOND, 1),
    (OnBusy.STEER, "in a tool"): (["hold", "", "was held", *SECOND], 1),
    (OnBusy.STEER, "suspended"): (["approve", "", "yes", *SECOND], 1),
    (OnBusy.INTERRUPT, "in a model call"): (["think", *SECOND], 2),
    (OnBusy.INTERRUPT, "in a tool"): (["hold", "", INTERRUPTED, *SECOND], 2),
    (OnBusy.INTERRUPT, "suspended"): (["approve", "", INTERRUPTED, *SECOND], 2),
    (OnBusy.ROLLBACK, "in a model call"): (SECOND, 2),
    (OnBusy.ROLLBACK, "in a tool"): (SECOND, 2),
    (OnBusy.ROLLBACK, "suspended"): (SECOND, 2),
    **{(policy, "idle"): (FIRST["idle"] + SECOND, 2) for policy in OnBusy},
}


@pytest.mark.parametrize(
    "restless", [False, pytest.param(True, marks=pytest.mark.restless)], ids=["usual", "continuing as new"]
)
@pytest.mark.parametrize(("policy", "phase"), MATRIX, ids=lambda part: str(part))
async def test_a_message_for_a_thread(
    temporal: TemporalClient, thread_id: str, policy: OnBusy, phase: str, restless: bool
) -> None:
    stage = Stage()
    async with running(temporal, stage, thread_id, restless=restless) as client:
        await client.send(thread_id, PHASES[phase], agent_id="solo")
        await reach(client, thread_id, stage, phase)
        await client.send(thread_id, "again", on_busy=policy, message_id="m2")
        if policy in (OnBusy.ENQUEUE, OnBusy.REJECT, OnBusy.STEER):
            await until(client, thread_id, lambda view: heard(view, phase))
            await release(client, thread_id, stage, phase)
        expected, runs = MATRIX[policy, phase]
        view = await until(client, thread_id, lambda view: at_rest(view, runs))
        assert [message.text for message in await client.transcript(thread_id)] == expected
        assert (view.runs, bool(view.refusals)) == (runs, policy is OnBusy.REJECT and phase != "idle")
        await client.handle(thread_id).cancel()
        await client.result(thread_id)


async def reach(client: Client, thread_id: str, stage: Stage, phase: str) -> None:
    match phase:
        case "idle":
            await until(client, thread_id, lambda view: at_rest(view, 1))
        case "suspended":
            await until_status(client, thread_id, RunStatus.WAITING)
        case _:
            async with asyncio.timeout(60):
                await stage.reached.wait()


def heard(view: StatusView, phase: str) -> bool:
    return phase == "idle" or bool(view.queued or view.refusals)


def at_rest(view: StatusView, runs: int) -> bool:
    return view.status is RunStatus.DONE and view.runs == runs and not view.queued


async def release(client: Client, thread_id: str, stage: Stage, phase: str) -> None:
    if phase == "suspended":
        (ticket,) = (await client.status(thread_id)).pending
        await client.decide(thread_id, ticket.pending.id, "resume")
    stage.released.set()


@contextlib.asynccontextmanager
async def running(temporal: TemporalClient, stage: Stage, task_queue: str, *, restless: bool) -> AsyncIterator[Client]:
    budget = HistoryBudget(events=1) if restless else HistoryBudget()
    settings = WorkerSettings(task_queue=task_queue, history_budget=budget)
    async with running_worker(temporal, stage.registry(), settings):
        yield Client(temporal, task_queue=task_queue)
