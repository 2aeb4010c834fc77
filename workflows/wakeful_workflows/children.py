"""The sub-agents and tasks that an execution starts, and the signals it sends to other threads.

Everything that is meant for one thread goes there in order, and a child's start is the first of it. A child outlives
the execution that has started it: its end comes as a signal. What ends without a word is told by its handle, or, once
this execution has continued as new, by the workers' sweep.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, assert_never

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, CancelledError, ChildWorkflowError, TerminatedError, TimeoutError
from temporalio.workflow import ChildWorkflowCancellationType, ChildWorkflowHandle, ParentClosePolicy

from wakeful.contract import names
from wakeful.contract.requests import title_of
from wakeful.contract.runs import RunIdentity, TaskRef
from wakeful.contract.subagents import TERMINATED, TIMED_OUT, WITHOUT_A_WORD, ToolTaskInput
from wakeful.contract.tools import ToolCallInput
from wakeful.loop.machine.commands import CancelChild, Settle, StartChild, StartTask, Tell
from wakeful.loop.machine.facts import ChildGone, ChildNamed, Fact, Told, WorkFailed
from wakeful_workflows.signalling import signalled, tell_end
from wakeful_workflows.tools import idempotency_key, in_words

FamilyCommand = StartChild | StartTask | CancelChild | Tell | Settle

NAME_LENGTH = 40
ID_BYTES = 250
"""SQL stores keep 255 characters of a workflow id for lists, fewer than the server takes."""

CANCEL_PAUSES = (1, 2, 4)
"""Seconds before a cancel that could not be sent is tried again."""


Handle = ChildWorkflowHandle[Any, Any]


class Children:
    """What is under way to other threads. The end of each command is told as its fact."""

    def __init__(self, tell: Callable[[Fact], None]) -> None:
        self._tell = tell
        self._newest: dict[str, asyncio.Task[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Something is not confirmed yet: the execution may neither end nor continue as new."""
        return bool(self._newest)

    def perform(self, command: FamilyCommand, identity: RunIdentity) -> None:
        match command:
            case StartChild():
                self._start(command.id, command.name, identity, partial(_start_agent, command))
            case StartTask():
                self._start(command.id, command.tool.name, identity, partial(_start_task, command, identity))
            case CancelChild(thread_id=thread_id):
                self._queue(thread_id, partial(self._cancel, command))
            case Tell(thread_id=thread_id):
                self._queue(thread_id, partial(self._signal, command))
            case Settle(owner_thread_id=owner):
                self._queue(owner, partial(self._settle, command))
            case _:
                assert_never(command)

    def _start(self, id: str, name: str, identity: RunIdentity, start: Callable[[str], Awaitable[Handle]]) -> None:
        thread_id = child_thread_id(identity, name, workflow.uuid4().hex)
        self._tell(ChildNamed(id, thread_id))
        self._queue(thread_id, partial(self._started, id, partial(start, thread_id)))

    def _queue(self, thread_id: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_after(self._newest.get(thread_id), work))
        self._newest[thread_id] = task
        task.add_done_callback(partial(self._through, thread_id))

    def _through(self, thread_id: str, task: asyncio.Task[None]) -> None:
        if self._newest.get(thread_id) is task:
            del self._newest[thread_id]

    async def _started(self, id: str, start: Callable[[], Awaitable[Handle]]) -> None:
        try:
            handle = await start()
        except Exception as error:  # whatever it is, the child will never say anything
            self._tell(ChildGone(id, f"it could not be started: {error}"))
            return
        handle.add_done_callback(partial(self._ended, id))

    def _ended(self, id: str, handle: "asyncio.Task[Any]") -> None:
        """A child tells its end before it ends, so this is news only if it could not."""
        if not handle.cancelled():  # else the worker drops this execution from its cache
            self._tell(ChildGone(id, _why_gone(handle.exception())))

    async def _cancel(self, command: CancelChild) -> None:
        reason = {"reason": command.reason} if command.reason else None
        for pause in (*CANCEL_PAUSES, None):
            try:
                if not await signalled(command.thread_id, names.SIGNAL_CANCEL, reason):
                    self._tell(ChildGone(command.id, WITHOUT_A_WORD))
                return
            except ApplicationError as error:  # it may run on: only who cannot be reached for long counts as gone
                if pause is None:
                    self._tell(ChildGone(command.id, f"it cannot be reached: {error}"))
                    return
            await workflow.sleep(pause)

    async def _signal(self, command: Tell) -> None:
        try:
            is_there = await signalled(command.thread_id, command.signal, command.payload)
        except Exception as error:  # what cannot be sent ends as a failure, and not as a run that hangs
            self._tell(WorkFailed(command.id, str(error)))
            return
        self._tell(Told(command.id) if is_there else WorkFailed(command.id, names.RECIPIENT_UNAVAILABLE))

    async def _settle(self, command: Settle) -> None:
        await tell_end(command.owner_thread_id, command.settled, wake=command.is_task)
        self._tell(Told(command.id))


def child_thread_id(identity: RunIdentity, name: str, chance: str) -> str:
    """A new thread's id: under its parent's, or, where that gets too long, under its root's, or by itself."""
    fitting = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:NAME_LENGTH] or "task"
    root = identity.path[0] if identity.path else identity.thread_id
    for above in (identity.thread_id, root):
        id = f"{above}/{fitting}-{chance[:8]}"
        if len(id.encode()) <= ID_BYTES:
            return id
    return f"{fitting}-{chance}"


async def _after(before: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
    if before is not None:
        await workflow.wait([before])
    await work()


async def _start_agent(command: StartChild, thread_id: str) -> Handle:
    title = title_of(command.request)
    summary = f"{command.request.agent_id}: {title}"
    return await _start_workflow(names.WORKFLOW, command.request, thread_id, title=title, summary=summary)


async def _start_task(command: StartTask, identity: RunIdentity, thread_id: str) -> Handle:
    task = TaskRef(task_id=command.id, thread_id=thread_id, owner_thread_id=identity.thread_id)
    input = ToolCallInput(
        call=command.call,
        identity=identity.model_copy(update={"task": task}),
        idempotency_key=idempotency_key(identity, command.call),
    )
    given = ToolTaskInput(owner_thread_id=identity.thread_id, task_id=command.id, tool=command.tool, input=input)
    title = f"{command.tool.name}: {in_words(command.call)}"
    return await _start_workflow(names.WORKFLOW_TOOL_TASK, given, thread_id, title=title, summary=title)


async def _start_workflow(kind: str, given: BaseModel, thread_id: str, *, title: str, summary: str) -> Handle:
    return await workflow.start_child_workflow(
        kind,
        given,
        id=thread_id,
        result_type=RawValue,
        # Continuing as new counts as a parent's end, and sub-agents have to survive it.
        parent_close_policy=ParentClosePolicy.ABANDON,
        cancellation_type=ChildWorkflowCancellationType.ABANDON,
        memo={names.MEMO_TITLE: title},
        static_summary=summary,
    )


def _why_gone(error: BaseException | None) -> str:
    match error.cause if isinstance(error, ChildWorkflowError) else error:
        case None:
            return WITHOUT_A_WORD
        case TerminatedError():
            return TERMINATED
        case CancelledError():
            return "it was cancelled from outside before it had begun"
        case TimeoutError():
            return TIMED_OUT
        case ApplicationError(message=message):
            return f"it failed: {message}"
        case cause:
            return f"it failed: {cause}"
