"""Execute a tool call: one activity, whose type is the tool's name. A tool's exception is a result, never a failure."""

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpec

from pydantic import JsonValue
from temporalio import activity
from temporalio.common import RawValue

from wakeful.authoring.gate import GateCall
from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.state import State
from wakeful.authoring.tool import SuspendCall, Tool, ToolContext
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.hooks import HookEffects
from wakeful.contract.missing import Missing
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult, ToolStatus
from wakeful.registry.registry import Registry
from wakeful.telemetry.log_causes import log_failure
from wakeful.telemetry.log_fields import add_fields
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful.telemetry.tracing import error_type
from wakeful_activities.blocked_loop import running_in_loop
from wakeful_activities.heartbeats import HeartbeatIntervals, Heartbeats, heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks, OpenProfiles, checked_requests, effects_of
from wakeful_activities.mcp.calls import McpCalls
from wakeful_activities.other_workers import (
    AttemptFailed,
    Lacking,
    OtherWorkers,
    check_executed,
    may_repeat,
    missing_before,
    waited,
)
from wakeful_activities.results import as_result, cut_to_fit
from wakeful_activities.tools.emit import Emitter, emitting
from wakeful_activities.tools.execution_telemetry import executing
from wakeful_activities.tools.hooks import HookedCall
from wakeful_activities.tools.live_output import LiveOutput
from wakeful_activities.user_code import UserCode, contained, described

_logger = logging.getLogger("wakeful")

P = ParamSpec("P")

ATTEMPTS = 10
"""How often a call that may be repeated is executed, if its workers are lost."""

STOP_GRACE_SECONDS = 10.0
"""How long a cancelled sync tool may take to return; then its thread is abandoned."""


