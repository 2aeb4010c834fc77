"""The same answer, published to its viewers with `temporalio.contrib.workflow_streams`.

There an activity publishes batches of deltas as signals to its workflow, and each poll of a viewer is an update; the
server writes both to history. The batch interval is the interval of Wakeful's heartbeats.
"""

from dataclasses import dataclass

from temporalio import activity, workflow
from temporalio.client import Client

with workflow.unsafe.imports_passed_through():
    from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowStreamClient

    from benchmarks.bare_stream import TIMEOUT, stream_deltas
    from benchmarks.workload import WORKFLOW_STREAMS
    from wakeful.worker import WorkerSettings

TOPIC = "words"


@dataclass(frozen=True)
class PublishingModel:
    """The publishing activity, over a Chat Completions API."""

    url: str

    @activity.defn
    async def publish_answer(self, question: str) -> str:
        text = ""
        stream = WorkflowStreamClient.from_within_activity(batch_interval=WorkerSettings.live_heartbeat_interval)
        topic = stream.topic(TOPIC, type=str)
        async with stream:
            async for delta in stream_deltas(self.url, WORKFLOW_STREAMS, question):
                text += delta
                if delta:
                    topic.publish(delta)
        return text


@workflow.defn
class WorkflowStreamRun:
    @workflow.init
    def __init__(self, question: str) -> None:
        del question
        self._stream = WorkflowStream()

    @workflow.run
    async def run(self, question: str) -> str:
        text = await workflow.execute_activity_method(
            PublishingModel.publish_answer, question, start_to_close_timeout=TIMEOUT
        )
        self._stream.detach_pollers()  # otherwise the SDK warns of the handler of a waiting viewer as unfinished
        await workflow.wait_condition(workflow.all_handlers_finished)
        return text


async def view(client: Client, id: str) -> str:
    """The text that one viewer receives."""
    viewer = WorkflowStreamClient.create(client, id)
    return "".join([item.data async for item in viewer.subscribe(TOPIC, result_type=str)])
