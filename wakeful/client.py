"""Talk to threads: start, watch, decide, cancel. A thin layer over Temporal's client, which stays reachable."""

import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.decisions import Decision, DecisionAction, Decisions
from wakeful.contract.errors import CallerError, NoAnswer, ThreadBusy, ThreadNotFound, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.messages import InputMessage, Message
from wakeful.contract.permissions import Rule
from wakeful.contract.requests import MAX_PAGE, TITLE_LENGTH, RunRequest, Submission, title_of
from wakeful.contract.runs import Cancelled, OnBusy, RunResult, ThreadMode
from wakeful.contract.tools import FrontendTool
from wakeful.contract.views import EventsPage, StatusView, TranscriptPage
from wakeful.inbox import DecisionStatus, PendingDecision, confirmed, pending_decisions
from wakeful.permissions.rules import rule_problems

V = TypeVar("V", bound=Wire)
Handle = WorkflowHandle[Any, RunResult]


class WakefulClient:
    """Every verb a caller needs, on threads by their ids."""

    def __init__(self, temporal: Client, *, task_queue: str = names.DEFAULT_TASK_QUEUE) -> None:
        self.temporal = temporal
        self.task_queue = task_queue

    async def start(
        self,
        agent_id: str,
        input: str | Sequence[InputMessage],
        *,
        thread_id: str | None = None,
        title: str | None = None,
        frontend_tools: Sequence[FrontendTool] = (),
        mode: ThreadMode = ThreadMode.RUN,
        overrides: InferenceOverrides | None = None,
        permissions: Sequence[Rule] = (),
    ) -> str:
        """Start a run and return its thread's id. `overrides` and `permissions` are for this one run.

        Raises:
            ThreadBusy: the thread already has an active run.
            CallerError: the input is empty, or a permission rule cannot be read.
        """
        if problems := rule_problems(permissions):
            raise CallerError("; ".join(problems))
        try:
            request = RunRequest(
                agent_id=agent_id,
                input=input if isinstance(input, str) else tuple(input),
                title=title,
                frontend_tools=tuple(frontend_tools),
                mode=mode,
                overrides=overrides,
                permissions=tuple(permissions),
            )
        except ValidationError as error:
            wrong = (problem["msg"].removeprefix("Value error, ") for problem in error.errors(include_url=False))
            raise CallerError("; ".join(wrong)) from None
        thread_id = thread_id or f"{agent_id}-{uuid.uuid4().hex[:12]}"
        try:
            await self.temporal.start_workflow(
                names.WORKFLOW,
                request,
                id=thread_id,
                task_queue=self.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                memo={names.MEMO_TITLE: title_of(request)},
                static_summary=f"{agent_id}: {title_of(request)}",
            )
        except WorkflowAlreadyStartedError as error:
            raise ThreadBusy(thread_id) from error
        return thread_id

    async def run(
        self,
        agent_id: str,
        input: str | Sequence[InputMessage],
        *,
        thread_id: str | None = None,
        overrides: InferenceOverrides | None = None,
    ) -> RunResult:
        """Start a run and wait for its end."""
        return await self.result(await self.start(agent_id, input, thread_id=thread_id, overrides=overrides))

    async def send(
        self,
        thread_id: str,
        text: str,
        *,
        agent_id: str | None = None,
        on_busy: OnBusy | str = OnBusy.ENQUEUE,
        message_id: str | None = None,
        overrides: InferenceOverrides | None = None,
    ) -> str:
        """Say something to a thread, in one call: it is created, woken, restored, or the message waits its turn.

        Returns the message's id; sending the same id again changes nothing.

        Raises:
            CallerError: the thread is new and `agent_id` does not say who should answer.
        """
        message_id = message_id or uuid.uuid4().hex
        message = InputMessage(content=text, id=message_id)
        submission = Submission(input=(message,), on_busy=OnBusy(on_busy), agent_id=agent_id, overrides=overrides)
        request = await self._waking(thread_id, agent_id)
        if request is None:
            await self._signal(thread_id, names.SIGNAL_SUBMIT, submission)
            return message_id
        await self.temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={names.MEMO_TITLE: text[:TITLE_LENGTH]},
            static_summary=f"{request.agent_id}: {text[:TITLE_LENGTH]}",
            start_signal=names.SIGNAL_SUBMIT,
            start_signal_args=[submission],
        )
        return message_id

    async def _waking(self, thread_id: str, agent_id: str | None) -> RunRequest | None:
        """The request that a message needs to be sent with, or nothing if the thread is awake."""
        try:
            described = await self.handle(thread_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise _translated(error, thread_id) from error
            if agent_id is None:
                raise CallerError(f"thread {thread_id!r} is new: say which agent should answer") from error
            return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD)
        if described.status is WorkflowExecutionStatus.RUNNING:
            return None
        last_agent = agent_id or (await self.status(thread_id)).identity.agent_id
        return RunRequest(agent_id=last_agent, mode=ThreadMode.THREAD, restore_from=described.run_id)

    async def result(self, thread_id: str) -> RunResult:
        """Wait for the end of the thread's run."""
        try:
            return await self.handle(thread_id).result()
        except WorkflowFailureError as error:
            if isinstance(error.cause, CancelledError):  # closed before any worker saw it
                return _never_begun(thread_id)
            raise WakefulError(f"the run on thread {thread_id!r} failed: {error.cause}") from error
        except RPCError as error:
            raise _translated(error, thread_id) from error

    async def status(self, thread_id: str, *, within: timedelta | None = None) -> StatusView:
        """Where the run stands and what it waits for.

        Raises:
            NoAnswer: no worker answered `within` this time, or within Temporal's usual one.
        """
        return await self._query(thread_id, names.QUERY_STATUS, StatusView, within=within)

    async def transcript(self, thread_id: str) -> list[Message]:
        """All messages of the thread, from its first execution on."""
        return await self._messages(thread_id, None, through=None)

    async def _messages(self, thread_id: str, run_id: str | None, *, through: int | None) -> list[Message]:
        messages: list[Message] = []
        after: int | None = 0
        while after is not None and (through is None or len(messages) < through):
            asked = {"after": after, "limit": MAX_PAGE}
            page = await self._query(thread_id, names.QUERY_TRANSCRIPT, TranscriptPage, asked, run_id=run_id)
            if page.earlier is not None:
                messages = await self._messages(thread_id, page.earlier.run_id, through=page.earlier.through)
            messages += page.messages
            after = page.next
        return messages[:through]

    async def events(self, thread_id: str, *, after: int = 0, run_id: str | None = None) -> EventsPage:
        """One page of what happened after event number `after`, as one execution of the thread has it."""
        # As many as a page holds: a closed execution is replayed for every page.
        asked = {"after": after, "limit": MAX_PAGE}
        return await self._query(thread_id, names.QUERY_EVENTS, EventsPage, asked, run_id=run_id)

    async def watch(self, thread_id: str, *, after: int = 0) -> AsyncIterator[EventRecord]:
        """Events as they come, until the thread ends, from whichever execution of it has them.

        History's long poll wakes the watcher, and queries bring the events: watching adds nothing to history.
        """
        run_id: str | None = await self._execution_after(thread_id, after)
        while run_id is not None:
            following: str | None = None
            try:
                history = self.handle(thread_id, run_id=run_id).fetch_history_events(wait_new_event=True)
                while True:
                    await history.fetch_next_page()
                    # Every change of a run's state is made in a workflow task, so nothing else is worth a query;
                    # and however many came at once, one query has what they made.
                    changes = [event for event in history.current_page or () if event.event_type in _STATE_MAY_CHANGE]
                    while changes:
                        page = await self.events(thread_id, after=after, run_id=run_id)
                        for record in page.events:
                            yield record
                        after = page.last
                        if page.done:
                            return
                        if not page.more:
                            break
                    for event in changes:
                        continued = event.workflow_execution_continued_as_new_event_attributes
                        following = continued.new_execution_run_id or following
                    if history.next_page_token is None:
                        break
            except RPCError as error:
                raise _translated(error, thread_id) from error
            run_id = following

    async def _execution_after(self, thread_id: str, after: int) -> str:
        """The execution of the thread that has event number `after + 1`, or will have it."""
        try:
            described = await self.handle(thread_id).describe()
        except RPCError as error:
            raise _translated(error, thread_id) from error
        run_id = described.run_id
        while (earlier := (await self.events(thread_id, after=after, run_id=run_id)).earlier) is not None:
            run_id = earlier.run_id
        return run_id

    async def inbox(
        self, *, agent_id: str | None = None, tool: str | None = None, limit: int | None = None
    ) -> AsyncIterator[PendingDecision]:
        """Every decision that a run of this namespace waits for, oldest first.

        A run that could not be asked comes last, with the reason in `unknown`, whatever `tool` is wanted.
        """
        try:
            async for pending in pending_decisions(self.temporal, agent_id=agent_id, tool=tool, limit=limit):
                yield pending
        except RPCError as error:
            raise WakefulError(f"Temporal does not list what waits: {error.message}") from error

    async def decide(
        self,
        thread_id: str,
        call_id: str,
        action: DecisionAction | str,
        *,
        result: JsonValue = None,
        reason: str | None = None,
        arguments: JsonValue = None,
        arguments_digest: str | None = None,
        always: bool = False,
        decision_id: str | None = None,
        actor: str | None = None,
        confirm: bool = False,
    ) -> DecisionStatus | None:
        """Answer a suspended call, by its id or by its suspension's.

        The signal is durable when this returns, whether or not a worker runs. With `confirm` it is an update instead,
        which a worker has to answer, and what became of the decision is returned.

        Args:
            arguments: let the call go on with these in place of the model's.
            arguments_digest: of the arguments that were shown to whoever decides; the decision is refused for others.
            always: allow on this thread from now on what was asked about.
            decision_id: sending the same one again changes nothing.

        Raises:
            DecisionRefused: with `confirm`, when it changed nothing.
            NoAnswer: with `confirm`, when no worker answered; send it again without, and with the same `decision_id`.
        """
        decision = Decision(
            target=call_id,
            action=DecisionAction(action),
            result=result,
            reason=reason,
            arguments=arguments,
            arguments_digest=arguments_digest,
            always=always,
            decision_id=decision_id or uuid.uuid4().hex,
            actor=actor,
        )
        return await self._decide(thread_id, decision, confirm=confirm)

    async def decide_many(
        self, thread_id: str, decisions: Sequence[Decision], *, confirm: bool = False
    ) -> DecisionStatus | None:
        """Answer several suspended calls of one thread: all of them, or, if one cannot be applied, none.

        Raises:
            DecisionRefused: with `confirm`, when they changed nothing.
            NoAnswer: with `confirm`, when no worker answered.
        """
        return await self._decide(thread_id, Decisions(decisions=tuple(decisions)), confirm=confirm)

    async def _decide(self, thread_id: str, written: Decision | Decisions, *, confirm: bool) -> DecisionStatus | None:
        if not confirm:
            await self._signal(thread_id, names.SIGNAL_DECIDE, written)
            return None
        try:
            return await confirmed(self.handle(thread_id), written)
        except RPCError as error:
            raise _translated(error, thread_id) from error

    async def submit(
        self, thread_id: str, input: str | Sequence[InputMessage], *, on_busy: OnBusy | str = OnBusy.ENQUEUE
    ) -> None:
        """Send messages to a thread that is awake; `send` also wakes it."""
        written = input if isinstance(input, str) else tuple(input)
        await self._signal(thread_id, names.SIGNAL_SUBMIT, Submission(input=written, on_busy=OnBusy(on_busy)))

    async def cancel(self, thread_id: str, *, reason: str | None = None) -> None:
        """Ask the run to stop; `result` tells when it has."""
        await self._signal(thread_id, names.SIGNAL_CANCEL, {"reason": reason} if reason else None)

    def handle(self, thread_id: str, *, run_id: str | None = None) -> Handle:
        """The thread's workflow, for everything that Temporal's own client can do with it."""
        return self.temporal.get_workflow_handle(thread_id, run_id=run_id, result_type=RunResult)

    async def _signal(self, thread_id: str, name: str, argument: object) -> None:
        try:
            await self.handle(thread_id).signal(name, argument)
        except RPCError as error:
            raise _translated(error, thread_id) from error

    async def _query(
        self,
        thread_id: str,
        name: str,
        kind: type[V],
        argument: object = None,
        *,
        run_id: str | None = None,
        within: timedelta | None = None,
    ) -> V:
        args = [] if argument is None else [argument]
        handle = self.handle(thread_id, run_id=run_id)
        try:
            answer: V = await handle.query(name, args=args, result_type=kind, rpc_timeout=within)
            return answer
        except WorkflowQueryFailedError as error:
            raise WakefulError(f"thread {thread_id!r} does not answer {name!r}: {error}") from error
        except RPCError as error:
            raise _translated(error, thread_id) from error


_STATE_MAY_CHANGE = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)


# A precondition fails when the server has seen no worker on the task queue for minutes.
_SILENCE = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION)


def _translated(error: RPCError, thread_id: str) -> WakefulError:
    if error.status is RPCStatusCode.NOT_FOUND:
        if "already completed" in str(error):
            return CallerError(f"the run on thread {thread_id!r} has ended")
        return ThreadNotFound(thread_id)
    if error.status in _SILENCE:
        return NoAnswer(f"thread {thread_id!r} did not answer in time; is a worker running on its task queue?")
    return WakefulError(f"Temporal refused for thread {thread_id!r}: {error.message}")


def _never_begun(thread_id: str) -> RunResult:
    return RunResult(thread_id=thread_id, run_id="", agent_id="", status_reason="cancelled", termination=Cancelled())
