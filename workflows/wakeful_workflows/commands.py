"""How each command is performed: as which activity, with which timeouts and retries, and which fact its end becomes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar, assert_never

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityCancellationType

from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget, Resolution, ResolvedAgent, ResolveInput
from wakeful.contract.hooks import HookEffects, HooksInput
from wakeful.contract.inference import (
    CompactInput,
    CompactOutput,
    InferInput,
    ModelResponse,
    RestoreInput,
    TranscriptTail,
)
from wakeful.contract.runs import RunIdentity
from wakeful.contract.subagents import DeliverInput
from wakeful.contract.tools import ToolCallInput
from wakeful.loop.machine.commands import CallTool, Compact, Deliver, Infer, ResolveAgent, RunHooks
from wakeful.loop.machine.facts import (
    AgentResolved,
    CompactionReturned,
    Fact,
    HooksReturned,
    InferenceReturned,
    Told,
    ToolReturned,
    WorkFact,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.machine.state import REVISION
from wakeful_workflows.signalling import start_delivery, why_undelivered
from wakeful_workflows.tools import Handle, idempotency_key, read_outcome, start_tool, why

Performed = ResolveAgent | Infer | Compact | CallTool | Deliver | RunHooks

HOOKS_TIMEOUT = timedelta(minutes=5)
"""Each hook has a timeout of its own; this is for all of them together."""
_HOOK_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)
_RESOLVE_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=10)
_INFER_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=8), maximum_attempts=5
)

R = TypeVar("R", Resolution, ModelResponse, CompactOutput, HookEffects)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the worker that resolved the agent found out for the workflow."""

    search_attributes: bool = False
    budget: HistoryBudget = HistoryBudget()


