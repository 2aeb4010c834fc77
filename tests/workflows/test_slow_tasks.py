"""A workflow task that takes longer than the SDK allows: it is done again, and leaves nothing behind."""

import asyncio
import logging
import time

import pytest
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from wakeful.serial_activations import SLOW, SerialActivations

SIGNALS = 30


class Slowness:
    """How many signals take long, from now on."""

    def __init__(self) -> None:
        self.left = 0


SLOWNESS = Slowness()


@workflow.defn(sandboxed=False)
class Listener:
    """It ends when it has heard all signals, of which the first may take it long."""

    def __init__(self) -> None:
        self.heard = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.heard == SIGNALS)
        return self.heard

    @workflow.signal
    async def say(self) -> None:
        if SLOWNESS.left:
            SLOWNESS.left -= 1
            time.sleep(0.1)  # noqa: ASYNC251  # it takes long on purpose
        self.heard += 1


async def test_a_slow_workflow_task_is_done_again_and_its_worker_can_stop(
    temporal: TemporalClient, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK evicted the workflow while a thread still worked on it, and waited for lost tasks for ever."""
    SLOWNESS.left = SIGNALS
    handle = await temporal.start_workflow(Listener.run, id=thread_id, task_queue=thread_id)
    for _ in range(SIGNALS):
        await handle.signal(Listener.say)
    runner = SerialActivations(UnsandboxedWorkflowRunner())
    with caplog.at_level(logging.WARNING, "wakeful"):
        async with (
            asyncio.timeout(60),
            Worker(temporal, task_queue=thread_id, workflows=[Listener], unsandboxed_workflow_runner=runner),
        ):
            assert await handle.result() == SIGNALS
    [slow] = [record for record in caplog.records if record.message == SLOW]
    assert vars(slow)["thread_id"] == thread_id
    assert vars(slow)["at"].startswith("test_slow_tasks.py:")
