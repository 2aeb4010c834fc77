"""Send what a client wrote to its thread: a message that begins or steers a run, or the answer to a question."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from a2a.types import Message, Task, TaskState, TaskStatus
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from wakeful.a2a.answering import chosen_call, decision_of
from wakeful.a2a.parts import blocks_of
from wakeful.a2a.projection import TreeRecord, WaitingCall
from wakeful.a2a.reading import FoundTask, NotShared, TaskReader
from wakeful.a2a.task_ids import context_id, thread_of
from wakeful.a2a.tasks import INTERRUPTED, SETTLED, TERMINAL, TaskRef, for_clients, waiting_task
from wakeful.client.client import Client
from wakeful.contract import messages
from wakeful.contract.errors import DecisionRefused, NoAnswer
from wakeful.contract.ids import a2a_context_id, a2a_thread_id, thread_id_problem
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.runs import Adapter, OnBusy

Check = Callable[[TaskRef], Awaitable[None]]


@dataclass
class Turn:
    """What a client waits for: a task, with what was read of its thread."""

    tree: TreeRecord
    ref: TaskRef
    task: Task
    is_over: bool = False
    """There is nothing to wait for: the task has ended, or asks something."""


class Sender:
    """Sends the messages of clients, each once, by its id."""

    def __init__(self, client: Client, reader: TaskReader, *, tenant: str | None) -> None:
        self._client = client
        self._reader = reader
        self._tenant = tenant

    async def begin(self, agent_id: str, message: Message, *, live: bool, check: Check) -> Turn:
        """Begin a task with a message that names none; one that was sent before has its task already.

        Args:
            check: raises if the message must not be sent.

        Raises:
            InvalidParamsError: the message is empty, or its context cannot be one.
            NotShared: its context is a thread that clients must not see.
        """
        blocks = blocks_of(message)
        context = message.context_id or context_id(agent_id, message.message_id, _content(message))
        if (problem := thread_id_problem(a2a_thread_id(context, self._tenant))) is not None:
            raise InvalidParamsError(f"the contextId cannot be that of a context: {problem}")
        tree = await self._reader.context(context)
        thread_id = a2a_thread_id(context, self._tenant) if tree is None else tree.thread_id
        ref = TaskRef(thread_id, message.message_id)
        if tree is not None and (found := await self._reader.find(tree, ref.id)) is not None:
            return Turn(tree, ref, found.task, is_over=found.task.status.state in SETTLED)
        await check(ref)
        await self._client.send(
            thread_id,
            blocks,
            agent_id=agent_id,
            message_id=message.message_id,
            live=live,
            tenant=self._tenant,
            adapter=Adapter.A2A,
        )
        sent = messages.Message(id=message.message_id, role=messages.Role.USER, content=blocks)
        tree = tree or self._reader.empty_tree(thread_id)
        return Turn(tree, ref, waiting_task(ref, sent, int(time.time() * 1000)))

    async def reply(self, message: Message, *, actor: str, live: bool, check: Check) -> Turn:
        """Answer the question of a task, or steer it.

        Args:
            actor: who answers.
            check: raises if the message must not be sent.

        Raises:
            TaskNotFoundError: there is no such task.
            UnsupportedOperationError: the task has ended, or has not started.
            InvalidParamsError: the message is of another context, or does not answer the question.
        """
        thread_id = thread_of(message.task_id)
        if thread_id is not None and message.context_id not in ("", a2a_context_id(thread_id)):
            raise InvalidParamsError(f"task {message.task_id!r} does not belong to context {message.context_id!r}")
        tree = None if thread_id is None else await self._shared_tree(thread_id)
        found = None if tree is None else await self._reader.find(tree, message.task_id)
        if tree is None or found is None:
            raise TaskNotFoundError(f"there is no task {message.task_id!r}")
        state = found.task.status.state
        if await self._was_sent(tree, message.message_id):
            return Turn(tree, found.ref, found.task, is_over=state in SETTLED)
        if state in TERMINAL:
            raise UnsupportedOperationError(
                f"task {message.task_id!r} has ended: send the message to its context, without a task id"
            )
        await check(found.ref)
        if state in INTERRUPTED:
            return await self._answered(found, await self._decide(tree, message, actor=actor))
        await self._steer(tree, found, message, live=live)
        return Turn(tree, found.ref, found.task)

    async def _answered(self, found: FoundTask, call: WaitingCall) -> Turn:
        """The task after an answer: it works, also while no worker has read the answer, and asks nothing twice."""
        tree = await self._reader.tree(found.ref.thread_id, with_ended=True)
        tree = tree or self._reader.empty_tree(found.ref.thread_id)
        task = await self._reader.task(tree, found.ref) or found.task
        if call not in tree.waiting():
            return Turn(tree, found.ref, task, is_over=task.status.state in SETTLED)
        task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_WORKING, timestamp=task.status.timestamp))
        return Turn(tree, found.ref, task)

    async def _shared_tree(self, thread_id: str) -> TreeRecord | None:
        try:
            return await self._reader.tree(thread_id, with_ended=True)
        except NotShared:
            return None

    async def _was_sent(self, tree: TreeRecord, message_id: str) -> bool:
        """Whether the message has steered a run, or has answered a question of it or of one of its delegates.

        It is asked after the tree was read: a question that the message has answered is then no longer in the tree, or
        the answer is known.
        """
        if message_id in tree.root.messages:
            return True
        for thread_id in tree.threads:
            outcome = await self._reader.outcome(thread_id, message_id)
            if outcome is not None and outcome.status is not OutcomeStatus.REFUSED:
                return True
        return False

    async def _decide(self, tree: TreeRecord, message: Message, *, actor: str) -> WaitingCall:
        call = chosen_call(for_clients(tree), message)
        decision = decision_of(call.ticket, message, actor=actor)
        try:
            await self._client.decide_many(call.thread_id, [decision], tenant=self._tenant, confirm=True)
        except DecisionRefused as error:
            raise InvalidParamsError(f"the answer was refused: {error.reason}") from error
        except NoAnswer:
            pass  # it is in history, and a worker will apply it
        return call

    async def _steer(self, tree: TreeRecord, found: FoundTask, message: Message, *, live: bool) -> None:
        run = tree.root.run_of(found.ref.message_id)
        if run is None or run is not tree.root.newest:
            raise UnsupportedOperationError(f"task {message.task_id!r} has not started: send the message later")
        await self._client.send(
            tree.thread_id,
            blocks_of(message),
            on_busy=OnBusy.STEER,
            message_id=message.message_id,
            live=live,
            tenant=self._tenant,
            adapter=Adapter.A2A,
        )


def _content(message: Message) -> bytes:
    return b"".join(part.SerializeToString(deterministic=True) for part in message.parts)
