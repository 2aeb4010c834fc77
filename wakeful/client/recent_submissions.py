"""The newest `submit` signals of a thread, and the first, as history has them: also those that wait for a worker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.requests import Submission, parse_submission
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.latest_execution import FIRST_EVENTS
from wakeful.history.moments import SignalReceived, TaskCompleted
from wakeful.rpc_errors import error_of

EVENTS = 200
"""How many events of the newest execution are read."""


@dataclass(frozen=True)
class RecentSubmission:
    """A submission, and when it reached Temporal, in milliseconds since 1970."""

    submission: Submission
    at: int


async def recent_submissions(temporal: Client, thread_id: str) -> list[RecentSubmission]:
    """The submissions among the newest events of the thread's newest execution, the oldest first.

    Raises:
        ThreadNotFound: no workflow has this id.
    """
    found = list[RecentSubmission]()
    payloads = Payloads(temporal.data_converter)
    try:
        async for event in _newest_events(temporal, thread_id):
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == names.SIGNAL_SUBMIT:
                try:
                    submission = await payloads.signal(signal.input, parse_submission)
                except CallerError:  # malformed: the thread refuses it
                    continue
                found.append(RecentSubmission(submission, event.event_time.ToMilliseconds()))
    except RPCError as error:
        raise error_of(error, thread_id) from error
    return found[::-1]


async def first_submission(temporal: Client, execution: ExecutionRef) -> Submission | None:
    """The submission with which an execution was started; None if it was started without one.

    Raises:
        ThreadNotFound: there is no such execution.
        CallerError: it is malformed, or cannot be decoded.
    """
    try:
        async for moment in read_moments(temporal, execution, page_size=FIRST_EVENTS):
            match moment:
                case SignalReceived(signal=names.SIGNAL_SUBMIT):
                    return await Payloads(temporal.data_converter).signal(moment.input, parse_submission)
                case TaskCompleted():
                    break
                case _:
                    pass
    except RPCError as error:
        raise error_of(error, execution.thread_id) from error
    return None


async def _newest_events(temporal: Client, thread_id: str) -> AsyncIterator[HistoryEvent]:
    """The signals among the newest events, the newest first."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id),
        maximum_page_size=EVENTS,
    )
    page = await temporal.workflow_service.get_workflow_execution_history_reverse(request)
    for event in page.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            yield event
