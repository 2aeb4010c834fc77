"""Which span a step of a thread has, as the headers of its history say, if it was traced."""

from temporalio.client import Client
from temporalio.converter import PayloadConverter
from temporalio.service import RPCError

from wakeful.contract.errors import WakefulError
from wakeful.contract.inference import InferInput
from wakeful.contract.names import INFERENCES
from wakeful.history.decoder import ExecutionRef, Payloads
from wakeful.telemetry.spans import SpanRef, ref_of

TRACER_DATA = "_tracer-data"
"""The header in which Temporal's OpenTelemetry interceptors carry a context."""


async def step_span(client: Client, execution: ExecutionRef, messages: int) -> SpanRef | None:
    """The span of the step whose answer is the last among the first `messages` of a conversation.

    None if this execution did not run it, or if it was not traced.
    """
    payloads, found = Payloads(client.data_converter), None
    handle = client.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
    try:
        async for event in handle.fetch_history_events():
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name not in INFERENCES or TRACER_DATA not in scheduled.header.fields:
                continue
            input = await payloads.value(scheduled.input, InferInput)
            if input.transcript.length < messages:
                found = ref_of(PayloadConverter.default.from_payload(scheduled.header.fields[TRACER_DATA]))
    except (RPCError, WakefulError, ValueError, KeyError, RuntimeError):  # a link is not worth a failure
        return None
    return found