class Work:
    """The activities in flight, by command id. The end of each is told as one fact."""

    def __init__(self, tell: Callable[[Fact], None]) -> None:
        self._tell = tell
        self._handles: dict[str, Handle] = {}
        self._letters: set[str] = set()
        self._digest: tuple[ResolvedAgent, str] | None = None
        self.settings = Resolved()

    @property
    def is_delivering(self) -> bool:
        """A letter is on its way."""
        return bool(self._letters)

    def start(self, command: Performed, identity: RunIdentity) -> None:
        try:
            handle = self._schedule(command, identity)
        except Exception as error:  # what cannot be scheduled ends as a failure, and not as a run that hangs
            workflow.logger.exception("work cannot be scheduled", extra={"work": command.id})
            self._tell(WorkFailed(command.id, f"it could not be scheduled: {error}"))
            return
        self._handles[command.id] = handle
        if isinstance(command, Deliver):
            self._letters.add(command.id)
        handle.add_done_callback(lambda _: self._follow(command, handle))

    def stop(self, id: str) -> None:
        """Ask the work to stop; its fact comes when it has."""
        if handle := self._handles.get(id):
            handle.cancel()

    def _schedule(self, command: Performed, identity: RunIdentity) -> Handle:
        match command:
            case ResolveAgent():
                return workflow.start_activity(
                    names.ACTIVITY_RESOLVE_AGENT,
                    ResolveInput(agent_id=command.agent_id, revision=REVISION, in_task=command.in_task),
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=10),
                    retry_policy=_RESOLVE_RETRIES,
                    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=f"look up agent {command.agent_id}",
                )
            case Infer(agent=agent):
                input = InferInput(
                    agent=self._digest_of(agent),
                    transcript=command.transcript,
                    appended=command.appended,
                    frontend_tools=command.frontend_tools,
                    compaction=command.compaction,
                    factor=command.factor,
                    context=command.context,
                    overrides=command.overrides,
                    continuing=command.continuing,
                    permissions=command.permissions,
                    identity=identity if agent.gates or command.state else None,
                    state=command.state,
                    step=command.step if command.state else 0,
                    ended=command.ended,
                )
                return workflow.start_activity(
                    names.ACTIVITY_INFER,
                    input,
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=agent.inference_timeout_seconds),
                    heartbeat_timeout=timedelta(seconds=agent.inference_heartbeat_seconds),
                    retry_policy=replace(_INFER_RETRIES, maximum_attempts=command.attempts),
                    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=f"step {command.step} · {command.model}",
                )
            case Compact(agent=agent):
                return workflow.start_activity(
                    names.ACTIVITY_COMPACT,
                    CompactInput(
                        agent=self._digest_of(agent),
                        transcript=command.transcript,
                        previous=command.previous,
                        factor=command.factor,
                    ),
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=agent.inference_timeout_seconds),
                    heartbeat_timeout=timedelta(seconds=agent.inference_heartbeat_seconds),
                    retry_policy=_INFER_RETRIES,
                    summary="summarise the oldest messages",
                )
            case CallTool(tool=tool):
                return start_tool(tool, self._tool_input(command, identity), id=command.id)
            case RunHooks(agent=agent):
                hooks = HooksInput(
                    agent=self._digest_of(agent),
                    moments=command.moments,
                    identity=identity,
                    step=command.step,
                    state=command.state,
                    response=command.response,
                    result=command.result,
                )
                return workflow.start_local_activity(
                    names.ACTIVITY_HOOKS,
                    hooks,
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=HOOKS_TIMEOUT,
                    retry_policy=_HOOK_RETRIES,
                    summary=", ".join(moment.value for moment in command.moments),
                )
            case Deliver(letter=letter):
                delivered = DeliverInput(
                    thread_id=letter.recipient_thread_id,
                    signal=names.SIGNAL_DELIVER,
                    payload=letter.model_dump(mode="json"),
                    agent_id=letter.recipient_agent_id,
                )
                return start_delivery(delivered, id=command.id)
            case _:
                assert_never(command)

    def _tool_input(self, command: CallTool, identity: RunIdentity) -> ToolCallInput:
        ticket = command.ticket
        return ToolCallInput(
            call=command.call,
            identity=identity,
            idempotency_key=idempotency_key(identity, command.call),
            resume=command.resume,
            suspension_id=ticket.suspension.id if ticket else None,
            suspension_reason=ticket.suspension.message if ticket else None,
            agent=self._digest_of(command.agent) if command.agent else None,
            permissions=command.permissions,
            state=command.state,
            step=command.step,
        )

    def _digest_of(self, agent: ResolvedAgent) -> str:
        """Its digest, reckoned once: an agent with many tools is long."""
        if self._digest is None or self._digest[0] is not agent:
            self._digest = (agent, agent.digest())
        return self._digest[1]

    def _follow(self, command: Performed, handle: Handle) -> None:
        try:
            fact = self._ended(command, handle.result())
        except ActivityError as error:
            fact = _failed(command, error)
        except asyncio.CancelledError:
            fact = WorkStopped(command.id)
        except Exception as error:  # a result that cannot be read must not hang the run
            fact = WorkFailed(command.id, f"its result was not understood: {error}")
        del self._handles[command.id]
        self._letters.discard(command.id)
        self._tell(fact)

    def _ended(self, command: Performed, returned: RawValue) -> WorkFact:
        """Results are taken raw and read here: one that cannot be read must end the work, and not the workflow."""
        match command:
            case ResolveAgent():
                resolution = _read(returned, Resolution)
                self.settings = Resolved(resolution.search_attributes, resolution.budget)
                return AgentResolved(resolution.agent, command.id, resolution.revision)
            case Infer():
                return InferenceReturned(command.id, _read(returned, ModelResponse))
            case Compact():
                return CompactionReturned(command.id, _read(returned, CompactOutput).mark)
            case CallTool():
                return ToolReturned(command.id, read_outcome(command.call.name, returned))
            case RunHooks():
                return HooksReturned(command.id, _read(returned, HookEffects))
            case Deliver():
                return Told(command.id)
            case _:
                assert_never(command)


def _read(returned: RawValue, kind: type[R]) -> R:
    read: R = workflow.payload_converter().from_payload(returned.payload, kind)
    return read


async def restored(past: RestoreInput) -> TranscriptTail:
    """The conversation that this thread goes on with, and what was kept besides."""
    tail: TranscriptTail = await workflow.execute_activity(
        names.ACTIVITY_RESTORE,
        past,
        activity_id=names.ACTIVITY_RESTORE,
        result_type=TranscriptTail,
        start_to_close_timeout=timedelta(minutes=2),
        retry_policy=_RESOLVE_RETRIES,
        summary="read the earlier conversation",
    )
    return tail


def _failed(command: Performed, error: ActivityError) -> WorkFact:
    reason = why_undelivered(error) if isinstance(command, Deliver) else why(error)
    return WorkStopped(command.id) if reason is None else WorkFailed(command.id, reason)
