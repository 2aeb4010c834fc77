"""What the newest and the oldest events of a history say: why tasks fail, who ended the run, how models are retried."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure as TemporalFailure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from wakeful.client.diagnosis import server_answers
from wakeful.client.diagnosis.evidence import CancelRequest, Failure, RetryLimits
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract import names
from wakeful.contract.agents import Resolution, ResolvedAgent, RetryPolicy
from wakeful.contract.inference import InferInput
from wakeful.contract.views import Sent
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
from wakeful.history.unhandled import sent_in
from wakeful.loop.thread.continue_as_new import unpack

NEWEST = 100
"""Events that are read from the end."""
OLDEST = 20
"""Events that are read from the start: the agent is looked up first of all."""

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
class RecentHistory:
    """What the newest events say."""

    last_event_at: int | None = None
    reset_at: int | None = None
    task_failure: Failure | None = None
    cancel: CancelRequest | None = None
    last_failure: Failure | None = None
    failure: Failure | None = None
    """Of the workflow itself."""
    ended_by: str = ""
    ended_because: str = ""
    scheduled: dict[str, Scheduled] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    sent: list[Sent] = field(default_factory=list)
    """What was sent since the last workflow task that was completed, the newest first."""
    has_completed: bool = False
    """A workflow task has been completed that is newer than the events still to be read."""
    has_task: bool = False
    """A workflow task that is newer than the events still to be read has completed or failed."""


async def read_recent(temporal: Client, thread_id: str, run_id: str) -> RecentHistory:
    """Read the newest events of one execution, from the last one back."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=temporal.namespace,
        execution=WorkflowExecution(workflow_id=thread_id, run_id=run_id),
        maximum_page_size=NEWEST,
    )
    recent = RecentHistory()
    try:
        answer = await temporal.workflow_service.get_workflow_execution_history_reverse(request, timeout=QUERY_TIMEOUT)
    except RPCError as error:
        recent.unread = (f"{thread_id}: its newest events could not be read ({error.message})",)
        return recent
    for event in answer.history.events:
        recent.last_event_at = recent.last_event_at or server_answers.millis(event.event_time)
        if not recent.has_completed:
            await _add_sent(temporal, recent, thread_id, event)
        if (moment := moment_of(event)) is not None:
            await _add(temporal.data_converter, recent, moment)
    return recent


async def _add_sent(temporal: Client, recent: RecentHistory, thread_id: str, event: HistoryEvent) -> None:
    try:
        recent.sent += reversed(await sent_in(Payloads(temporal.data_converter), event))
    except Exception as error:  # of the codec, such as a key service that is away
        recent.unread = (*recent.unread, f"{thread_id}: what it was sent could not be decoded ({error})")


async def _add(converter: DataConverter, recent: RecentHistory, moment: HistoryMoment) -> None:
    """Add a moment; newer ones were added before it."""
    match moment:
        case TaskCompleted():
            recent.has_task = recent.has_completed = True
        case TaskFailed():
            _add_failed_task(recent, moment)
        case ActivityScheduled(activity_id=id):
            summary = await Payloads(converter).text(moment.summary)
            recent.scheduled.setdefault(id, Scheduled(moment.at, summary, moment.input))
        case ActivityFailed(how=EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED) if recent.last_failure is None:
            recent.last_failure = await _failure(converter, moment.failure)
        case SignalReceived(signal=names.SIGNAL_CANCEL | names.SIGNAL_CLOSE) if recent.cancel is None:
            sender = moment.sender_thread_id
            by = f"thread {sender}" if sender else f"client {moment.identity}"
            recent.cancel = CancelRequest(moment.at, by, is_close=moment.signal == names.SIGNAL_CLOSE)
        case CancelRequested(identity=identity, cause=cause) if recent.cancel is None:
            recent.cancel = CancelRequest(moment.at, f"client {identity}", cause)
        case Closed(identity=identity, reason=reason, failure=failure):
            recent.ended_by, recent.ended_because = identity, reason
            recent.failure = await _failure(converter, failure)
        case _:
            pass


async def _failure(converter: DataConverter, failure: TemporalFailure | None) -> Failure | None:
    return None if failure is None else await server_answers.failure(converter, failure)


def _add_failed_task(recent: RecentHistory, task: TaskFailed) -> None:
    """The newest workflow task counts: one that completed outranks the failures before it."""
    is_harmless = task.cause in _HARMLESS or task.failure.application_failure_info.type == names.HANDLED_EARLY
    if task.is_reset:
        recent.reset_at = recent.reset_at or task.at
    elif not is_harmless and not recent.has_task:
        cause = WorkflowTaskFailedCause.Name(task.cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
        recent.task_failure = Failure(task.failure.message, cause.replace("_", " ").lower(), task.at)
    recent.has_task = True


async def read_retry_limits(
    temporal: Client, thread_id: str, run_id: str, infer_input: RawPayloads
) -> RetryLimits | None:
    """How the model call with this input is retried; None if its agent is not among the oldest events."""
    payloads = Payloads(temporal.data_converter)
    try:
        input = await payloads.value(infer_input, InferInput)
        agent = await _agent(temporal, thread_id, run_id, input.agent)
    except Exception:  # only a detail of the diagnosis
        return None
    if agent is None:
        return None
    overrides, policy = input.overrides, agent.retry or RetryPolicy()
    others = [binding.name for binding in agent.fallbacks]
    first = agent.model.name
    if overrides is not None:
        first = overrides.upstream_model or first
        others = list(overrides.fallback_upstream_models) if overrides.fallback_upstream_models is not None else others
    return RetryLimits(
        (first, *others), 1 + policy.max_retries, policy.first_token_timeout_secs, policy.stream_idle_timeout_secs
    )


async def _agent(temporal: Client, thread_id: str, run_id: str, digest: str) -> ResolvedAgent | None:
    """The agent with this digest, if the execution started with it or looked it up first."""
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
                if agent := (await payloads.value(result, Resolution)).agent:
                    agents.append(agent)
            case _:
                pass
    return agents
