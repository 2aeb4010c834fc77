"""Start sub-agents and background tasks as child workflows, and signal other threads.

Commands for one thread are performed in order, and the start of a child is the first of them. A child outlives the
execution that started it and reports its end by a signal. If it closes without signalling (terminated, timed out), its
handle reports it; after continue-as-new, the workers' sweep does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, assert_never

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy, TypedSearchAttributes
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,
)
from temporalio.workflow import ChildWorkflowCancellationType, ChildWorkflowHandle, ParentClosePolicy

from wakeful.contract import ids, names
from wakeful.contract.requests import title_of
from wakeful.contract.runs import RunIdentity, TaskRef
from wakeful.contract.subagents import (
    CANCELLED_BEFORE_START,
    CLOSED_SILENTLY,
    TERMINATED,
    TIMED_OUT,
    Ancestors,
    StoppingAncestor,
    ToolTaskInput,
)
from wakeful.contract.tools import ToolCallInput
from wakeful.loop.machine.commands import CancelChild, NotifyParent, SendSignal, StartChild, StartTask
from wakeful.loop.machine.facts import CancelRequested, ChildClosed, ChildIdAssigned, Delivered, Fact, WorkFailed
from wakeful.telemetry.log_causes import cause_of
from wakeful_workflows.closing import failure_result
from wakeful_workflows.history_estimate import (
    ACTIVITY,
    CHILD,
    EXTERNAL_SIGNAL,
    LOCAL_ACTIVITY,
    TIMER,
    HistoryEstimate,
    size_of,
)
from wakeful_workflows.run_log import logger
from wakeful_workflows.signalling import notify_parent, signal_thread
from wakeful_workflows.tools import LOCAL_TIMEOUT_SECONDS, arguments_summary, start_local
from wakeful_workflows.tools import Handle as LocalHandle
from wakeful_workflows.visibility import task_attributes

ChildCommand = StartChild | StartTask | CancelChild | SendSignal | NotifyParent

CANCEL_RETRY_SECONDS = (1, 2, 4)
"""Before a cancel that could not be sent is sent again."""

Handle = ChildWorkflowHandle[Any, Any]

_CHECK_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3)


class AncestorStops(Exception):
    """A sub-agent is not started, because a thread above is being cancelled, and so is this one."""


class Children:
    """Performs the commands for other threads. The end of each is reported as its fact."""

    def __init__(self, report: Callable[[Fact], None], history: HistoryEstimate) -> None:
        self._report = report
        self._history = history
        self._checking: LocalHandle | None = None
        self._newest: dict[str, asyncio.Task[None]] = {}
        """The newest work for each thread; the next waits for it."""
        self.bytes_in_flight = 0
        self.priority = Priority.default
        """Of what is started next, as far as it is not inherited."""
        self.search_attributes: Collection[str] = ()
        """Those of ours that the namespace has."""

    @property
    def is_busy(self) -> bool:
        """Something is not confirmed yet: the execution may neither complete nor continue as new."""
        return bool(self._newest)

    def perform(self, command: ChildCommand, identity: RunIdentity) -> None:
        match command:
            case StartChild():
                checking = self._check_ancestors(identity) if command.counted and identity.path else None
                start_agent, size = partial(self._start_agent, command, checking), size_of(command.request)
                self._start(command.id, command.name, identity, start_agent, size=size)
            case StartTask():
                start_task = partial(self._start_task, command, identity)
                size = size_of(command.call) + size_of(command.tool)
                self._start(command.id, command.tool.name, identity, start_task, size=size)
            case CancelChild(thread_id=thread_id):
                self._enqueue(thread_id, partial(self._cancel, command))
            case SendSignal(thread_id=thread_id):
                self._enqueue(thread_id, partial(self._signal, command), size=size_of(command.payload))
            case NotifyParent(parent_thread_id=thread_id):
                self._enqueue(thread_id, partial(self._notify_parent, command), size=size_of(command.result))
            case _:
                assert_never(command)

    def _start(
        self, id: str, name: str, identity: RunIdentity, start: Callable[[str], Awaitable[Handle]], *, size: int
    ) -> None:
        root = identity.path[0] if identity.path else identity.thread_id
        # A fixed id would fail after a reset, while the old child is still running.
        thread_id = ids.child_thread_id(identity.thread_id, root, name, workflow.uuid4().hex)
        self._report(ChildIdAssigned(id, thread_id))
        self._enqueue(thread_id, partial(self._started, id, partial(start, thread_id)), size=size)

    def _enqueue(self, thread_id: str, work: Callable[[], Awaitable[None]], *, size: int = 0) -> None:
        task = asyncio.create_task(_after(self._newest.get(thread_id), work))
        self._newest[thread_id] = task
        self.bytes_in_flight += size
        task.add_done_callback(partial(self._on_done, thread_id, size))

    def _on_done(self, thread_id: str, size: int, task: asyncio.Task[None]) -> None:
        self.bytes_in_flight -= size
        if self._newest.get(thread_id) is task:
            del self._newest[thread_id]

    async def _started(self, id: str, start: Callable[[], Awaitable[Handle]]) -> None:
        try:
            handle = await start()
        except Exception as error:  # whatever it is, the child will never report a result
            self._report(ChildClosed(id, f"it could not be started: {error}"))
            if isinstance(error, AncestorStops):
                self._report(CancelRequested(None))
            return
        handle.add_done_callback(partial(self._on_closed, id))

    def _on_closed(self, id: str, handle: "asyncio.Task[Any]") -> None:
        """A child signals its result before it closes, so this matters only if it could not."""
        if handle.cancelled():  # the worker evicts this execution from its cache
            return
        if (error := handle.exception()) is not None:
            self._history.add_failure(error)
        else:
            self._history.add_result(handle.result())
        self._report(ChildClosed(id, _close_reason(error)))

    async def _cancel(self, command: CancelChild) -> None:
        reason = {"reason": command.reason} if command.reason else None
        for pause in (*CANCEL_RETRY_SECONDS, None):
            self._history.add(EXTERNAL_SIGNAL)
            try:
                if not await signal_thread(command.thread_id, names.SIGNAL_CANCEL, reason):
                    self._report(ChildClosed(command.id, CLOSED_SILENTLY))
                return
            except ApplicationError as error:  # it may be running: only after several failures it counts as closed
                if pause is None:
                    self._report(ChildClosed(command.id, f"it cannot be reached: {error}"))
                    return
            self._history.add(TIMER)
            await workflow.sleep(pause)

    async def _signal(self, command: SendSignal) -> None:
        try:
            payload = self._history.encode(EXTERNAL_SIGNAL, command.payload)
            is_running = await signal_thread(command.thread_id, command.signal, payload)
        except Exception as error:  # what cannot be sent ends as a failure, and does not block the run
            self._report(WorkFailed(command.id, str(error)))
            return
        failed = WorkFailed(command.id, names.RECIPIENT_UNAVAILABLE)
        self._report(Delivered(command.id) if is_running else failed)

    async def _notify_parent(self, command: NotifyParent) -> None:
        # By a signal, and if that fails, by an activity.
        self._history.add(EXTERNAL_SIGNAL + ACTIVITY, size=2 * size_of(command.result))
        await notify_parent(command.parent_thread_id, command.result, wake=command.is_task)
        self._report(Delivered(command.id))

    def _check_ancestors(self, identity: RunIdentity) -> LocalHandle:
        """Look for a thread above whose cancel has yet to arrive here; what starts together shares one look."""
        if self._checking is None:
            self._checking = start_local(
                names.ACTIVITY_FIND_STOPPING,
                self._history.encode(LOCAL_ACTIVITY, Ancestors(thread_ids=identity.path)),
                id=ids.work_id(ids.FindStopping()),
                timeout=timedelta(seconds=LOCAL_TIMEOUT_SECONDS),
                retries=_CHECK_RETRIES,
                summary="look for a thread above that is being cancelled",
            )
            self._checking.add_done_callback(self._on_checked)
        return self._checking

    def _on_checked(self, checking: LocalHandle) -> None:
        self._checking = None
        if not checking.cancelled() and checking.exception() is None:
            self._history.add_result(checking.result())

    async def _start_agent(self, command: StartChild, checking: LocalHandle | None, thread_id: str) -> Handle:
        if checking is not None and (stopping := await _stopping_ancestor(checking)) is not None:
            raise AncestorStops(f"thread {stopping} above it is being cancelled")
        title = title_of(command.request)
        summary = f"{command.request.agent_id}: {title}"
        counted = {names.MEMO_COUNTED: True} if command.counted else {}
        return await self._start_workflow(
            names.WORKFLOW, command.request, thread_id, title=title, summary=summary, memo=counted
        )

    async def _start_task(self, command: StartTask, identity: RunIdentity, thread_id: str) -> Handle:
        task = TaskRef(task_id=command.id, thread_id=thread_id, owner_thread_id=identity.thread_id)
        input = ToolCallInput(
            call=command.call,
            identity=identity.model_copy(update={"task": task}),
            idempotency_key=ids.idempotency_key(identity.run_id, command.call.id),
            metadata=dict(command.metadata),
        )
        given = ToolTaskInput(owner_thread_id=identity.thread_id, task_id=command.id, tool=command.tool, input=input)
        title = f"{command.tool.name}: {arguments_summary(command.call)}"
        attributes = task_attributes(identity, self.search_attributes)
        self._history.add(0, size=sum(len(repr(pair.value).encode()) for pair in attributes))
        return await self._start_workflow(
            names.WORKFLOW_TOOL_TASK, given, thread_id, title=title, summary=title, attributes=attributes
        )

    async def _start_workflow(
        self,
        kind: str,
        given: BaseModel,
        thread_id: str,
        *,
        title: str,
        summary: str,
        attributes: TypedSearchAttributes = TypedSearchAttributes.empty,
        memo: Mapping[str, bool] | None = None,
    ) -> Handle:
        return await workflow.start_child_workflow(
            kind,
            self._history.encode(CHILD, given),
            id=thread_id,
            result_type=RawValue,
            # Continue-as-new counts as the parent's close, and sub-agents have to survive it.
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
            memo={names.MEMO_TITLE: title, **(memo or {})},
            search_attributes=attributes,
            priority=self.priority,
            static_summary=summary,
        )


async def _stopping_ancestor(checking: LocalHandle) -> str | None:
    try:
        returned = await checking
    except ActivityError as error:  # the cancel of a thread above arrives here nevertheless
        logger.warning("the threads above cannot be checked", extra={"cause": cause_of(error.cause or error)})
        return None
    found: StoppingAncestor = workflow.payload_converter().from_payload(returned.payload, StoppingAncestor)
    return found.thread_id


async def _after(before: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
    if before is not None:
        await workflow.wait([before])
    await work()


def _close_reason(error: BaseException | None) -> str:
    match error.cause if isinstance(error, ChildWorkflowError) else error:
        case None:
            return CLOSED_SILENTLY
        case TerminatedError():
            return TERMINATED
        case CancelledError():
            return CANCELLED_BEFORE_START
        case TimeoutError():
            return TIMED_OUT
        case ApplicationError(message=message) as failure:
            result = failure_result(failure)
            return f"it failed: {message if result is None else result.status_reason.removeprefix('error:')}"
        case cause:
            return f"it failed: {cause}"
