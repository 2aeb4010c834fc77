"""Talk to threads: start, watch, decide, cancel. A thin layer over Temporal's client, which stays reachable."""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from pydantic import JsonValue, ValidationError
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wakeful.client.approvals import DecisionStatus, PendingDecision, confirmed, pending_decisions
from wakeful.client.branching.fork import ForkRequest, fork_thread
from wakeful.client.branching.rewind import Rewound, goes_on, plan_rewind, rewind
from wakeful.client.diagnosis.causes import Diagnosis
from wakeful.client.diagnosis.reader import why
from wakeful.client.queries import query
from wakeful.client.tree import TreeNode
from wakeful.client.tree_reader import TreeReader
from wakeful.client.wake import WakeSignal, signal_or_wake
from wakeful.client.watching.descendants import watch
from wakeful.client.watching.reading import read_events, read_messages
from wakeful.client.watching.retrying import Shared, Troubles
from wakeful.client.watching.watcher import Reach
from wakeful.contract import names
from wakeful.contract.budgets import Budget
from wakeful.contract.decisions import Decision, DecisionAction, Decisions
from wakeful.contract.errors import CallerError, ThreadBusy, WakefulError, validation_problems
from wakeful.contract.events import EventRecord
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import InputMessage, Message
from wakeful.contract.permissions import Rule
from wakeful.contract.requests import TITLE_LENGTH, RunRequest, Submission, title_of
from wakeful.contract.runs import Cancelled, OnBusy, RunResult, ThreadMode
from wakeful.contract.state import StateView
from wakeful.contract.tools import FrontendTool
from wakeful.contract.views import EventsPage, StatusView
from wakeful.permissions.rules import rule_problems
from wakeful.rpc_errors import error_of

Handle = WorkflowHandle[Any, RunResult]