class ToolActivity:
    """The dynamic activity that executes every tool of the registry, if gates and hooks allow it."""

    def __init__(
        self,
        registry: Registry,
        cache: HistoryCache,
        hooks: Hooks,
        gates: Gates,
        user_code: UserCode,
        intervals: HeartbeatIntervals | None = None,
        others: OtherWorkers | None = None,
        telemetry: Telemetry = OFF,
        mcp: McpCalls | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._mcp = mcp
        self._registry = registry
        self._cache = cache
        self._hooks = hooks
        self._gates = gates
        self._user_code = user_code
        self._intervals = intervals
        self._others = others or OtherWorkers(registry)

    @activity.defn(dynamic=True)
    async def call_tool(self, args: Sequence[RawValue]) -> ToolOutcome:
        info = activity.info()
        name, missing = info.activity_type, missing_before()
        _check_earlier_attempts(missing)
        tool = self._registry.tool(name) or self._mcp_tool(args[0])
        if tool is None:
            return await self._not_executed(name)
        input = activity.payload_converter().from_payload(args[0].payload, ToolCallInput)
        add_fields(run_id=input.identity.run_id, agent_id=input.identity.agent_id)
        outcome = _naming(input.call.name, await self._outcome(tool, input, missing))
        if not _is_task(input):
            self._cache.put_outcome(info.activity_id, input.call.id, outcome)
        return outcome

    def _mcp_tool(self, argument: RawValue) -> Tool | None:
        """The tool of an MCP server that performs the call, if one does."""
        if self._mcp is None:
            return None
        try:
            input = activity.payload_converter().from_payload(argument.payload, ToolCallInput)
        except ValueError:  # an activity of a newer release, and no tool at all
            return None
        return self._mcp.tool(input)

    async def _not_executed(self, name: str) -> ToolOutcome:
        """What the model reads if no worker has the tool."""
        problem = f"this worker has no tool {name!r}"
        patience = await self._others.leave(Lacking(f"tool {name!r}", problem))
        message = f"The call was not executed: {problem}{waited(patience)}. Use another tool, or report the problem."
        return ToolOutcome(result=ToolResult.error(name, message))

    async def _outcome(self, tool: Tool, input: ToolCallInput, missing: Missing | None) -> ToolOutcome:
        name = tool.name
        try:
            metadata = input.metadata or await self._cache.metadata(input.metadata_digest)
        except Exception as error:  # as for the agent below
            return _not_read(name, "the metadata of its run could not be read", error)
        call = _Call(input, self._hooks.profiles, self._hooks.dependencies.value, metadata, missing)
        with (
            executing(self._telemetry, name, input) as execution,
            heartbeating(call.progress, self._intervals, live=input.live) as call.beats,
        ):
            if input.agent is None:
                outcome = await self._execute_emitting(tool, call)
                outcome = outcome.model_copy(update={"effects": call.effects})
            else:
                outcome = await self._execute_if_allowed(tool, call, input.agent)
            execution.returned(outcome, error=call.error)
            return outcome

    async def _execute_if_allowed(self, tool: Tool, call: "_Call", agent_digest: str) -> ToolOutcome:
        """Execute the call if permission rules, gates and hooks allow it; hooks may then replace its result."""
        input = call.input
        try:
            agent = await self._cache.agent(agent_digest)
        except Exception as error:  # if the activity failed, the model could not know whether the tool took effect
            return _not_read(tool.name, "its gates could not be evaluated", error)
        if (lacking := self._others.lacking(agent)) is not None:
            await self._others.leave(lacking)  # if the patience is over, a gate blocks, and a plugin fails as it says
        hooks = self._hooks.begin(agent, input.identity, input.step, input.state, call.metadata)
        hooks.read_transcript = partial(self._cache.conversation, input.call.id)
        hooked = HookedCall(hooks, agent, input)
        outcome = await self._gate(agent, hooked, call.metadata) or await hooked.before()
        if outcome is None:
            call.state = hooks.state.staged()
            outcome = await self._execute_emitting(tool, call)
            if call.has_returned:
                hooks.state.commit(call.state)
                hooks.requests.merge(call.requests)
        outcome = await hooked.after(outcome)
        return outcome.model_copy(update={"effects": hooks.effects})

    async def _gate(
        self, agent: ResolvedAgent, hooked: HookedCall, metadata: Mapping[str, JsonValue]
    ) -> ToolOutcome | None:
        """The outcome of a call that permission rules, gates or `tool_gate` hooks do not allow; None if they do."""
        input = hooked.input
        call = GateCall(
            identity=input.identity,
            call_id=input.call.id,
            tool_name=input.call.name,
            arguments=input.call.arguments,
            tool=hooked.tool,
            resume=_allowing(input),
            is_first_check=False,
            metadata=metadata,
        )
        verdict = await self._gates.verdict(agent, input.permissions, call, hooked.hooks)
        outcome = _outcome_of(input.call.name, verdict)
        return outcome if isinstance(verdict, Block) else hooked.outcome_if_run_ends() or outcome

    async def _execute_emitting(self, tool: Tool, call: "_Call") -> ToolOutcome:
        """Execute the call; if it belongs to a background task, signal its events to the task's owner."""
        task = call.input.identity.task
        if task is None:
            return await self._execute(tool, call)
        async with emitting(activity.client(), task) as call.emitter:
            return await self._execute(tool, call)

    async def _execute(self, tool: Tool, call: "_Call") -> ToolOutcome:
        """Call the tool's function; what it returns or raises is the outcome."""
        try:
            arguments = tool.parse(call.input.call.arguments)
            if tool.context_parameter is not None:
                arguments[tool.context_parameter] = call.context()
            returned = await self._call_function(tool, arguments, call)
            result = cut_to_fit(as_result(tool.name, returned))
            if result.status is ToolStatus.PENDING:
                return ToolOutcome(result=result)
            return ToolOutcome(result=result, handoff=call.take_requests())
        except SuspendCall as suspension:
            ticket = suspension.ticket
            return ToolOutcome(result=ToolResult.suspended(tool.name, ticket, ticket.suspension.message))
        except AttemptFailed as attempt:
            raise attempt.failure from None
        except ToolError as error:
            log_failure(_logger, "tool failed", error, extra={"tool": tool.name}, level=logging.INFO)
            call.error = error_type(error)
            return ToolOutcome(result=ToolResult.error(tool.name, str(error)))
        except Exception as error:  # the boundary: whatever a tool raises, the model reads it
            log_failure(_logger, "tool raised", error, extra={"tool": tool.name})
            call.error = error_type(error)
            problem = f"{ToolErrorKind.EXECUTION_FAILED}: {described(error)}"
            return ToolOutcome(result=ToolResult.error(tool.name, problem))

    async def _call_function(self, tool: Tool, arguments: Mapping[str, Any], call: "_Call") -> Any:
        """Run the user's code: an async tool in the event loop, a sync one in a thread."""
        if tool.is_async:
            with contained(), running_in_loop(f"tool {tool.name}"):
                return await tool.function(**arguments)
        # If it returns although it was cancelled, it has taken effect, and its result is recorded.
        return await self._user_code.in_thread(
            f"tool {tool.name}",
            partial(tool.function, **arguments),
            on_cancel=call.cancelled.set,
            grace_seconds=STOP_GRACE_SECONDS,
        )


class _Call:
    """A call while it runs: its context, what it shows to watchers, and whether it is cancelled."""

    def __init__(
        self,
        input: ToolCallInput,
        profiles: OpenProfiles,
        deps: Any,
        metadata: Mapping[str, JsonValue],
        missing: Missing | None = None,
    ) -> None:
        self.input = input
        self.metadata = metadata
        self._missing = missing
        self._profiles = profiles
        self._deps = deps
        self.cancelled = threading.Event()
        self.beats: Heartbeats | None = None
        self._loop = asyncio.get_running_loop()
        self.emitter: Emitter | None = None
        self.requests = HookRequests()
        self.state = State(agent_id=input.identity.agent_id)
        self.error: str | None = None
        """The kind of error that the tool raised."""
        self.has_returned = False
        """The tool neither raised nor suspended: its state and its requests take effect."""
        self._shown = LiveOutput(input.identity, activity.info().attempt)

    def context(self) -> ToolContext[Any]:
        input = self.input
        return ToolContext(
            identity=input.identity,
            call_id=input.call.id,
            tool_name=input.call.name,
            arguments=input.call.arguments,
            idempotency_key=input.idempotency_key,
            attempt=activity.info().attempt,
            resume_input=input.resume,
            suspension_id=input.suspension_id,
            suspension_reason=input.suspension_reason,
            deps=self._deps,
            state=self.state,
            profiles=self._profiles(),
            progress_sink=self._showing(self._shown.report),
            stream_sink=self._showing(self._shown.stream),
            activity_sink=self._showing(self._shown.show),
            patch_sink=self._showing(self._shown.patch),
            cancelled_source=self.cancelled.is_set,
            emit_sink=self._emit,
            requests=self.requests,
            message_sink=self._emit_message,
            metadata=copy.deepcopy(self.metadata),
        )

    def _showing(self, show: Callable[P, None]) -> Callable[P, None]:
        """Show something, and heartbeat it soon; from any thread."""

        def shown(*args: P.args, **kwargs: P.kwargs) -> None:
            show(*args, **kwargs)
            if self.beats is not None:
                self._loop.call_soon_threadsafe(self.beats.news)

        return shown

    def _emit(self, event_type: str, payload: JsonValue) -> bool:
        return self.emitter is not None and self.emitter.emit(event_type, payload)

    def _emit_message(self, text: str) -> bool:
        return self.emitter is not None and self.emitter.emit("message", message=text)

    def take_requests(self) -> str | None:
        """Take what the tool requests, and return the agent that it hands the run off to, if it does.

        Raises:
            ToolError: history cannot hold the requests.
        """
        if self.requests == HookRequests():  # most tools request nothing, and the check takes longer than many of them
            self.has_returned = True
            return None
        try:
            self.requests, _ = checked_requests(self.requests, self.state, counts_state=False)
        except ValueError as error:
            problem = f"the tool ran, but {error}"
            raise ToolError(problem, kind=ToolErrorKind.INTERNAL) from error
        self.has_returned = True
        handoff, self.requests.handoff = self.requests.handoff, None
        return handoff

    @property
    def effects(self) -> HookEffects | None:
        """What a tool without hooks requests of the loop; None if nothing."""
        if not self.has_returned or (self.requests == HookRequests() and not self.state.operations):
            return None
        effects = effects_of(self.requests, self.state)
        return effects if effects != HookEffects() else None

    def progress(self) -> tuple[Mapping[str, JsonValue] | Missing | None, ...]:
        """The details of the next heartbeat: what the call shows, and what earlier attempts were missing."""
        shown = self._shown.details()
        if self._missing is not None:
            return (shown, self._missing)
        return () if shown is None else (shown,)


def _not_read(tool_name: str, why: str, error: Exception) -> ToolOutcome:
    """The outcome of a call that was not executed, because this worker could not read what it needs from history."""
    log_failure(_logger, "call not executed", error, extra={"tool": tool_name})
    message = f"The call was not executed, because {why}: {error}. You can call it again."
    return ToolOutcome(result=ToolResult.error(tool_name, message))


def _check_earlier_attempts(missing: Missing | None) -> None:
    """Fail a call that may have been executed in earlier attempts, and may not be again.

    Temporal retries every failure of a call: those of attempts that found no tool, but also, for example, of a worker
    that shut down while the tool ran.
    """
    check_executed(missing, ATTEMPTS if may_repeat() else 1)


def _is_task(input: ToolCallInput) -> bool:
    """Whether the call is a background task, in a workflow of its own: its result is not a transcript entry."""
    task = input.identity.task
    return task is not None and task.thread_id == activity.info().workflow_id


def _allowing(input: ToolCallInput) -> ToolCallResume | None:
    """The decision as gates see it.

    A call that runs although its own question was denied (`runs_if_denied`) was allowed before it asked. If gates saw
    the denial, those that ask people would ask again.
    """
    resume = input.resume
    if resume is None or input.suspension_state is None or resume.action is DecisionAction.RESUME:
        return resume
    return resume.model_copy(update={"action": DecisionAction.RESUME})


def _naming(tool_name: str, outcome: ToolOutcome) -> ToolOutcome:
    """The outcome with the name of its tool, by which a run tells it from data: tools and hooks may write another."""
    if outcome.result.tool_name == tool_name:
        return outcome
    result = outcome.result.model_copy(update={"tool_name": tool_name})
    return outcome.model_copy(update={"result": result})


def _outcome_of(tool_name: str, verdict: Verdict | None) -> ToolOutcome | None:
    match verdict:
        case None:
            return None
        case Block(reason=reason):
            return ToolOutcome(result=ToolResult.rejected(tool_name, reason), blocked=reason)
        case Suspend(ticket=ticket):
            return ToolOutcome(result=ToolResult.suspended(tool_name, ticket, ticket.suspension.message), gated=True)
        case SetResult(result=result):
            return ToolOutcome(result=result, gated=result.status is ToolStatus.PENDING)
