"""`ToolTask`: a tool that runs in the background, in a workflow of its own. It tells its owner how it ended, then ends.

Runs unsandboxed, as `AgentRun` does and for the same reasons.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from wakeful.contract import names
from wakeful.contract.subagents import EndStatus, Settled, ToolTaskInput
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolResult, ToolStatus, outcome_unknown
from wakeful_workflows.early_activations import Turns
from wakeful_workflows.signalling import tell_end
from wakeful_workflows.tools import Handle, read_outcome, start_tool, why

CANNOT_WAIT = "a background tool cannot wait for a decision"


@workflow.defn(name=names.WORKFLOW_TOOL_TASK, sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class ToolTask:
    """One background call of a tool."""

    @workflow.init
    def __init__(self, input: ToolTaskInput) -> None:
        self._input = input
        self._activity: Handle | None = None
        self._is_stopping = False
        self._status = TaskStatus.RUNNING
        self._turns = Turns()

    @workflow.run
    async def run(self, input: ToolTaskInput) -> Settled:
        settled = await self._settled(input)
        self._status = settled.status
        await self._through(asyncio.create_task(tell_end(input.owner_thread_id, settled, wake=True)))
        return settled

    async def _settled(self, input: ToolTaskInput) -> Settled:
        if self._is_stopping:
            return self._ended(TaskStatus.CANCELLED)
        self._activity = start_tool(input.tool, input.input, id=input.task_id)
        await self._through(self._activity)
        name = input.input.call.name
        try:
            result = read_outcome(name, self._activity.result()).result
        except ActivityError as error:
            reason = why(error)
        except asyncio.CancelledError:
            reason = None
        except Exception as error:  # a result that cannot be read must not hang the task
            reason = f"its result was not understood: {error}"
        else:
            return self._returned(result)
        if reason is None:
            return self._ended(TaskStatus.CANCELLED)
        return self._ended(TaskStatus.FAILED, error=outcome_unknown(name, reason))

    def _returned(self, result: ToolResult) -> Settled:
        match result.status:
            case ToolStatus.SUCCESS:
                data = result.message if result.data is None else result.data
                return self._ended(TaskStatus.COMPLETED).model_copy(update={"result": data})
            case ToolStatus.PENDING:
                return self._ended(TaskStatus.FAILED, error=CANNOT_WAIT)
            case ToolStatus.ERROR:
                return self._ended(TaskStatus.FAILED, error=result.text)

    def _ended(self, status: EndStatus, *, error: str | None = None) -> Settled:
        thread_id = workflow.info().workflow_id
        return Settled(work_id=self._input.task_id, thread_id=thread_id, status=status, error=error)

    async def _through(self, work: "asyncio.Task[Any]") -> None:
        """Wait until it has ended, whatever comes meanwhile. Temporal's own cancellation is heard like the signal."""
        while not work.done():
            try:
                await workflow.wait_condition(lambda: self._is_done(work))
            except asyncio.CancelledError:
                if workflow.cancellation_reason() is None:  # the worker drops this task from its cache
                    raise
                self._stop()
                self._turns.check()

    def _is_done(self, work: "asyncio.Task[Any]") -> bool:
        self._turns.check()
        return work.done()

    def _stop(self) -> None:
        if self._activity is not None and not self._is_stopping:
            self._activity.cancel()
        self._is_stopping = True

    @workflow.signal(name=names.SIGNAL_CANCEL, description="Stop the tool and tell its owner")
    def cancel(self, *_args: Any) -> None:
        self._stop()

    @workflow.query(name=names.QUERY_STATUS, description="Which tool it is and how it is doing")
    def status(self, _nothing: Any = None) -> dict[str, str]:
        return {"task_id": self._input.task_id, "tool": self._input.tool.name, "status": self._status.value}
