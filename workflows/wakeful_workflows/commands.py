"""Perform commands as activities: their inputs, timeouts and retries, and the fact that each ends as."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar, assert_never

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType

from wakeful.contract import ids, names
from wakeful.contract.agents import Resolution, ResolvedAgent, ResolveInput
from wakeful.contract.hooks import HookEffects, HooksInput
from wakeful.contract.inference import (
    CompactInput,
    CompactOutput,
    InferInput,
    ModelResponse,
    RestoreInput,
    TranscriptTail,
)
from wakeful.contract.limits import LOCAL_RESULTS_BYTES, MAX_RUNNING_LOCAL
from wakeful.contract.mail import DeliverInput
from wakeful.contract.requests import payload_problem
from wakeful.contract.runs import RunIdentity, metadata_digest
from wakeful.contract.tools import ToolCallInput, unreadable_result
from wakeful.loop.machine.commands import CallTool, Compact, DeliverMessage, Infer, ResolveAgent, RunHooks
from wakeful.loop.machine.facts import (
    AgentResolved,
    CompactionReturned,
    Delivered,
    Fact,
    HooksReturned,
    InferenceReturned,
    ToolReturned,
    WorkCancelled,
    WorkFact,
    WorkFailed,
)
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.state import Thread
from wakeful_workflows.history_estimate import ACTIVITY, CANCEL, LOCAL_ACTIVITY, HistoryEstimate
from wakeful_workflows.remote_calls import RemoteCalls, start_remote_call
from wakeful_workflows.run_log import logger
from wakeful_workflows.signalling import delivery_failure, start_delivery
from wakeful_workflows.tools import (
    HEARTBEAT_TIMEOUT,
    STEP_HEARTBEAT_TIMEOUT,
    ActivityNotRegistered,
    Handle,
    failure_code,
    failure_reason,
    is_left_to_others,
    read_outcome,
    runs_again,
    start_local,
    start_tool,
    tool_failure,
)
from wakeful_workflows.worker_facts import WorkerFacts

ActivityCommand = ResolveAgent | Infer | Compact | CallTool | DeliverMessage | RunHooks

HOOKS_TIMEOUT = timedelta(minutes=5)
"""For all hooks of the activity together; each hook has a timeout of its own."""
_HOOK_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)
_RESOLVE_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))
"""Without a limit: the activity knows how long other workers are tried, and counts the attempts that had the agent."""
_ELSEWHERE_RETRIES = replace(_HOOK_RETRIES, maximum_interval=timedelta(seconds=5), maximum_attempts=0)
"""Of hooks that the worker of the run left to others: the activity knows how long, and counts the attempts."""
_RESTORE_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
"""Without a limit: the thread waits until its past can be read, and keeps what is sent to it meanwhile."""
_INFER_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=8))
"""Without a limit: the activity knows the agent's patience, and fails for good when it is over."""
_COMPACT_RETRIES = replace(_INFER_RETRIES, maximum_attempts=5)

R = TypeVar("R", Resolution, ModelResponse, CompactOutput, HookEffects, TranscriptTail)


@dataclass(slots=True)
class LocalResults:
    """The results of local tools: one workflow task may have to hold all of them. Beyond its room, tools are not local.

    Room for results that are as large as any may be is left for those that are running.
    """

    running: set[str] = field(default_factory=set)
    bytes: int = 0

    @property
    def has_room(self) -> bool:
        return len(self.running) < MAX_RUNNING_LOCAL and self.bytes < LOCAL_RESULTS_BYTES

    def add(self, id: str, returned: RawValue) -> None:
        if id in self.running:
            self.running.remove(id)
            self.bytes += returned.payload.ByteSize()


