"""What a peer writes for its viewers: the same answer over `temporalio.contrib.workflow_streams`.

There an activity publishes each delta by a signal to its workflow, several in one where they come quickly, and each
poll of a viewer is an update: both are written to history. How often it publishes is how often Wakeful heartbeats.
"""

from dataclasses import dataclass

from temporalio import activity, workflow
from temporalio.client import Client

with workflow.unsafe.imports_passed_through():
    from temporalio.contrib.workflow_streams import WorkflowStream, WorkflowStreamClient

    from benchmarks.bare_stream import TIMEOUT, answer
    from benchmarks.sides import PEER
    from wakeful.worker import HEARTBEAT_THROTTLE

TOPIC = "words"


@dataclass(frozen=True)
class PeerModel:
    """A Chat Completions API."""

    url: str

    @activity.defn
    async def publish_answer(self, question: str) -> str:
        text = ""
        stream = WorkflowStreamClient.from_within_activity(batch_interval=HEARTBEAT_THROTTLE)
        topic = stream.topic(TOPIC, type=str)
        async with stream:
            async for words in answer(self.url, PEER, question):
                text += words
                if words:
                    topic.publish(words)
        return text


@workflow.defn
class PeerStream:
    @workflow.init
    def __init__(self, question: str) -> None:
        del question
        self._stream = WorkflowStream()

    @workflow.run
    async def run(self, question: str) -> str:
        text = await workflow.execute_activity_method(
            PeerModel.publish_answer, question, start_to_close_timeout=TIMEOUT
        )
        self._stream.detach_pollers()  # a viewer that waits would else be told of as a handler left unfinished
        await workflow.wait_condition(workflow.all_handlers_finished)
        return text


async def view(client: Client, id: str) -> str:
    """Everything that one viewer sees."""
    viewer = WorkflowStreamClient.create(client, id)
    return "".join([item.data async for item in viewer.subscribe(TOPIC, result_type=str)])