class Client:
    """Every verb a caller needs, on threads by their ids."""

    def __init__(self, temporal: TemporalClient, *, task_queue: str = names.DEFAULT_TASK_QUEUE) -> None:
        self.temporal = temporal
        self.task_queue = task_queue
        self._shared = Shared()

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
        budget: Budget | None = None,
    ) -> str:
        """Start a run and return its thread's id. `overrides`, `permissions` and `budget` are for this one run.

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
                budget=budget,
            )
        except ValidationError as error:
            raise CallerError("; ".join(validation_problems(error))) from None
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
        budget: Budget | None = None,
    ) -> RunResult:
        """Start a run and wait for its end."""
        started = await self.start(agent_id, input, thread_id=thread_id, overrides=overrides, budget=budget)
        return await self.result(started)

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
        word = WakeSignal(names.SIGNAL_SUBMIT, submission, agent_id, text[:TITLE_LENGTH])
        await signal_or_wake(self.temporal, thread_id, word, queue_of=lambda _closed: self.task_queue)
        return message_id

    async def result(self, thread_id: str) -> RunResult:
        """Wait for the end of the thread's run, also if it is rewound meanwhile."""
        try:
            return await self.handle(thread_id).result()
        except WorkflowFailureError as error:
            if isinstance(error.cause, TerminatedError) and await goes_on(self.temporal, thread_id):
                return await self.result(thread_id)
            if isinstance(error.cause, CancelledError):  # closed before any worker saw it
                return _never_begun(thread_id)
            raise WakefulError(f"the run on thread {thread_id!r} failed: {error.cause}") from error
        except RPCError as error:
            raise error_of(error, thread_id) from error

    async def status(self, thread_id: str, *, within: timedelta | None = None) -> StatusView:
        """Where the run stands and what it waits for.

        Raises:
            NoAnswer: no worker answered `within` this time, or within Temporal's usual one.
        """
        return await query(self.temporal, thread_id, names.QUERY_STATUS, StatusView, within=within)

    async def state(self, thread_id: str) -> StateView:
        """What the thread's agents and plugins keep beside the conversation: every key that was written, as JSON."""
        return await query(self.temporal, thread_id, names.QUERY_STATE, StateView)

    async def transcript(self, thread_id: str) -> list[Message]:
        """All messages of the thread, from its first execution on."""
        return await read_messages(self.temporal, thread_id)

    async def events(self, thread_id: str, *, after: int = 0, run_id: str | None = None) -> EventsPage:
        """One page of what happened after event number `after`, as one execution of the thread has it."""
        return await read_events(self.temporal, thread_id, after=after, run_id=run_id)

    def watch(
        self,
        thread_id: str,
        *,
        after: int | Mapping[str, int] = 0,
        live: bool = False,
        below: bool = False,
        on_trouble: Callable[[WakefulError], None] | None = None,
    ) -> AsyncIterator[EventRecord]:
        """Events as they come, until the thread ends, from whichever execution of it has them.

        Watching adds nothing to history. It goes on by itself when the server or the workers were away: each event
        comes once, in the order of its number.

        Args:
            after: the number of the last event that was seen; with `below`, of each thread.
            live: show what is in flight between them too: text, reasoning and calls while the model writes them, and
                the progress of tools. Such records are `provisional`; at a `stream_reset` they are to be forgotten.
            below: the events of sub-agents too: those of each after its parent's `child_started` and before its end.
            on_trouble: is told when nobody answers, once until somebody does.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        signal_or_wake = Reach(self.temporal, self._shared, Troubles(on_trouble))
        return watch(signal_or_wake, thread_id, after=after, live=live, below=below)

    async def tree(self, thread_id: str) -> TreeNode:
        """The thread's run, and every sub-agent and background task below it.

        A run that nobody answers for is there with what Temporal knows of it, and with the reason in `unknown`.
        """
        return await TreeReader(self.temporal).read(thread_id)

    def watch_tree(self, thread_id: str, *, every: float = 1.0) -> AsyncIterator[TreeNode]:
        """The tree, and again whenever it has changed, until the thread's run has ended; looked at `every` seconds."""
        return TreeReader(self.temporal).watch(thread_id, every=every)

    async def why(self, thread_id: str, *, now: int | None = None) -> Diagnosis:
        """What the thread does and waits for, since when, why, and what to do: the cause itself, however deep it is.

        Reading it adds nothing to history. `now` is in milliseconds since 1970, in place of this machine's clock.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        return await why(self.temporal, thread_id, now=now)

    async def undelivered(self, thread_id: str) -> tuple[UndeliveredMessage, ...]:
        """The messages to other agents that the thread could not deliver; of long ones, the beginning."""
        return (await self.status(thread_id)).undelivered

    async def recover_undelivered(self, thread_id: str, action: Literal["replay", "clear"]) -> None:
        """Have the thread send its dead letters again, or forget them."""
        await self._signal(thread_id, names.SIGNAL_UNDELIVERED, {"action": action})

    async def inbox(
        self,
        *,
        thread_id: str | None = None,
        agent_id: str | None = None,
        tool: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[PendingDecision]:
        """Every decision that a run of this namespace waits for, oldest first.

        With `thread_id`, those of this thread and of every sub-agent below it: `path` says where each stands.
        A run that could not be asked comes last, with the reason in `unknown`, whatever `tool` is wanted.
        """
        asked = pending_decisions(self.temporal, thread_id=thread_id, agent_id=agent_id, tool=tool, limit=limit)
        try:
            async for pending in asked:
                yield pending
        except RPCError as error:
            if thread_id is not None:
                raise error_of(error, thread_id) from error
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
            raise error_of(error, thread_id) from error

    async def submit(
        self, thread_id: str, input: str | Sequence[InputMessage], *, on_busy: OnBusy | str = OnBusy.ENQUEUE
    ) -> None:
        """Send messages to a thread that is awake; `send` also wakes it."""
        written = input if isinstance(input, str) else tuple(input)
        await self._signal(thread_id, names.SIGNAL_SUBMIT, Submission(input=written, on_busy=OnBusy(on_busy)))

    async def cancel(self, thread_id: str, *, reason: str | None = None) -> None:
        """Ask the run to stop; `result` tells when it has."""
        await self._signal(thread_id, names.SIGNAL_CANCEL, {"reason": reason} if reason else None)

    async def close(self, thread_id: str, *, reason: str | None = None) -> None:
        """Cancel the run under way, if there is one, and complete the thread's workflow; `send` wakes it again."""
        await self._signal(thread_id, names.SIGNAL_CLOSE, {"reason": reason} if reason else None)

    async def fork(
        self,
        thread_id: str,
        *,
        at: int,
        message: str | None = None,
        agent_id: str | None = None,
        new_thread_id: str | None = None,
        mode: ThreadMode = ThreadMode.RUN,
    ) -> str:
        """Start a thread that goes on after step `at` of this one, which stays as it is; 0 is before its first step.

        Returns the new thread's id. Nothing that is kept is paid for again.

        Args:
            message: what is said after that step; without one the model just goes on.
            agent_id: who answers, if it is to be another agent than at that step.

        Raises:
            CallerError: there is no such step, it is not over, it needs a message, or `new_thread_id` is taken.
        """
        wish = ForkRequest(at, message, agent_id, new_thread_id, mode)
        return await fork_thread(self.temporal, thread_id, wish)

    async def rewind(self, thread_id: str, *, to: int, reason: str | None = None) -> Rewound:
        """Undo everything after step `to` of the thread and ask the model again from there; 0 is the beginning.

        What tools did outside stays done. Sub-agents and tasks that were started since are cancelled; those from before
        go on, and what they told since is told again.

        Raises:
            CallerError: there is no such step, nothing came after it, or the thread is a sub-agent's.
            NoAnswer: no worker told what the thread has said.
        """
        return await rewind(self.temporal, await plan_rewind(self.temporal, thread_id, to=to), reason=reason)

    def handle(self, thread_id: str, *, run_id: str | None = None) -> Handle:
        """The thread's workflow, for everything that Temporal's own client can do with it."""
        return self.temporal.get_workflow_handle(thread_id, run_id=run_id, result_type=RunResult)

    async def _signal(self, thread_id: str, name: str, argument: object) -> None:
        try:
            await self.handle(thread_id).signal(name, argument)
        except RPCError as error:
            raise error_of(error, thread_id) from error


def _never_begun(thread_id: str) -> RunResult:
    return RunResult(thread_id=thread_id, run_id="", agent_id="", status_reason="cancelled", termination=Cancelled())
