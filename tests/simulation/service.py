"""Temporal's own Python client over the simulated server: every RPC that Wakeful makes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from temporalio.api.common.v1 import GrpcStatus, Payload
from temporalio.api.enums.v1 import (
    HistoryEventFilterType,
    ResetReapplyType,
    WorkflowExecutionStatus,
    WorkflowIdConflictPolicy,
)
from temporalio.api.errordetails.v1 import WorkflowExecutionAlreadyStartedFailure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

from tests.simulation.chunking import FINAL_EVENTS, TASK_COMPLETED, TASK_FAILED, TASK_STARTED, TASK_TIMED_OUT
from tests.simulation.execution import Execution
from tests.simulation.instances import NAMESPACE, TASK_QUEUE
from tests.simulation.list_query import matches
from tests.simulation.server import Server

LONG_POLL_SECONDS = 0.2
RETENTION = timedelta(days=3)

CONVERTER = pydantic_data_converter

TERMINATE_EXISTING = WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
USE_EXISTING = WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING

REAPPLY_NONE = ResetReapplyType.RESET_REAPPLY_TYPE_NONE
_TASK_EVENTS = (TASK_STARTED, TASK_COMPLETED, TASK_FAILED, TASK_TIMED_OUT)
"""What an execution can be reset to."""


@dataclass
class PendingQuery:
    """A query that waits for a worker."""

    key: str
    execution: Execution
    name: str
    args: list[Any]
    answer: "asyncio.Future[Payload]"
    with_task: bool
    """It came while a workflow task was due, so the server sends it along with that task."""


@dataclass
class PendingCall:
    """An RPC that has not reached the server yet."""

    key: str
    reached: "asyncio.Future[None]"


@dataclass
class Network:
    """What is on its way from clients to the server."""

    server: Server
    is_slow: bool = False
    """Calls reach the server only when the schedule lets them through."""
    calls: list[PendingCall] = field(default_factory=list)
    queries: list[PendingQuery] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        return self.numbers[name]


class SimulatedService(ServiceClient):
    """The connection of one process to the simulated server."""

    def __init__(self, network: Network, owner: str) -> None:
        super().__init__(ConnectConfig(target_host="simulated"))
        self._network = network
        self.server = network.server
        self._owner = owner
        self.is_cut = False
        """The process is gone, or cannot reach the server."""

    @property
    def worker_service_client(self) -> Any:
        raise NotImplementedError("no real worker runs on the simulated server")

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """There is no metadata."""

    def update_api_key(self, api_key: str | None) -> None:
        """There is no key."""

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Any],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,  # noqa: ASYNC109
    ) -> Any:
        await self._reach(rpc)
        handler = getattr(self, f"_{rpc}", None)
        if handler is None:
            raise NotImplementedError(f"the simulated server does not have {rpc}")
        answer = resp_type()
        try:
            async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
                await handler(req, answer)
        except TimeoutError:
            raise RPCError("the deadline is exceeded", RPCStatusCode.DEADLINE_EXCEEDED, b"") from None
        return answer

    async def _reach(self, rpc: str) -> None:
        if self._network.is_slow:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            name = f"{self._owner} {rpc}"
            self._network.calls.append(PendingCall(f"{name} {self._network.number(name)}", reached))
            await reached
        if self.is_cut:
            raise RPCError("the server is unavailable", RPCStatusCode.UNAVAILABLE, b"")

    def _find(self, execution: Any) -> Execution:
        found = self.server.find(execution.workflow_id, execution.run_id)
        if found is None:
            raise _not_found(f"workflow not found for ID: {execution.workflow_id}")
        return found

    async def _signal_workflow_execution(self, req: Any, _answer: Any) -> None:
        execution = self._find(req.workflow_execution)
        if not self.server.signal(execution, req.signal_name, req.input.payloads):
            raise _not_found("workflow execution already completed")

    async def _start_workflow_execution(self, req: Any, answer: Any) -> None:
        running = self.server.current.get(req.workflow_id)
        if running is not None and running.is_open:
            if req.workflow_id_conflict_policy == TERMINATE_EXISTING:
                self.server.terminate(running, "terminated by the start of another execution")
            elif req.workflow_id_conflict_policy == USE_EXISTING:
                answer.run_id = running.run_id
                return
            else:
                raise _already_started(running)
        answer.run_id = self._start(req).run_id
        answer.started = True

    async def _signal_with_start_workflow_execution(self, req: Any, answer: Any) -> None:
        execution = self.server.current.get(req.workflow_id)
        if execution is None or not execution.is_open:
            execution = self._start(req)
            answer.started = True
        self.server.signal(execution, req.signal_name, req.signal_input.payloads)
        answer.run_id = execution.run_id

    def _start(self, req: Any) -> Execution:
        return self.server.start(
            req.workflow_id,
            req.workflow_type.name,
            req.input.payloads,
            memo=req.memo if req.HasField("memo") else None,
            attributes=req.search_attributes if req.HasField("search_attributes") else None,
        )

    async def _request_cancel_workflow_execution(self, req: Any, _answer: Any) -> None:
        if not self.server.request_cancel(self._find(req.workflow_execution), req.reason):
            raise _not_found("workflow execution already completed")

    async def _terminate_workflow_execution(self, req: Any, _answer: Any) -> None:
        execution = self._find(req.workflow_execution)
        if not execution.is_open:
            raise _not_found("workflow execution already completed")
        self.server.terminate(execution, req.reason)

    async def _reset_workflow_execution(self, req: Any, answer: Any) -> None:
        execution = self._find(req.workflow_execution)
        finish_id, reapplies = req.workflow_task_finish_event_id, req.reset_reapply_type != REAPPLY_NONE
        if not _ends_task(execution.history[:finish_id][-1:]):
            raise RPCError(f"no workflow task ends with event {finish_id}", RPCStatusCode.INVALID_ARGUMENT, b"")
        answer.run_id = self.server.reset(execution, finish_id, reapplies_signals=reapplies).run_id

    async def _describe_workflow_execution(self, req: Any, answer: Any) -> None:
        execution = self._find(req.execution)
        answer.workflow_execution_info.CopyFrom(info_of(self.server, execution))
        answer.execution_config.task_queue.name = TASK_QUEUE
        if execution.task is not None:
            answer.pending_workflow_task.attempt = execution.attempts
        for activity in execution.activities.values():
            pending = answer.pending_activities.add()
            pending.activity_id = activity.command.activity_id
            pending.activity_type.name = activity.command.activity_type
            pending.attempt = activity.attempt

    async def _get_workflow_execution_history(self, req: Any, answer: Any) -> None:
        execution = self._find(req.execution)
        close_event = HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT
        if req.history_event_filter_type == close_event:
            while execution.is_open and req.wait_new_event:
                await asyncio.sleep(LONG_POLL_SECONDS)
            answer.history.events.extend(_close_events(execution.history))
            return
        start, size = int(req.next_page_token or b"0"), req.maximum_page_size or 1000
        while req.wait_new_event and execution.is_open and len(execution.history) <= start:
            await asyncio.sleep(LONG_POLL_SECONDS)
        answer.history.events.extend(execution.history[start : start + size])
        end = start + len(answer.history.events)
        if end < len(execution.history) or (req.wait_new_event and execution.is_open):
            answer.next_page_token = str(end).encode()

    async def _get_workflow_execution_history_reverse(self, req: Any, answer: Any) -> None:
        execution = self._find(req.execution)
        backwards = execution.history[::-1]
        start = int(req.next_page_token or b"0")
        size = req.maximum_page_size or 1000
        answer.history.events.extend(backwards[start : start + size])
        if start + size < len(backwards):
            answer.next_page_token = str(start + size).encode()

    async def _list_workflow_executions(self, req: Any, answer: Any) -> None:
        for execution in self.server.executions:
            if execution.run_id in self.server.visible and matches(req.query, _fields(self.server, execution)):
                answer.executions.add().CopyFrom(info_of(self.server, execution, listed=True))

    async def _describe_namespace(self, req: Any, answer: Any) -> None:
        answer.namespace_info.name = req.namespace
        answer.config.workflow_execution_retention_ttl.FromTimedelta(RETENTION)

    async def _query_workflow(self, req: Any, answer: Any) -> None:
        execution = self._find(req.execution)
        args = [CONVERTER.payload_converter.from_payload(payload) for payload in req.query.query_args.payloads]
        name = f"{execution.workflow_id} {req.query.query_type}"
        query = PendingQuery(
            f"{name} {self._network.number(name)}",
            execution,
            req.query.query_type,
            args,
            asyncio.get_running_loop().create_future(),
            with_task=execution.task is not None or not execution.previous_started,
        )
        self._network.queries.append(query)
        answer.query_result.payloads.append(await query.answer)


def client_of(service: SimulatedService) -> Client:
    return Client(service, namespace=NAMESPACE, data_converter=CONVERTER)


def info_of(server: Server, execution: Execution, *, listed: bool = False) -> WorkflowExecutionInfo:
    """The execution as it is described, or as visibility lists it."""
    status, closed_at = server.visible[execution.run_id] if listed else (execution.status, execution.closed_at)
    info = WorkflowExecutionInfo(status=status, history_length=len(execution.history), task_queue=TASK_QUEUE)
    info.execution.workflow_id, info.execution.run_id = execution.workflow_id, execution.run_id
    info.type.name = execution.workflow_type
    info.start_time.FromMilliseconds(execution.started_at)
    info.execution_time.FromMilliseconds(execution.started_at)
    if closed_at:
        info.close_time.FromMilliseconds(closed_at)
    info.memo.CopyFrom(execution.memo)
    info.search_attributes.CopyFrom(execution.attributes)
    root = execution
    if execution.parent is not None:
        info.parent_execution.workflow_id = execution.parent.workflow_id
        info.parent_execution.run_id = execution.parent.run_id
        while root.parent is not None and (above := server.find(root.parent.workflow_id, root.parent.run_id)):
            root = above
    info.root_execution.workflow_id, info.root_execution.run_id = root.workflow_id, root.run_id
    return info


_STATUS_NAMES = {
    "RUNNING": "Running",
    "COMPLETED": "Completed",
    "FAILED": "Failed",
    "CANCELED": "Canceled",
    "TERMINATED": "Terminated",
    "CONTINUED_AS_NEW": "ContinuedAsNew",
    "TIMED_OUT": "TimedOut",
}


def _fields(server: Server, execution: Execution) -> dict[str, str | None]:
    status, closed_at = server.visible[execution.run_id]
    name = WorkflowExecutionStatus.Name(status).removeprefix("WORKFLOW_EXECUTION_STATUS_")
    info = info_of(server, execution, listed=True)
    return {
        "WorkflowId": execution.workflow_id,
        "RunId": execution.run_id,
        "WorkflowType": execution.workflow_type,
        "TaskQueue": TASK_QUEUE,
        "ExecutionStatus": _STATUS_NAMES[name],
        "ParentWorkflowId": execution.parent.workflow_id if execution.parent else None,
        "RootWorkflowId": info.root_execution.workflow_id,
        "StartTime": _iso(execution.started_at),
        "CloseTime": _iso(closed_at) if closed_at else None,
        "WakefulStatus": _keyword(execution, "WakefulStatus"),
    }


def _keyword(execution: Execution, name: str) -> str | None:
    payload = execution.attributes.indexed_fields.get(name)
    return None if payload is None else str(CONVERTER.payload_converter.from_payload(payload))


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _ends_task(events: list[HistoryEvent]) -> bool:
    return any(event.event_type in _TASK_EVENTS for event in events)


def _close_events(history: list[HistoryEvent]) -> list[HistoryEvent]:
    return [event for event in history[-1:] if event.event_type in FINAL_EVENTS]


def _not_found(message: str) -> RPCError:
    return RPCError(message, RPCStatusCode.NOT_FOUND, b"")


def _already_started(running: Execution) -> RPCError:
    failure = WorkflowExecutionAlreadyStartedFailure(run_id=running.run_id)
    detail = AnyMessage()
    detail.Pack(failure)
    status = GrpcStatus(code=RPCStatusCode.ALREADY_EXISTS.value, message="already started", details=[detail])
    return RPCError("already started", RPCStatusCode.ALREADY_EXISTS, status.SerializeToString())
