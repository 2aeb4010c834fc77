"""Read a whole tree of workflows from Temporal."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from temporalio.client import WorkflowExecutionStatus

from tests.support.journal import Journal
from tests.support.subagent_app import Plan
from tests.support.waiting import BOUND_SECONDS
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.runs import RunResult
from wakeful.history.close_states import has_ended, read_result


async def open_in_tree(client: Client, root: str) -> list[str]:
    """The open workflows of a tree."""
    query = f"RootWorkflowId = '{root}' AND ExecutionStatus = 'Running'"
    return [execution.id async for execution in client.temporal.list_workflows(query)]


async def until_closed(client: Client, root: str) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while await open_in_tree(client, root):
            await asyncio.sleep(0.1)


async def until_open(client: Client, root: str, count: int) -> None:
    """Wait until this many workflows of a tree are open."""
    async with asyncio.timeout(BOUND_SECONDS):
        while len(await open_in_tree(client, root)) < count:
            await asyncio.sleep(0.1)


async def until_pending(client: Client, root: str) -> PendingDecision:
    """Wait until a thread of the tree waits for a decision."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async for pending in client.inbox(thread_id=root):
                if pending.unknown is None:  # else it cannot be read just now, because it continues as new
                    return pending
            await asyncio.sleep(0.1)


def calls_in(plan: Plan) -> Iterator[str]:
    """The tools that a plan and its sub-plans call."""
    for turn in plan["turns"]:
        for tool, arguments in turn:
            yield tool
            if "plan" in arguments:
                yield from calls_in(arguments["plan"])


def tools_left(journal: Journal, root: str) -> list[dict[str, Any]]:
    """The tool calls of a tree that have started and not ended."""
    left: dict[str, dict[str, Any]] = {}
    for line in journal.lines():
        if "thread" not in line or not f"{line['thread']}/".startswith(f"{root}/"):
            continue
        if line["what"] == "began":
            left[line["key"]] = line
        else:
            del left[line["key"]]
    return list(left.values())


async def ends_in_tree(client: Client, root: str) -> dict[str, str]:
    """How every workflow of the tree ended, by its id: Temporal's status, or the run's own reason."""
    ends = {}
    async for execution in client.temporal.list_workflows(f"RootWorkflowId = '{root}'"):
        if execution.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
            continue
        assert execution.status is not None
        ends[execution.id] = execution.status.name
        if has_ended(execution) and execution.workflow_type == names.WORKFLOW:
            result = await read_result(client.temporal, execution)
            ends[execution.id] = result.status_reason if result else "no result"
        elif has_ended(execution):
            tool: Any = await client.temporal.get_workflow_handle(execution.id).result()
            ends[execution.id] = tool["status"]
    return ends


def answer_of(result: RunResult) -> dict[str, Any]:
    """The final answer of a planner."""
    answer: dict[str, Any] = json.loads(result.response)
    return answer


def task_events(result: RunResult) -> list[dict[str, Any]]:
    """The background events that a planner had read by the end."""
    events: list[dict[str, Any]] = answer_of(result)["events"]
    return events
