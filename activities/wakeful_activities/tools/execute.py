"""Execute a tool call: one activity, whose type is the tool's name. A tool's exception is a result, never a failure,
unless Temporal is to retry the call.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import JsonValue
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from wakeful.authoring.gate import GateCall
from wakeful.authoring.tool import Tool
from wakeful.authoring.tool_context import SuspendCall
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult, ToolStatus
from wakeful.registry.registry import Registry
from wakeful.telemetry.log_causes import log_failure
from wakeful.telemetry.log_fields import add_fields
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful_activities.blocked_loop import running_in_loop
from wakeful_activities.heartbeats import HeartbeatIntervals, heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.mcp.calls import McpCalls
from wakeful_activities.other_workers import AttemptFailed, Lacking, OtherWorkers, waited
from wakeful_activities.results import as_result, cut_to_fit
from wakeful_activities.tools.attempts import Attempts
from wakeful_activities.tools.emit import emitting
from wakeful_activities.tools.execution_telemetry import executing
from wakeful_activities.tools.hooks import HookedCall
from wakeful_activities.tools.running_call import RunningCall
from wakeful_activities.user_code import UserCode, contained, described

_logger = logging.getLogger("wakeful")

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
        name, attempts = info.activity_type, Attempts()
        attempts.check()
        tool = self._registry.tool(name) or self._mcp_tool(args[0])
        if tool is None:
            return await self._not_executed(name, attempts)
        input = activity.payload_converter().from_payload(args[0].payload, ToolCallInput)
        add_fields(run_id=input.identity.run_id, agent_id=input.identity.agent_id)
        outcome = _naming(input.call.name, await self._outcome(tool, input, attempts))
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

    async def _not_executed(self, name: str, attempts: Attempts) -> ToolOutcome:
        """What the model reads if no worker has the tool."""
        problem = f"this worker has no tool {name!r}"
        patience = await self._others.leave(Lacking(f"tool {name!r}", problem), heartbeat=attempts.beat_missing)
        message = f"The call was not executed: {problem}{waited(patience)}. Use another tool, or report the problem."
        return ToolOutcome(result=ToolResult.error(name, message))

    async def _outcome(self, tool: Tool, input: ToolCallInput, attempts: Attempts) -> ToolOutcome:
        name = tool.name
        try:
            metadata = input.metadata or await self._cache.metadata(input.metadata_digest)
        except Exception as error:  # as for the agent below
            return _not_read(name, "the metadata of its run could not be read", error)
        call = RunningCall(input, self._hooks.profiles, self._hooks.dependencies.value, metadata, attempts)
        with (
            executing(self._telemetry, name, input) as execution,
            heartbeating(call.progress, self._intervals, live=input.live) as call.beats,
        ):
            try:
                outcome = await self._allowed_outcome(tool, call)
            except ApplicationError:
                execution.raised(call.error)
                raise
            execution.returned(outcome, error=call.error)
            return outcome

    async def _allowed_outcome(self, tool: Tool, call: RunningCall) -> ToolOutcome:
        if call.input.agent is not None:
            return await self._execute_if_allowed(tool, call, call.input.agent)
        outcome = await self._execute_emitting(tool, call)
        return outcome.model_copy(update={"effects": call.effects})

    async def _execute_if_allowed(self, tool: Tool, call: RunningCall, agent_digest: str) -> ToolOutcome:
        """Execute the call if permission rules, gates and hooks allow it; hooks may then replace its result."""
        input = call.input
        try:
            agent = await self._cache.agent(agent_digest)
        except Exception as error:  # if the activity failed, the model could not know whether the tool took effect
            return _not_read(tool.name, "its gates could not be evaluated", error)
        if (lacking := self._others.lacking(agent)) is not None:
            # If the patience is over, a gate blocks, and a plugin fails as it says.
            await self._others.leave(lacking, heartbeat=call.attempts.beat_missing)
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
        verdict = await self._gates.verdict(agent, input.permissions, call, hooked.hooks, questions=input.questions)
        outcome = _outcome_of(input.call.name, verdict)
        return outcome if isinstance(verdict, Block) else hooked.outcome_if_run_ends() or outcome

    async def _execute_emitting(self, tool: Tool, call: RunningCall) -> ToolOutcome:
        """Execute the call; if it belongs to a background task, signal its events to the task's owner."""
        task = call.input.identity.task
        if task is None:
            return await self._execute(tool, call)
        async with emitting(activity.client(), task) as call.emitter:
            return await self._execute(tool, call)

    async def _execute(self, tool: Tool, call: RunningCall) -> ToolOutcome:
        """Call the tool's function; what it returns or raises is the outcome.

        Raises:
            ApplicationError: another attempt follows.
        """
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
            problem = call.failed(tool, error, str(error))
            log_failure(_logger, "tool failed", error, extra={"tool": tool.name}, level=logging.INFO)
            return ToolOutcome(result=ToolResult.error(tool.name, problem))
        except Exception as error:  # the boundary: whatever a tool raises, the model reads it
            problem = call.failed(tool, error, f"{ToolErrorKind.EXECUTION_FAILED}: {described(error)}")
            log_failure(_logger, "tool raised", error, extra={"tool": tool.name})
            return ToolOutcome(result=ToolResult.error(tool.name, problem))

    async def _call_function(self, tool: Tool, arguments: Mapping[str, Any], call: RunningCall) -> Any:
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


def _not_read(tool_name: str, why: str, error: Exception) -> ToolOutcome:
    """The outcome of a call that was not executed, because this worker could not read what it needs from history."""
    log_failure(_logger, "call not executed", error, extra={"tool": tool_name})
    message = f"The call was not executed, because {why}: {error}. You can call it again."
    return ToolOutcome(result=ToolResult.error(tool_name, message))


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
        case Block(reason=reason, rule=rule):
            return ToolOutcome(result=ToolResult.rejected(tool_name, reason), blocked=reason, rule=rule)
        case Suspend(ticket=ticket):
            return ToolOutcome(result=ToolResult.suspended(tool_name, ticket, ticket.suspension.message), gated=True)
        case SetResult(result=result):
            return ToolOutcome(result=result, gated=result.status is ToolStatus.PENDING)
