"""Workflows that stand in for agents and background tools: they say what a test gives them to say.

Their histories do not replay on the real workflows, so clients ask the worker that runs them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from wakeful.contract import names
from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, RunResult, RunStatus, ToolCallStatus, Usage
from wakeful.contract.views import StatusView, ToolCallView


class Part(BaseModel):
    """A workflow, what it answers, and what it starts."""

    id: str
    view: StatusView | None = None
    children: tuple["Part", ...] = ()
    result: RunResult | None = None
    """It ends at once with this."""

    @property
    def workflow(self) -> str:
        return names.WORKFLOW if self.view else names.WORKFLOW_TOOL_TASK


class _Standing:
    def __init__(self) -> None:
        self.view: StatusView | None = None
        self.result: RunResult | None = None
        self.ends = False
        self.signals: list[Any] = []

    async def stand(self, part: Part) -> RunResult | None:
        self.view, self.result = part.view, part.result
        await asyncio.sleep(0.001)  # no agent begins with a timer
        for child in part.children:
            await workflow.start_child_workflow(child.workflow, child, id=child.id)
        await workflow.wait_condition(lambda: self.ends or self.result is not None)
        return self.result


@workflow.defn(name=names.WORKFLOW)
class StandInRun(_Standing):
    @workflow.run
    async def run(self, part: Part) -> RunResult | None:
        return await self.stand(part)

    @workflow.query(name=names.QUERY_STATUS)
    def status(self) -> StatusView | None:
        return self.view

    @workflow.query
    def heard(self) -> list[Any]:
        return self.signals

    @workflow.signal
    def say(self, view: StatusView) -> None:
        self.view = view

    @workflow.signal
    def end(self, result: RunResult) -> None:
        self.result = result

    @workflow.signal(name=names.SIGNAL_UNDELIVERED)
    def undelivered(self, request: Any) -> None:
        self.signals.append(request)


@workflow.defn(name=names.WORKFLOW_TOOL_TASK)
class StandInTool(_Standing):
    @workflow.run
    async def run(self, part: Part) -> RunResult | None:
        return await self.stand(part)


@contextlib.asynccontextmanager
async def stand_ins(temporal: Client, task_queue: str) -> AsyncIterator[None]:
    """A worker for them."""
    async with Worker(
        temporal,
        task_queue=task_queue,
        workflows=[StandInRun, StandInTool],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield


async def stand(temporal: Client, task_queue: str, part: Part) -> WorkflowHandle[Any, Any]:
    """Start a root, with everything below it that the part names."""
    handle = await temporal.start_workflow(part.workflow, part, id=part.id, task_queue=task_queue)
    async with asyncio.timeout(60):
        for child in _below(part):
            while not await _exists(temporal, child.id):
                await asyncio.sleep(0.05)
    return handle


def _below(part: Part) -> list[Part]:
    return [each for child in part.children for each in (child, *_below(child))]


async def _exists(temporal: Client, id: str) -> bool:
    return bool([found async for found in temporal.list_workflows(f"WorkflowId = '{id}'")])


def view_of(thread_id: str, agent_id: str, status: RunStatus = RunStatus.RUNNING, **more: Any) -> StatusView:
    """A status in the least words."""
    path: tuple[str, ...] = more.pop("path", ())
    identity = RunIdentity(
        thread_id=thread_id,
        run_id=f"run-{agent_id}",
        agent_id=agent_id,
        path=path,
        parent_thread_id=path[-1] if path else None,
        task=more.pop("task", None),
    )
    told = {"doing": "calling default", "steps": 1, "usage": Usage(total_tokens=100), **more}
    return StatusView(identity=identity, status=status, **told)


def asking_call(tool_name: str, call_id: str = "call_2_1", since: int | None = None) -> ToolCallView:
    """A call that waits for a decision."""
    asked = Suspension(id=f"suspend_{call_id}", action=tool_name, message=f"May I {tool_name}?")
    ticket = SuspensionTicket(suspension=asked, pending=ToolCall(id=call_id, name=tool_name, arguments={"amount": 5}))
    return ToolCallView(
        call_id=call_id, tool_name=tool_name, status=ToolCallStatus.SUSPENDED, ticket=ticket, since=since
    )


def delegate_call(agent_id: str, child: str, call_id: str = "call_1_1") -> ToolCallView:
    """A call that waits for a sub-agent."""
    name = f"{names.TOOL_DELEGATE}{agent_id}"
    return ToolCallView(call_id=call_id, tool_name=name, status=ToolCallStatus.RUNNING, child_thread_id=child)
