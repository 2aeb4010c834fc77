"""`ToolTask`: a background tool, in a workflow of its own. It reports its result to its owner before it completes.

Runs unsandboxed, like `AgentRun` and for the same reasons.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from wakeful.contract import names
from wakeful.contract.requests import payload_problem
from wakeful.contract.subagents import ChildResult, EndStatus, ToolTaskInput
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolResult, ToolStatus, outcome_unknown, unreadable_result
from wakeful_workflows.early_activations import EarlyActivations
from wakeful_workflows.signalling import notify_parent
from wakeful_workflows.tools import Handle, ToolFailure, read_outcome, runs_again, start_tool, tool_failure

CANNOT_SUSPEND = "a background tool cannot wait for a decision"


@workflow.defn(name=names.WORKFLOW_TOOL_TASK, sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class ToolTask:
    """One background call of a tool."""

    @workflow.init
    def __init__(self, input: ToolTaskInput) -> None:
        self._input = input
        self._activity: Handle | None = None
        self._is_cancelled = False
        self._status = TaskStatus.RUNNING
        self._activations = EarlyActivations()

    @workflow.run
    async def run(self, input: ToolTaskInput) -> ChildResult:
        result = await self._execute(input)
        self._status = result.status
        await self._wait_for(asyncio.create_task(notify_parent(input.owner_thread_id, result, wake=True)))
        return result

    async def _execute(self, input: ToolTaskInput) -> ChildResult:
        if self._is_cancelled:
            return self._result(TaskStatus.CANCELLED)
        name, attempts = input.input.call.name, 0
        while True:
            self._activity = start_tool(input.tool, input.input, id=input.task_id)
            attempts += 1
            await self._wait_for(self._activity)
            try:
                return self._returned(read_outcome(name, self._activity.result()).result)
            except ActivityError as error:
                if not self._is_cancelled and runs_again(input.tool, error, attempts=attempts):
                    continue
                failure = tool_failure(input.tool, error, attempts=attempts)
            except asyncio.CancelledError:
                failure = None
            except Exception as error:  # a malformed result must not block the task
                failure = ToolFailure(unreadable_result(payload_problem(error)), is_result=True)
            if failure is None:
                return self._result(TaskStatus.CANCELLED)
            message = failure.error if failure.is_result else outcome_unknown(name, failure.error)
            return self._result(TaskStatus.FAILED, error=message)

    def _returned(self, returned: ToolResult) -> ChildResult:
        match returned.status:
            case ToolStatus.SUCCESS:
                data = returned.message if returned.data is None else returned.data
                done = self._result(TaskStatus.COMPLETED)
                return done.model_copy(update={"result": data, "media": returned.media})
            case ToolStatus.PENDING:
                return self._result(TaskStatus.FAILED, error=CANNOT_SUSPEND)
            case ToolStatus.ERROR:
                return self._result(TaskStatus.FAILED, error=returned.text)

    def _result(self, status: EndStatus, *, error: str | None = None) -> ChildResult:
        thread_id = workflow.info().workflow_id
        return ChildResult(work_id=self._input.task_id, thread_id=thread_id, status=status, error=error)

    async def _wait_for(self, work: "asyncio.Task[Any]") -> None:
        """Wait until it is done. Temporal's own cancellation is handled like the signal."""
        while not work.done():
            try:
                await workflow.wait_condition(lambda: self._is_done(work))
            except asyncio.CancelledError:
                if workflow.cancellation_reason() is None:  # the worker evicts this task from its cache
                    raise
                self._cancel()
                self._activations.check()

    def _is_done(self, work: "asyncio.Task[Any]") -> bool:
        self._activations.check()
        return work.done()

    def _cancel(self) -> None:
        if self._activity is not None and not self._is_cancelled:
            self._activity.cancel()
        self._is_cancelled = True

    @property
    def log_fields(self) -> Mapping[str, str | int]:
        """What every log line about the task carries."""
        identity = self._input.input.identity
        thread_id = workflow.info().workflow_id
        return {"thread_id": thread_id, "run_id": identity.run_id, "agent_id": identity.agent_id}

    @workflow.signal(dynamic=True, description="cancel: cancel the tool and report to its owner")
    def on_signal(self, name: str, _args: Sequence[RawValue]) -> None:
        if name == names.SIGNAL_CANCEL:
            self._cancel()

    @workflow.query(name=names.QUERY_STATUS, description="Which tool it runs, and its status")
    def status(self, _nothing: Any = None) -> dict[str, str]:
        return {"task_id": self._input.task_id, "tool": self._input.tool.name, "status": self._status.value}