class Activities:
    """The activities in flight, by command id. The end of each is reported as one fact."""

    def __init__(self, report: Callable[[Fact], None], history: HistoryEstimate) -> None:
        self._report = report
        self._history = history
        self._handles: dict[str, Handle] = {}
        self._attempts: dict[str, int] = {}
        """How often the run has started each."""
        self._cancelling: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._local = LocalResults()
        self._deliveries: set[str] = set()
        self._remote = RemoteCalls(history)
        self._digest: tuple[ResolvedAgent, str] | None = None
        self.agent: ResolvedAgent | None = None
        """The last that was resolved, as this execution's history has it."""
        self.worker = WorkerFacts(history)
        self.priority = Priority.default
        """Of what is scheduled next, as far as it is not inherited."""

    @property
    def is_delivering(self) -> bool:
        """A message to another thread is in flight."""
        return bool(self._deliveries)

    @property
    def is_cancelling_remotely(self) -> bool:
        """A service is being told that its task is cancelled."""
        return self._remote.is_cancelling

    @property
    def bytes_in_flight(self) -> int:
        return sum(self._sizes.values())

    def start(self, command: ActivityCommand, identity: RunIdentity, *, may_be_local: bool = True) -> None:
        before = self._history.bytes
        try:
            handle = self._schedule(command, identity, may_be_local=may_be_local)
        except ActivityNotRegistered:
            raise
        except Exception as error:  # what cannot be scheduled ends as a failure, and does not block the run
            logger.exception("an activity cannot be scheduled", extra={"command": command.id})
            self._forget(command.id)  # an earlier attempt, if it was started again
            self._report(WorkFailed(command.id, f"it could not be scheduled: {error}", was_scheduled=False))
            return
        self._handles[command.id] = handle
        self._attempts[command.id] = self._attempts.get(command.id, 0) + 1
        self._sizes[command.id] = self._history.bytes - before
        if isinstance(command, DeliverMessage):
            self._deliveries.add(command.id)
        is_local = isinstance(command, RunHooks) or command.id in self._local.running
        handle.add_done_callback(lambda _: self._on_done(command, identity, handle, is_local=may_be_local and is_local))

    def is_running(self, id: str) -> bool:
        return id in self._handles

    def cancel(self, id: str) -> None:
        """Request the cancellation of an activity; its fact follows when it has stopped."""
        if handle := self._handles.get(id):
            self._history.add(CANCEL)
            self._cancelling.add(id)
            if not self._remote.cancel_first(id, then=handle.cancel, priority=self.priority):
                handle.cancel()

    def leave_remote_task(self, thread: Thread) -> None:
        """The run has ended while its remote agent waited for an answer: cancel the task at its service."""
        agent = thread.run.resolved if thread.run else None
        if agent is not None and agent.endpoint is not None and thread.batch is not None:
            self._remote.leave(self._digest_of(agent), thread.batch, priority=self.priority)

    def _schedule(self, command: ActivityCommand, identity: RunIdentity, *, may_be_local: bool) -> Handle:
        match command:
            case ResolveAgent():
                lookup = ResolveInput(
                    agent_id=command.agent_id,
                    revision=REVISION,
                    in_task=command.in_task,
                    known=self._digest_of(self.agent) if self.agent else None,
                    in_flight=_is_in_flight(command, identity),
                    tenant=identity.tenant,
                    user=identity.user,
                    metadata=dict(command.metadata),
                )
                return workflow.start_activity(
                    names.ACTIVITY_RESOLVE_AGENT,
                    self._history.encode(ACTIVITY, lookup),
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=10),
                    retry_policy=_RESOLVE_RETRIES,
                    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    priority=self.priority,
                    summary=f"look up agent {command.agent_id}",
                )
            case Infer():
                self._local.bytes = 0  # its own workflow task completes the one that the local results are in
                return self._schedule_inference(command, identity)
            case Compact():
                return self._schedule_compaction(command)
            case CallTool(tool=tool):
                if tool.local and not (may_be_local and self._local.has_room):
                    tool = tool.model_copy(update={"local": False})
                # History does not record a local activity's input; a foreign worker cannot read the history.
                is_inline = tool.local or tool.task_queue is not None
                input = self._tool_input(command, identity, is_inline=is_inline)
                encoded = self._history.encode(LOCAL_ACTIVITY if tool.local else ACTIVITY, input)
                handle = start_tool(tool, input, id=command.id, encoded=encoded, priority=self.priority)
                if tool.local:
                    self._local.running.add(command.id)
                return handle
            case RunHooks():
                return self._schedule_hooks(command, identity, is_local=may_be_local)
            case DeliverMessage(message=message):
                delivery = DeliverInput(
                    thread_id=message.recipient_thread_id,
                    signal=names.SIGNAL_DELIVER,
                    payload=message.model_dump(mode="json"),
                    agent_id=message.recipient_agent_id,
                )
                encoded = self._history.encode(ACTIVITY, delivery)
                return start_delivery(delivery, id=command.id, encoded=encoded, priority=self.priority)
            case _:
                assert_never(command)

    def _schedule_inference(self, command: Infer, identity: RunIdentity) -> Handle:
        agent = command.agent
        input = InferInput(
            agent=self._digest_of(agent),
            transcript=command.transcript,
            appended=command.appended,
            frontend_tools=command.frontend_tools,
            compaction=command.compaction,
            token_factor=command.token_factor,
            context=command.context,
            overrides=command.overrides,
            continuing=command.continuing,
            permissions=command.permissions,
            questions=command.questions,
            identity=identity if command.is_judged or agent.endpoint else None,
            metadata=metadata_digest(command.metadata) if command.is_judged else None,
            state=command.state,
            step=command.step if command.state or agent.endpoint else 0,
            ended_step=command.ended_step,
            changes=command.changes,
            lineage=command.lineage,
            live=command.live,
        )
        encoded = self._history.encode(ACTIVITY, input)
        if agent.endpoint is not None:
            self._remote.add(command.id, input.agent)
            return start_remote_call(agent, encoded, id=command.id, step=command.step, priority=self.priority)
        return workflow.start_activity(
            names.ACTIVITY_INFER,
            encoded,
            activity_id=command.id,
            result_type=RawValue,
            task_queue=agent.model.task_queue,
            start_to_close_timeout=timedelta(seconds=agent.inference_timeout_seconds),
            heartbeat_timeout=timedelta(seconds=agent.inference_heartbeat_seconds),
            retry_policy=_INFER_RETRIES,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=self.priority,
            summary=f"step {command.step} · {command.model}",
        )

    def _schedule_hooks(self, command: RunHooks, identity: RunIdentity, *, is_local: bool) -> Handle:
        input = HooksInput(
            agent=self._digest_of(command.agent),
            phases=command.phases,
            identity=identity,
            step=command.step,
            state=command.state,
            response=command.response,
            result=command.result,
            metadata=dict(command.metadata),
        )
        summary = ", ".join(phase.value for phase in command.phases)
        encoded = self._history.encode(LOCAL_ACTIVITY if is_local else ACTIVITY, input)
        if is_local:
            return start_local(
                names.ACTIVITY_HOOKS,
                encoded,
                id=command.id,
                timeout=HOOKS_TIMEOUT,
                retries=_HOOK_RETRIES,
                summary=summary,
            )
        return workflow.start_activity(
            names.ACTIVITY_HOOKS,
            encoded,
            activity_id=command.id,
            result_type=RawValue,
            start_to_close_timeout=HOOKS_TIMEOUT,
            heartbeat_timeout=STEP_HEARTBEAT_TIMEOUT,
            retry_policy=_ELSEWHERE_RETRIES,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )

    def _schedule_compaction(self, command: Compact) -> Handle:
        agent = command.agent
        input = CompactInput(
            agent=self._digest_of(agent),
            transcript=command.transcript,
            previous=command.previous,
            token_factor=command.token_factor,
            limit=command.limit,
        )
        return workflow.start_activity(
            names.ACTIVITY_COMPACT,
            self._history.encode(ACTIVITY, input),
            activity_id=command.id,
            result_type=RawValue,
            task_queue=(agent.summary_model or agent.model).task_queue,
            start_to_close_timeout=timedelta(seconds=agent.inference_timeout_seconds),
            heartbeat_timeout=timedelta(seconds=agent.inference_heartbeat_seconds),
            retry_policy=_COMPACT_RETRIES,
            priority=self.priority,
            summary="summarise the oldest messages",
        )

    def _tool_input(self, command: CallTool, identity: RunIdentity, *, is_inline: bool) -> ToolCallInput:
        ticket = command.ticket
        return ToolCallInput(
            call=command.call,
            identity=identity,
            idempotency_key=ids.idempotency_key(identity.run_id, command.call.id),
            resume=command.resume,
            suspension_id=ticket.suspension.id if ticket else None,
            suspension_reason=ticket.suspension.message if ticket else None,
            suspension_state=ticket.state if ticket else None,
            mcp=command.tool.mcp,
            agent=self._digest_of(command.agent) if command.agent else None,
            permissions=command.permissions,
            questions=command.questions,
            state=command.state,
            step=command.step,
            live=command.live,
            metadata=dict(command.metadata) if is_inline else {},
            metadata_digest=None if is_inline else metadata_digest(command.metadata),
        )

    def _digest_of(self, agent: ResolvedAgent) -> str:
        """The agent's digest, computed once: an agent with many tools is long."""
        if self._digest is None or self._digest[0] is not agent:
            self._digest = (agent, agent.digest())
        return self._digest[1]

    def _on_done(
        self, command: ActivityCommand, identity: RunIdentity, handle: Handle, *, is_local: bool = False
    ) -> None:
        try:
            fact = self._result_fact(command, handle.result())
        except (ActivityError, ApplicationError) as error:  # the SDK does not wrap the failure of a local activity
            self._history.add_failure(error)
            is_left = is_local and is_left_to_others(error)
            if is_left and command.id not in self._cancelling:  # a regular activity can reach another worker
                self._local.running.discard(command.id)
                self.start(command, identity, may_be_local=False)
                return
            if self._runs_again(command, error):
                self.start(command, identity)
                return
            if is_left:
                fact = WorkCancelled(command.id)
            else:
                fact = _failure_fact(command, error, attempts=self._attempts[command.id])
        except asyncio.CancelledError:
            fact = WorkCancelled(command.id)
        except Exception as error:  # a malformed result must not block the run
            fact = _malformed_fact(command, error)
        self._forget(command.id)
        self._report(fact)

    def _forget(self, id: str) -> None:
        self._handles.pop(id, None)
        self._sizes.pop(id, None)
        self._attempts.pop(id, None)
        self._remote.forget(id)
        for ids_of in (self._cancelling, self._local.running, self._deliveries):
            ids_of.discard(id)

    def _runs_again(self, command: ActivityCommand, error: ActivityError | ApplicationError) -> bool:
        if not isinstance(command, CallTool) or command.id in self._cancelling or isinstance(error, ApplicationError):
            return False
        return runs_again(command.tool, error, attempts=self._attempts[command.id])

    def _result_fact(self, command: ActivityCommand, returned: RawValue) -> WorkFact:
        """Results are taken raw and decoded here: a malformed one must fail the command, not the workflow task."""
        if isinstance(returned, RawValue):
            self._history.add_result(returned)
            self._local.add(command.id, returned)
        match command:
            case ResolveAgent():
                resolution = _decoded(returned, Resolution)
                self.worker.learn(resolution.search_attributes, resolution.budget)
                self.agent = resolution.agent or self.agent
                if self.agent is None:
                    raise ValueError("it has no agent")
                return AgentResolved(command.id, self.agent, resolution.revision, resolution.unpriced)
            case Infer():
                return InferenceReturned(command.id, _decoded(returned, ModelResponse))
            case Compact():
                output = _decoded(returned, CompactOutput)
                return CompactionReturned(command.id, output.mark, output.usage)
            case CallTool():
                return ToolReturned(command.id, read_outcome(command.call.name, returned))
            case RunHooks():
                return HooksReturned(command.id, _decoded(returned, HookEffects))
            case DeliverMessage():
                return Delivered(command.id)
            case _:
                assert_never(command)


