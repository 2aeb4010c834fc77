"""What one execution of a tool shows, if it does not come to its end."""

import asyncio

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.support.activity_telemetry import WatchedActivities
from wakeful.contract.messages import ToolCall
from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolCallInput
from wakeful.telemetry import instruments, names
from wakeful_activities.tools.execution_telemetry import executing

INPUT = ToolCallInput(
    call=ToolCall(id="1-1", name="dig"),
    identity=RunIdentity(thread_id="t", run_id="r", agent_id="a"),
    idempotency_key="r:1-1",
)


async def end(watched: WatchedActivities, error: BaseException) -> None:
    async def call_tool() -> None:
        with executing(watched.telemetry, "dig", INPUT):
            raise error

    with pytest.raises(type(error)):
        await ActivityEnvironment().run(call_tool)


async def test_a_call_that_is_left_to_another_worker_is_no_execution() -> None:
    watched = WatchedActivities()
    await end(watched, ApplicationError("this worker has no gate", type=NOT_ON_THIS_WORKER))
    assert watched.measured.counts(instruments.TOOL_DURATION) == {}
    ((_, about),) = watched.spans
    assert (about[names.ERROR_TYPE], about.get(names.TOOL_OUTCOME)) == (NOT_ON_THIS_WORKER, None)


async def test_a_call_that_is_cancelled_has_that_outcome() -> None:
    watched = WatchedActivities()
    await end(watched, asyncio.CancelledError())
    assert watched.measured.counts(instruments.TOOL_DURATION, names.TOOL_OUTCOME) == {("cancelled",): 1}
    ((_, about),) = watched.spans
    assert about[names.TOOL_OUTCOME] == "cancelled"
