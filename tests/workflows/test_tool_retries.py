"""Errors of tools that Temporal retries without a model turn, and tools that are methods, on a real server."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.client import Client as TemporalClient
from temporalio.exceptions import ActivityError, ApplicationError, RetryState

from tests.conftest import worker_settings
from tests.support.app import Recording
from tests.support.diagnoses import until_cause
from wakeful import (
    Agent,
    Base64Source,
    GateCall,
    ImageBlock,
    InstructionsContext,
    Registry,
    RetryLater,
    RunStatus,
    ToolContext,
    attachment,
    call,
    gate,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.contract.tool_attempts import RAISED_ERROR
from wakeful.contract.tools import ToolDescriptor
from wakeful.worker import running_worker
from wakeful_workflows.tools import tool_failure

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Desk:
    """What tools and gates of this module share, as a database would be."""

    checked: list[str] = field(default_factory=list)

    @tool(retry_delay=0.01)
    async def pay(self, ctx: ToolContext) -> str:
        """Pay, which must not happen twice."""
        if ctx.attempt < 3:
            raise RetryLater("the bank is busy")
        return f"paid in attempt {ctx.attempt}"

    @tool(retries=1)
    def close_up(self, ctx: ToolContext) -> str:
        """Never work."""
        raise RetryLater(f"closed, attempt {ctx.attempt}", after=0)

    @tool
    def wait_for(self, seconds: float) -> str:
        """Work later."""
        raise RetryLater("rate limited by the carrier", after=seconds)

    @tool(background=True, retry_delay=0.01, read_only=True, retry_on=ConnectionError)
    async def count(self, ctx: ToolContext) -> list[object]:
        """Count in the background."""
        if ctx.attempt == 1:
            raise ConnectionResetError("cut off")
        return [f"counted in attempt {ctx.attempt}", attachment(PNG)]

    @tool(read_only=True)
    def draw(self) -> list[object]:
        """Draw."""
        return ["A chart:", attachment(PNG), {"points": 3}]

    @gate
    def check(self, asked: GateCall) -> None:
        self.checked.append(asked.tool_name)

    async def instructions(self, ctx: InstructionsContext) -> str:
        """Written by a method."""
        return f"You are {ctx.agent_id}, and there are {len(self.checked)} checks."


desk = Desk()
model = Recording(
    [say("none")],
    when={
        "^pay": [call("pay"), say("{result}")],
        "^close": [call("close_up"), say("{result}")],
        "^wait": [call("wait_for", seconds=3600), say("{result}")],
        "^count": [call("count"), say("started"), say("{input}")],
        "^draw": [call("draw"), say("{result}")],
    },
)
TOOLS = [desk.pay, desk.close_up, desk.wait_for, desk.count, desk.draw]
REGISTRY = Registry(
    agents=[
        Agent(id="clerk", tools=TOOLS),
        Agent(id="checked", tools=[desk.pay], gates=[desk.check], instructions=desk.instructions),
    ],
    models={"default": model},
)


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = worker_settings(task_queue="tool-retries", sweep_interval=None)
    async with running_worker(temporal, REGISTRY, settings), Client(temporal, task_queue="tool-retries") as client:
        yield client


async def test_a_call_that_took_no_effect_is_retried_in_one_activity_without_a_model_turn(
    client: Client, thread_id: str
) -> None:
    """B-212."""
    result = await client.run("clerk", "pay", thread_id=thread_id)
    assert (result.response, result.steps) == ("paid in attempt 3", 2)
    history = await client.handle(thread_id).fetch_history()
    started = [
        event.activity_task_started_event_attributes
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]
    [retried] = [each for each in started if each.attempt > 1]
    assert (retried.attempt, retried.last_failure.application_failure_info.type) == (3, RAISED_ERROR)


async def test_when_the_retries_are_used_up_the_model_reads_the_last_error_and_how_often_it_was_tried(
    client: Client, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-212. Each error is logged once."""
    with caplog.at_level(logging.INFO, "wakeful"):
        result = await client.run("clerk", "close up", thread_id=thread_id)
    logged = [record for record in caplog.records if hasattr(record, "cause")]
    assert [record.msg for record in logged] == ["tool call is retried: %s", "tool failed: %s"]
    assert (vars(logged[0])["tool"], vars(logged[0])["retry_in"]) == ("close_up", "0.0s")
    assert result.response == (
        "Execution failed: closed, attempt 2\nThe call was tried 2 times, and failed each time; this is the last error."
    )


async def test_why_names_a_call_that_waits_for_its_retry_and_a_cancel_ends_the_wait(
    client: Client, thread_id: str
) -> None:
    await client.start("clerk", "wait", thread_id=thread_id)
    found = await until_cause(client, thread_id, Cause.RETRYING, "wait_for")
    assert "waits for tool wait_for, which has failed once" in found.doing
    assert "rate limited by the carrier [retry 1 of 3 follows]" in found.why
    assert "as attempt 2" in found.why
    described = await client.handle(thread_id).describe()
    [pending] = described.raw_description.pending_activities
    assert pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED  # no worker is busy with it
    await client.cancel(thread_id)
    assert (await client.result(thread_id)).status_reason == "cancelled"


async def test_a_background_tool_is_retried_and_its_files_come_with_its_end(client: Client, thread_id: str) -> None:
    result = await client.run("clerk", "count", thread_id=thread_id)
    assert result.status is RunStatus.DONE
    [ended] = [message for message in await client.transcript(thread_id) if message.media]
    assert "counted in attempt 2" in ended.text
    assert ended.media == (ImageBlock(source=Base64Source(media_type="image/png", data="iVBORw0KGgo=")),)


async def test_the_model_gets_the_text_and_the_picture_that_a_tool_returned(client: Client, thread_id: str) -> None:
    result = await client.run("clerk", "draw", thread_id=thread_id)
    assert result.response == 'A chart:\n{"points":3}'
    [shown] = [message for message in model.requests[-1].messages if message.tool_call_id]
    assert shown.content[1:] == (ImageBlock(source=Base64Source(media_type="image/png", data="iVBORw0KGgo=")),)


async def test_gates_and_instructions_that_are_methods_run_and_a_gate_checks_each_attempt(
    client: Client, thread_id: str
) -> None:
    desk.checked.clear()
    result = await client.run("checked", "pay", thread_id=thread_id)
    assert result.response == "paid in attempt 3"
    assert desk.checked == ["pay"] * 4  # when the model asks, and before each attempt
    assert model.requests[-1].instructions == "You are checked, and there are 0 checks."


def test_a_retry_that_temporal_refuses_means_that_the_call_is_cancelled() -> None:
    """The run has cancelled it, and the worker did not know that when the tool raised."""
    refused = ActivityError(
        "",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="pay",
        activity_id="1",
        retry_state=RetryState.CANCEL_REQUESTED,
    )
    refused.__cause__ = ApplicationError("busy", type=RAISED_ERROR)
    assert tool_failure(ToolDescriptor(id="pay", name="pay"), refused, attempts=1) is None
