"""What the newest and the oldest events of a history say: why tasks fail, who ended the run, which models are tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.common.v1 import WorkflowExecution
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
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract import names
from wakeful.contract.agents import Resolution, ResolvedAgent, RetryPolicy
from wakeful.contract.inference import InferInput
from wakeful.history.decoder import Payloads, moment_of, moments_of
from wakeful.history.moments import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    CancelRequested,
    Closed,
    HistoryMoment,
    SignalReceived,
    Started,
    TaskCompleted,
    TaskFailed,
)
from wakeful.loop.thread.continue_as_new import unpack

NEWEST = 100
"""Events that are read from the end."""
OLDEST = 20
"""Events that are read from the start: the agent is looked up first of all."""

HANDLED_EARLY = "HandledEarly"
"""What the workflow raises to have a task retried; it is harmless."""

_HARMLESS = frozenset(
    {
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
    }
)
"""For example a signal that came just as the run completed: the server retries the task, and it succeeds."""


@dataclass(frozen=True)
class Scheduled:
    """When an activity was first scheduled, and its summary."""

    at: int | None
    summary: str = ""
    input: RawPayloads | None = None


@dataclass
class Past:
    """What the newest events say."""

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
    """Read the newest events of one execution, from the last one back."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=NEWEST,
    )
    past, payloads = Past(), Payloads(temporal.data_converter)
    try:
        answer = await temporal.workflow_service.get_workflow_execution_history_reverse(request, timeout=QUERY_TIMEOUT)
    except RPCError as error:
        past.unread = (f"{thread_id}: its newest events could not be read ({error.message})",)
        return past
    for event in answer.history.events:
        past.last_event_at = past.last_event_at or server_answers.moment(event.event_time)
        if (moment := moment_of(event)) is not None:
            await _take(payloads, past, moment)
    return past


async def _take(payloads: Payloads, past: Past, moment: HistoryMoment) -> None:
    """Newer moments were taken before."""
    match moment:
        case TaskCompleted():
            past.is_task_known = True
        case TaskFailed():
            _take_failed_task(past, moment)
        case ActivityScheduled(activity_id=id):
            summary = await payloads.text(moment.summary)
            past.scheduled.setdefault(id, Scheduled(moment.at, summary, moment.input))
        case ActivityFailed(how=EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED) if past.last_failure is None:
            past.last_failure = server_answers.failure(moment.failure) if moment.failure is not None else None
        case SignalReceived(signal=names.SIGNAL_CANCEL | names.SIGNAL_CLOSE) if past.cancel is None:
            sender = moment.sender_thread_id
            past.cancel = Asked(moment.at, f"thread {sender}" if sender else f"client {moment.identity}")
        case CancelRequested(identity=identity, cause=cause) if past.cancel is None:
            past.cancel = Asked(moment.at, f"client {identity}", cause)
        case Closed(identity=identity, reason=reason, failure=failure):
            past.ended_by, past.ended_because = identity, reason
            past.failure = server_answers.failure(failure) if failure is not None else None
        case _:
            pass


def _take_failed_task(past: Past, task: TaskFailed) -> None:
    """The newest workflow task counts: one that completed outranks the failures before it."""
    is_harmless = task.cause in _HARMLESS or task.failure.application_failure_info.type == HANDLED_EARLY
    if task.is_reset:
        past.reset_at = past.reset_at or task.at
    elif not is_harmless and not past.is_task_known:
        cause = WorkflowTaskFailedCause.Name(task.cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
        past.task_failure = Failure(task.failure.message, cause.replace("_", " ").lower(), task.at)
    past.is_task_known = True


async def read_tries(temporal: Client, thread_id: str, run_id: str, given: RawPayloads) -> Tries | None:
    """How the model call with this input is tried; None if its agent is not found where it should be."""
    payloads = Payloads(temporal.data_converter)
    try:
        input = await payloads.value(given, InferInput)
        agent = await _agent(temporal, thread_id, run_id, input.agent)
    except Exception:  # a detail: what is known without it is reported anyway
        return None
    if agent is None:
        return None
    overrides, policy = input.overrides, agent.retry or RetryPolicy()
    others = [binding.name for binding in agent.fallbacks]
    first = agent.model.name
    if overrides is not None:
        first = overrides.upstream_model or first
        others = list(overrides.fallback_upstream_models) if overrides.fallback_upstream_models is not None else others
    return Tries(
        (first, *others), 1 + policy.max_retries, policy.first_token_timeout_secs, policy.stream_idle_timeout_secs
    )


async def _agent(temporal: Client, thread_id: str, run_id: str, digest: str) -> ResolvedAgent | None:
    """The agent with this digest, if the execution was started with it, or looked it up first of all."""
    request = GetWorkflowExecutionHistoryRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=OLDEST,
    )
    answer = await temporal.workflow_service.get_workflow_execution_history(request, timeout=QUERY_TIMEOUT)
    agents = await _first_agents(Payloads(temporal.data_converter), answer.history.events)
    return next((agent for agent in agents if agent.digest() == digest), None)


async def _first_agents(payloads: Payloads, events: Sequence[HistoryEvent]) -> list[ResolvedAgent]:
    agents: list[ResolvedAgent] = []
    for moment in moments_of(events):
        match moment:
            case Started(input=input):
                given = await payloads.json(input)
                snapshot = given.get(names.SNAPSHOT) if isinstance(given, dict) else None
                run = unpack(snapshot).thread.run if isinstance(snapshot, dict) else None
                agents += [run.resolved] if run is not None and run.resolved is not None else []
            case ActivityCompleted(activity_type=names.ACTIVITY_RESOLVE_AGENT, result=result):
                agents.append((await payloads.value(result, Resolution)).agent)
            case _:
                pass
    return agents
