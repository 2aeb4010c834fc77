"""What the ends of a history say: the newest events, why a turn fails and who ended it; the oldest, who is asked."""

from dataclasses import dataclass, field

from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.diagnosis import server_answers
from wakeful.client.diagnosis.evidence import Asked, Failure, Tries
from wakeful.client.queries import PATIENCE
from wakeful.contract import names
from wakeful.contract.agents import Resolution, ResolvedAgent, RetryPolicy
from wakeful.contract.inference import InferInput
from wakeful.loop.thread.continue_as_new import unpack

NEWEST = 100
"""Events that are read from the end."""
OLDEST = 20
"""Events that are read from the beginning: the agent is looked up first of all."""

HANDLED_EARLY = "HandledEarly"
"""What the workflow raises to have a turn handed out again; it means no harm."""

_RESET = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
_HARMLESS = frozenset(
    {
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
    }
)
"""A signal came just as the run was about to end, and the like: the turn is taken again, and comes through."""
_OUTCOMES = (EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED)


@dataclass(frozen=True)
class Scheduled:
    """When an activity was asked for, and what stood beside it."""

    at: int | None
    summary: str = ""
    input: Payloads | None = None


@dataclass
class Past:
    """What the newest events tell."""

    last_event_at: int | None = None
    reset_at: int | None = None
    task_failure: Failure | None = None
    cancel: Asked | None = None
    last_failure: Failure | None = None
    failure: Failure | None = None
    """Of the workflow itself."""
    ended_by: str = ""
    ended_because: str = ""
    scheduled: dict[str, Scheduled] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    is_task_known: bool = False


async def read_past(temporal: Client, thread_id: str, run_id: str) -> Past:
    """The newest events of one execution, from the last one back."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=NEWEST,
    )
    past = Past()
    try:
        answer = await temporal.workflow_service.get_workflow_execution_history_reverse(request, timeout=PATIENCE)
    except RPCError as error:
        past.unread = (f"{thread_id}: its newest events could not be read ({error.message})",)
        return past
    for event in answer.history.events:
        past.last_event_at = past.last_event_at or server_answers.moment(event.event_time)
        await _take(temporal, past, event)
    return past


async def _take(temporal: Client, past: Past, event: HistoryEvent) -> None:
    """Newer events were taken before."""
    at = server_answers.moment(event.event_time)
    if event.event_type in _OUTCOMES:
        _take_turn(past, event, at)
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            summary = await _text(temporal, event)
            past.scheduled.setdefault(scheduled.activity_id, Scheduled(at, summary, scheduled.input))
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED if past.last_failure is None:
            past.last_failure = server_answers.failure(event.activity_task_failed_event_attributes.failure)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED if past.cancel is None:
            signalled = event.workflow_execution_signaled_event_attributes
            if signalled.signal_name == names.SIGNAL_CANCEL:
                sender = signalled.external_workflow_execution.workflow_id
                past.cancel = Asked(at, f"thread {sender}" if sender else f"client {signalled.identity}")
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED if past.cancel is None:
            requested = event.workflow_execution_cancel_requested_event_attributes
            past.cancel = Asked(at, f"client {requested.identity}", requested.cause)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            terminated = event.workflow_execution_terminated_event_attributes
            past.ended_by, past.ended_because = terminated.identity, terminated.reason
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            past.failure = server_answers.failure(event.workflow_execution_failed_event_attributes.failure)
        case _:
            pass


def _take_turn(past: Past, event: HistoryEvent, at: int | None) -> None:
    """The newest turn counts: one that came through outdoes the failures before it."""
    failed = event.workflow_task_failed_event_attributes
    is_failure = event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    is_harmless = failed.cause in _HARMLESS or failed.failure.application_failure_info.type == HANDLED_EARLY
    if is_failure and failed.cause == _RESET:
        past.reset_at = past.reset_at or at
    elif is_failure and not is_harmless and not past.is_task_known:
        cause = WorkflowTaskFailedCause.Name(failed.cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
        past.task_failure = Failure(failed.failure.message, cause.replace("_", " ").lower(), at)
    past.is_task_known = True


async def _text(temporal: Client, event: HistoryEvent) -> str:
    """What stands beside an event in Temporal UI."""
    if not event.user_metadata.HasField("summary"):
        return ""
    try:
        (text,) = await temporal.data_converter.decode([event.user_metadata.summary], [str])
    except Exception:  # without the codec there is no summary, and all else is as it is
        return ""
    return str(text)


async def read_tries(temporal: Client, thread_id: str, run_id: str, given: Payloads) -> Tries | None:
    """How the model call with this input is tried; None if the agent that it names is not found where it should be."""
    try:
        (asked,) = await temporal.data_converter.decode(given.payloads, [InferInput])
        agent = await _agent(temporal, thread_id, run_id, asked.agent)
    except Exception:  # told besides: what is known without it stands
        return None
    if agent is None:
        return None
    overrides, policy = asked.overrides, agent.retry or RetryPolicy()
    others = [binding.name for binding in agent.fallbacks]
    first = agent.model.name
    if overrides is not None:
        first = overrides.upstream_model or first
        others = list(overrides.fallback_upstream_models) if overrides.fallback_upstream_models is not None else others
    return Tries(
        (first, *others), 1 + policy.max_retries, policy.first_token_timeout_secs, policy.stream_idle_timeout_secs
    )


async def _agent(temporal: Client, thread_id: str, run_id: str, digest: str) -> ResolvedAgent | None:
    """The agent of this digest, if the execution was given it, or looked it up first of all."""
    request = GetWorkflowExecutionHistoryRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=OLDEST,
    )
    answer = await temporal.workflow_service.get_workflow_execution_history(request, timeout=PATIENCE)
    lookups: set[int] = set()
    for event in answer.history.events:
        found: ResolvedAgent | None = None
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                (begun,) = await temporal.data_converter.decode(
                    event.workflow_execution_started_event_attributes.input.payloads
                )
                if isinstance(begun, dict) and names.CARRIED in begun:
                    found = unpack(begun[names.CARRIED]).state.resolved
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                if event.activity_task_scheduled_event_attributes.activity_type.name == names.ACTIVITY_RESOLVE_AGENT:
                    lookups.add(event.event_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                if completed.scheduled_event_id in lookups:
                    (resolution,) = await temporal.data_converter.decode(completed.result.payloads, [Resolution])
                    found = resolution.agent
            case _:
                pass
        if found is not None and found.digest() == digest:
            return found
    return None