def _is_in_flight(command: ResolveAgent, identity: RunIdentity) -> bool:
    """Whether a run in flight needs the agent: to hand off to it, or as a sub-agent."""
    return identity.parent_thread_id is not None or isinstance(ids.parse_work(command.id), ids.ResolveHandoff)


def priority_of(thread: Thread) -> Priority:
    """The priority of what the thread schedules, as far as it does not inherit it from its own execution."""
    given, wanted = workflow.info().priority, thread.priority
    return Priority(**{name: value for name, value in wanted.model_dump().items() if value != getattr(given, name)})


def _decoded(returned: RawValue, kind: type[R]) -> R:
    decoded: R = workflow.payload_converter().from_payload(returned.payload, kind)
    return decoded


def _failure_fact(command: ActivityCommand, error: ActivityError | ApplicationError, *, attempts: int) -> WorkFact:
    if isinstance(command, CallTool):
        failure = tool_failure(command.tool, error, attempts=attempts)
        return (
            WorkFailed(command.id, failure.error, is_result=failure.is_result) if failure else WorkCancelled(command.id)
        )
    if isinstance(command, DeliverMessage) and isinstance(error, ActivityError):
        reason = delivery_failure(error)
    else:
        reason = failure_reason(error)
    if reason is None:
        return WorkCancelled(command.id)
    return WorkFailed(command.id, reason, code=failure_code(error))


def _malformed_fact(command: ActivityCommand, error: Exception) -> WorkFact:
    if isinstance(command, CallTool):
        return WorkFailed(command.id, unreadable_result(payload_problem(error)), is_result=True)
    return WorkFailed(command.id, f"its result is malformed: {error}")


async def restore(past: RestoreInput, history: HistoryEstimate) -> TranscriptTail:
    """Read the conversation that this thread continues, and what the earlier execution kept."""
    returned: RawValue = await workflow.execute_activity(
        names.ACTIVITY_RESTORE,
        history.encode(ACTIVITY, past),
        activity_id=ids.work_id(ids.Restore()),
        result_type=RawValue,
        start_to_close_timeout=timedelta(minutes=2),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=_RESTORE_RETRIES,
        summary="read the earlier conversation",
    )
    history.add_result(returned)
    return _decoded(returned, TranscriptTail)
