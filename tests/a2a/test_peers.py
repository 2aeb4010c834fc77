"""Two deployments on two task queues that serve their agents over A2A, and call each other's."""

import asyncio

from temporalio.client import Client as TemporalClient

from tests.a2a.conftest import serving
from tests.conftest import worker_settings
from tests.support.waiting import BOUND_SECONDS
from wakeful import (
    A2aSource,
    Agent,
    Client,
    PendingDecision,
    Registry,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.connection import free_port
from wakeful.worker import running_worker


@tool
def book(city: str, ctx: ToolContext) -> str:
    """Book a room."""
    if ctx.resume_input is None:
        ctx.suspend(f"Which hotel in {city}?", response_schema={"type": "string"})
    return f"{ctx.resume_input.result} in {city}"


async def asked(client: Client, thread_id: str) -> PendingDecision:
    """The decision that the thread, or a descendant, waits for."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async for pending in client.inbox(thread_id=thread_id):
                return pending
            await asyncio.sleep(0.05)


async def test_two_deployments_delegate_to_each_other_and_a_question_travels_back(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-626, B-629, B-714. The desk delegates to the agency, which delegates back to another agent of the desk."""
    desk_port, agency_port = free_port(), free_port()
    desk = Registry(
        agents=[
            Agent(id="desk", model="desk", delegates=["agency/travel"]),
            Agent(id="weather", model="weather"),
        ],
        sources=[A2aSource(name="agency", url=f"http://127.0.0.1:{agency_port}", poll_interval=0.2)],
        models={
            "desk": ScriptedModel([call("agent_run_agency__travel", prompt="a trip to Rome"), say("Booked: {result}")]),
            "weather": ScriptedModel([say("sunny")]),
        },
    )
    agency = Registry(
        agents=[Agent(id="travel", model="travel", tools=[book], delegates=["desk/weather"])],
        sources=[A2aSource(name="desk", url=f"http://127.0.0.1:{desk_port}", poll_interval=0.2)],
        models={
            "travel": ScriptedModel(
                [call("agent_run_desk__weather", prompt="Rome?"), call("book", city="Rome"), say("{result}")]
            )
        },
    )
    client, agency_client = (Client(temporal, task_queue=f"{thread_id}-{name}") for name in ("desk", "agency"))
    async with (
        serving(client, agents={"weather": "Forecasts."}, port=desk_port),
        serving(agency_client, agents={"travel": "Books trips."}, port=agency_port),
        running_worker(temporal, desk, worker_settings(task_queue=client.task_queue, sweep_interval=None)),
        running_worker(temporal, agency, worker_settings(task_queue=agency_client.task_queue, sweep_interval=None)),
    ):
        await client.start("desk", "go", thread_id=thread_id)
        pending = await asked(client, thread_id)
        assert (pending.tool_name, pending.path[0]) == ("remote_input", thread_id)
        assert "Which hotel in Rome?" in str(pending.arguments)
        await client.decide(pending.thread_id, pending.call_id, "resume", result="the Ritz")
        result = await client.result(thread_id)
        assert "the Ritz in Rome" in result.response
