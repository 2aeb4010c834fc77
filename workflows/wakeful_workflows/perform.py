"""How each command is performed: as which activity, with which timeouts and retries, and which fact its end becomes."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, assert_never

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget, Resolution, ResolvedAgent, ResolveInput
from wakeful.contract.inference import (
    CompactInput,
    CompactOutput,
    InferInput,
    ModelResponse,
    RestoreInput,
    TranscriptTail,
)
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolCallInput, tool_outcome
from wakeful.loop.commands import CallTool, Compact, Infer, ResolveAgent
from wakeful.loop.facts import (
    AgentResolved,
    CompactionReturned,
    Fact,
    InferenceReturned,
    ToolReturned,
    WorkFact,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.state import REVISION
from wakeful.loop.transcript import Transcript, transcript_of

Performed = ResolveAgent | Infer | Compact | CallTool

_RESOLVE_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=10)
_INFER_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=8), maximum_attempts=5
)
_REPEATABLE = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=10)
_ONCE = RetryPolicy(maximum_attempts=1)

SUMMARY_LENGTH = 120
LOCAL_TIMEOUT_SECONDS = 5.0
"""A local call holds the run's workflow task, so it may not take long."""

Handle = ActivityHandle[Any]
R = TypeVar("R", Resolution, ModelResponse, CompactOutput)


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
        self._digest: tuple[ResolvedAgent, str] | None = None
        self.settings = Resolved()

    def start(self, command: Performed, identity: RunIdentity) -> None:
        try:
            handle = self._schedule(command, identity)
        except Exception as error:  # what cannot be scheduled ends as a failure, and not as a run that hangs
            workflow.logger.exception("work cannot be scheduled", extra={"work": command.id})
            self._tell(WorkFailed(command.id, f"it could not be scheduled: {error}"))
            return
        self._handles[command.id] = handle
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
                    ResolveInput(agent_id=command.agent_id, revision=REVISION),
                    activity_id=command.id,
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=30),
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
                    identity=identity if agent.gates else None,
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
            case CallTool(tool=tool, call=call):
                ticket = command.ticket
                tool_input = ToolCallInput(
                    call=call,
                    identity=identity,
                    idempotency_key=f"{identity.run_id}:{call.id}",
                    resume=command.resume,
                    suspension_id=ticket.suspension.id if ticket else None,
                    suspension_reason=ticket.suspension.message if ticket else None,
                    agent=self._digest_of(command.agent) if command.agent else None,
                    permissions=command.permissions,
                )
                if tool.local:
                    return workflow.start_local_activity(
                        tool.id,
                        tool_input,
                        activity_id=command.id,
                        result_type=RawValue,
                        start_to_close_timeout=timedelta(seconds=min(tool.timeout_seconds, LOCAL_TIMEOUT_SECONDS)),
                        retry_policy=_REPEATABLE,
                        summary=_in_words(command),
                    )
                return workflow.start_activity(
                    tool.id,
                    tool_input,
                    activity_id=command.id,
                    result_type=RawValue,
                    task_queue=tool.task_queue,
                    start_to_close_timeout=timedelta(seconds=tool.timeout_seconds),
                    heartbeat_timeout=timedelta(seconds=tool.heartbeat_seconds),
                    retry_policy=_REPEATABLE if tool.effects.may_repeat else _ONCE,
                    cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=_in_words(command),
                )
            case _:
                assert_never(command)

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
                value = workflow.payload_converter().from_payload(returned.payload)
                return ToolReturned(command.id, tool_outcome(command.call.name, value))
            case _:
                assert_never(command)


def _read(returned: RawValue, kind: type[R]) -> R:
    read: R = workflow.payload_converter().from_payload(returned.payload, kind)
    return read


async def restored(run_id: str) -> Transcript:
    """The conversation of an earlier, closed execution of this thread."""
    tail: TranscriptTail = await workflow.execute_activity(
        names.ACTIVITY_RESTORE,
        RestoreInput(run_id=run_id),
        activity_id=names.ACTIVITY_RESTORE,
        result_type=TranscriptTail,
        start_to_close_timeout=timedelta(minutes=2),
        retry_policy=_RESOLVE_RETRIES,
        summary="read the earlier conversation",
    )
    return transcript_of(tail)


def _failed(command: Performed, error: ActivityError) -> WorkFact:
    match error.cause:
        case CancelledError():
            return WorkStopped(command.id)
        case TimeoutError(type=TimeoutType.HEARTBEAT):
            return WorkFailed(command.id, "its worker was lost")
        case TimeoutError(type=kind):
            return WorkFailed(command.id, f"it ran into its {kind.name.lower() if kind else ''} timeout")
        case ApplicationError(message=message):
            return WorkFailed(command.id, message)
        case cause:
            return WorkFailed(command.id, str(cause or error))


def _in_words(command: CallTool) -> str:
    """What stands beside the tool's name in Temporal UI: its arguments."""
    arguments = command.call.arguments
    named = arguments.items() if isinstance(arguments, dict) else ()
    words = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named)
    if len(words) > SUMMARY_LENGTH:
        words = words[: SUMMARY_LENGTH - 1] + "…"
    return f"{words} · after a decision" if command.resume else words
