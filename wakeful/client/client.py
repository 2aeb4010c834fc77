"""The verbs that callers use on threads. A thin layer over Temporal's client, which stays reachable."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar, Unpack, get_args, overload

from pydantic import JsonValue, TypeAdapter
from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError

from wakeful.authoring.profiles import ProfileStore
from wakeful.client.answers import Answer, adapter_of, parse_output, raise_unless_answered
from wakeful.client.approvals import InboxFilter, PendingDecision, decide, pending_decisions
from wakeful.client.arguments import (
    check_option,
    check_rules,
    check_temporal,
    check_thread_id,
    check_type,
    one_of,
    rejecting_invalid,
    run_fields,
    several,
)
from wakeful.client.asking import Asking, OnDecision
from wakeful.client.at_step import ThreadAtStep, read_at_step
from wakeful.client.branching.fork import ForkRequest, fork_thread
from wakeful.client.branching.rewind import Rewound, plan_rewind, rewind
from wakeful.client.cancel import cancel_thread
from wakeful.client.changes import Changed, change, read_queued
from wakeful.client.confirming import DecisionStatus, confirm_message
from wakeful.client.decisions import DecisionFilter, read_decisions
from wakeful.client.deletion.delete import DeleteReceipt, delete_thread
from wakeful.client.deletion.owned import OwnedFilter, OwnedThreads, find_owned
from wakeful.client.diagnosis.causes import Diagnosis
from wakeful.client.diagnosis.reader import why
from wakeful.client.files import find_files
from wakeful.client.schedules import Schedules
from wakeful.client.start import Handle, start_thread, wait_for_last_result
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.thread_runs import DecisionRecord, ThreadRun, read_runs
from wakeful.client.threads import OutcomeName, ThreadFilter, ThreadSummary, list_threads, time_of
from wakeful.client.tree import TreeNode
from wakeful.client.tree_reader import TreeReader
from wakeful.client.wake import WakeSignal, signal_or_wake
from wakeful.client.watching.descendants import watch
from wakeful.client.watching.heartbeat_feed import HeartbeatFeeds
from wakeful.client.watching.not_started import once_started
from wakeful.client.watching.reading import read_events, read_messages
from wakeful.client.watching.retrying import OutageReporter, SharedCalls
from wakeful.client.watching.snapshot import watch_from_snapshot
from wakeful.client.watching.watcher import WatchContext
from wakeful.client.worker_warning import warning_without_worker
from wakeful.contract import names
from wakeful.contract.decisions import Decision, DecisionAction, DecisionActionName
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.events import EventRecord
from wakeful.contract.files import FileRef
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import ContentBlock, InputMessage, MediaBlock, Message
from wakeful.contract.requests import (
    TITLE_LENGTH,
    EditRequest,
    RevokeRequest,
    RunRequest,
    Submission,
    UndeliveredRequest,
    WithdrawRequest,
)
from wakeful.contract.runs import (
    OnBusy,
    OnBusyName,
    OnError,
    OnErrorName,
    Priority,
    RunResult,
    RunStatus,
    RunStatusName,
    ThreadMode,
    ThreadModeName,
)
from wakeful.contract.settings import RunOptions, SendOptions
from wakeful.contract.state import StateView
from wakeful.contract.tools import FrontendTool
from wakeful.contract.views import EventsPage, PermissionsView, QueuedMessage, StatusView
from wakeful.rpc_errors import error_of
from wakeful.telemetry.client_spans import client_span
from wakeful.telemetry.names import SPAN_DECIDE, SPAN_SEND, SPAN_START
from wakeful.telemetry.pattern_warning import warn_of_patterns
from wakeful.undecodable import decoding

T = TypeVar("T")

ACTION_SYNONYMS = {"approve": "resume", "allow": "resume", "yes": "resume", "deny": "cancel", "reject": "cancel"}
"""What people call the actions of a decision."""


class Client:
    """Every verb a caller needs, on threads by their ids.

    It reads threads from their histories, so no worker has to run. It keeps what it has read in memory until `aclose`;
    use it with `async with`, or close it, if your program continues without it.
    """

    def __init__(self, temporal: TemporalClient, *, task_queue: str = names.DEFAULT_TASK_QUEUE) -> None:
        check_temporal(temporal, "wakeful.Client")
        self.temporal = temporal
        self.task_queue = task_queue
        self.reader = ThreadReader(temporal)
        """Answers the queries of threads."""
        self.schedules = Schedules(temporal, task_queue=task_queue)
        """Creates, lists and deletes the schedules on which agents run."""
        self._shared_calls, self._heartbeat_feeds = SharedCalls(), HeartbeatFeeds()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Drop what was read of threads. The connection to Temporal stays open: it belongs to `temporal`."""
        await self.reader.aclose()

    async def start(
        self,
        agent_id: str,
        input: str | Sequence[InputMessage],
        *,
        thread_id: str | None = None,
        title: str | None = None,
        mode: ThreadMode | ThreadModeName = ThreadMode.RUN,
        expire_after: float | timedelta | None = None,
        on_error: OnError | OnErrorName = OnError.FAIL,
        again: bool = False,
        priority: Priority | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Start a run and return its thread's id.

        Args:
            options: the run's settings, and who starts it: the fields of `RunOptions`. The thread belongs to the
                tenant, with its sub-agents and forks.
            priority: how Temporal orders the tasks of the thread and its sub-agents, instead of its agent's; the tenant
                is the fairness key by default.
            expire_after: how long the thread may be idle before it deletes itself, in seconds, instead of its agent's.
            on_error: with `complete`, the workflow of a run in `run` mode that ends in an error does not fail.
            again: start a closed thread over, and leave its conversation behind; `send` continues it. It stays with
                its tenant, which you have to name.

        Raises:
            ThreadBusy: the thread already has an active run.
            ThreadExists: the thread is closed and has a conversation.
            ThreadExpired: it was closed, and the server has deleted it.
            OtherTenant: with `again`, when the thread belongs to another tenant than `tenant`.
            CallerError: the input is empty, a permission rule cannot be parsed, or no thread can have this id.
        """
        with rejecting_invalid():
            request = RunRequest(
                agent_id=agent_id,
                input=several(input),
                title=title,
                mode=mode,
                on_error=one_of(OnError, "on_error", on_error),
                expire_after=expire_after.total_seconds() if isinstance(expire_after, timedelta) else expire_after,
                priority=priority,
                **run_fields("start", options),
            )
        _warn_of_patterns(thread_id, request.frontend_tools)
        with client_span(SPAN_START, thread_id=thread_id, agent_id=agent_id):
            return await start_thread(self.temporal, request, thread_id, task_queue=self.task_queue, again=again)

    async def run(
        self,
        agent_id: str,
        input: str | Sequence[InputMessage],
        *,
        thread_id: str | None = None,
        on_error: OnError | OnErrorName = OnError.FAIL,
        again: bool = False,
        priority: Priority | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Start a run and wait for its result; the arguments are those of `start`."""
        started = await self.start(
            agent_id,
            input,
            thread_id=thread_id,
            on_error=on_error,
            again=again,
            priority=priority,
            **options,
        )
        return await self.result(started)

    async def send(
        self,
        thread_id: str,
        text: str | Sequence[ContentBlock],
        *,
        agent_id: str | None = None,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        message_id: str | None = None,
        confirm: bool = False,
        **options: Unpack[SendOptions],
    ) -> str:
        """Send a message to a thread in any state: it creates a new thread and wakes a closed one.

        Returns the message's id. Sending a message with the same id again has no effect. If the thread is being closed,
        this waits until it is closed, and wakes it.

        `overrides`, `permissions` and `budget` apply to the run that the message begins, and to no other. A message
        that has one of them, or `frontend_tools`, is refused if the run under way would read it: with `steer`, and on a
        thread in `run` mode with `enqueue`.

        Args:
            text: the message; or its blocks, such as pictures and documents.
            confirm: wait until the thread has handled the message, to see a refusal.
            options: the settings of the run that the message begins, and who sends it: the fields of `SendOptions`.

        Raises:
            CallerError: the message is too large, or the thread is new and `agent_id` does not say which agent answers.
            OtherTenant: the thread belongs to another tenant. An open one without search attributes refuses the message
                itself, which only `confirm` reports.
            MessageRefused: with `confirm`, when no run reads it: the thread is busy, or too many messages wait already.
            NoAnswer: with `confirm`, when no worker has handled it in time; it is in history, and will be read.
        """
        check_thread_id(thread_id)
        if isinstance(text, Sequence) and not text:
            raise CallerError("text is empty: a message needs a text, or at least one block")
        message_id = message_id or uuid.uuid4().hex
        with rejecting_invalid(content="text"):
            message = InputMessage(content=several(text), id=message_id)
            submission = Submission(
                input=(message,),
                on_busy=one_of(OnBusy, "on_busy", on_busy),
                agent_id=agent_id,
                **run_fields("send", options, SendOptions),
            )
        check_rules(submission.permissions)
        _warn_of_patterns(thread_id, submission.frontend_tools)
        title = message.as_message(message_id).text[:TITLE_LENGTH]
        signal = WakeSignal(names.SIGNAL_SUBMIT, submission, agent_id, title, submission.tenant)
        with client_span(SPAN_SEND, thread_id=thread_id):
            await signal_or_wake(self.reader, thread_id, signal, queue_of=lambda _closed: self.task_queue)
        if confirm:
            await confirm_message(self.reader, thread_id, message_id)
        return message_id

    @overload
    async def ask(
        self,
        thread_id: str,
        text: str | Sequence[ContentBlock],
        *,
        output: None = None,
        agent_id: str | None = None,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        on_decision: OnDecision = "raise",
        message_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Answer[JsonValue]: ...

    @overload
    async def ask(
        self,
        thread_id: str,
        text: str | Sequence[ContentBlock],
        *,
        output: type[T] | TypeAdapter[T],
        agent_id: str | None = None,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        on_decision: OnDecision = "raise",
        message_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Answer[T]: ...

    async def ask(
        self,
        thread_id: str,
        text: str | Sequence[ContentBlock],
        *,
        output: type[T] | TypeAdapter[T] | None = None,
        agent_id: str | None = None,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        on_decision: OnDecision = "raise",
        message_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Answer[Any]:
        """Send a message to a thread in any state, and wait for the answer to this very message.

        It waits through continue-as-new, wakes and outages, for as long as the run takes; bound it with
        `asyncio.timeout`. To ask again with the same `message_id` continues to wait, and sends nothing twice. The
        arguments that are not listed are those of `send`.

        Args:
            output: the type of the answer's `output`: that of the agent's `output`, or one that its JSON fits. Pass a
                `TypeAdapter` for unions.
            on_busy: as for `send`. The answer is that of the run which reads the message: messages that steer one run
                have the same answer.
            on_decision: `wait` also waits while the answer needs a person's decision.
            message_id: yours, such as that of a request which may be retried.

        Raises:
            MessageRefused: no run reads it: the thread is busy and `on_busy` is `reject`, or too many messages wait.
            RunFailed: the run that read it ended in an error.
            RunCancelled: it was cancelled, interrupted by another message, or rolled back.
            RunBlocked: a gate or a hook blocked it.
            RunStopped: a limit or a plugin stopped it before it answered.
            OutputMismatch: the answer is not of the type `output`.
            NotAnswered: the base of the last five; also if the message was withdrawn or undone, or the thread ended
                before a run read it.
            DecisionNeeded: the answer needs a decision, of this thread or of a sub-agent; `pending` has it.
            CallerError: as for `send`.
        """
        check_thread_id(thread_id)
        check_option("on_decision", on_decision, get_args(OnDecision))
        adapter = None if output is None else adapter_of(output)
        id = message_id or uuid.uuid4().hex
        asking = Asking(self._watch_context(), thread_id, id, on_decision=on_decision)

        async def send() -> str:
            return await self.send(
                thread_id,
                text,
                agent_id=agent_id,
                on_busy=on_busy,
                message_id=id,
                **options,
            )

        async with warning_without_worker(self.temporal, thread_id):
            result = await asking.result(send, is_new=message_id is None)
        raise_unless_answered(id, result)
        parsed = result.output if adapter is None else parse_output(id, result, adapter)
        return Answer(thread_id=thread_id, message_id=id, output=parsed, result=result)

    async def result(self, thread_id: str) -> RunResult:
        """Wait until the thread has nothing more to do, and return the result of its newest run.

        It logs a warning if no worker takes the thread's work for five seconds, and continues to wait.

        In `run` mode that is its only run, also if the thread is rewound meanwhile. In `thread` mode the thread stays
        open: if it is idle, this returns the result of the last finished run at once; `runs` has all of them.
        """
        with decoding(self.temporal.data_converter, f"the result of thread {thread_id!r}"):
            async with warning_without_worker(self.temporal, thread_id):
                return await wait_for_last_result(self._watch_context(), thread_id)

    async def runs(self, thread_id: str, *, limit: int | None = None) -> list[ThreadRun]:
        """The runs of the thread, the newest last, each with its result; those under way have none.

        Args:
            limit: only the newest runs. Without it, the thread is read from its first event on.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        return await read_runs(self._watch_context(), thread_id, limit=limit)

    async def status(self, thread_id: str, *, within: timedelta | None = None) -> StatusView:
        """What the run is doing and what it waits for, as the last completed workflow task left it.

        Args:
            within: how long a worker may take to answer, if the thread does not replay on this program's code.

        Raises:
            NoAnswer: no worker has started the thread; or the history does not replay here, and no worker answered.
        """
        return await self.reader.status(thread_id, within=within)

    async def state(self, thread_id: str) -> StateView:
        """The state of the thread's agents and plugins: every key that was written, as JSON."""
        return await self.reader.query(thread_id, names.QUERY_STATE, StateView)

    async def transcript(self, thread_id: str) -> list[Message]:
        """All messages of the thread, from its first execution on."""
        return await read_messages(self.reader, thread_id)

    async def files(self, refs: Iterable[FileRef]) -> list[MediaBlock]:
        """The files that tools returned, such as those of `RunResult.tool_files`, from the threads that have them.

        Raises:
            CallerError: a thread has one of them no more: its run was rolled back.
            ThreadNotFound: one of the threads has been deleted.
        """
        wanted = tuple(refs)
        found = await find_files(self.reader, wanted)
        if (lost := next((ref for ref in wanted if ref not in found), None)) is not None:
            raise CallerError(
                f"thread {lost.thread_id!r} has no file {lost.index} in message {lost.message_id!r}: the run that "
                "returned it was rolled back, or the reference is not one of a result"
            )
        return [found[ref] for ref in wanted]

    async def at_step(self, thread_id: str, step: int) -> ThreadAtStep:
        """The thread's messages, status and state as they were at the end of a step, which `wakeful show` numbers.

        Status and state are None if Temporal has deleted the execution that ran the step.

        Raises:
            CallerError: there is no such step, or it has not ended.
            DoesNotReplay: the execution of that step does not replay on this program's code.
        """
        check_type("step", step, int, "the number of a step")
        return await read_at_step(self.reader, thread_id, step)

    async def events(self, thread_id: str, *, after: int = 0, run_id: str | None = None) -> EventsPage:
        """One page of what happened after event number `after`, as one execution of the thread has it."""
        return await read_events(self.reader, thread_id, after=after, run_id=run_id)

    def watch(
        self,
        thread_id: str,
        *,
        after: int | Mapping[str, int] = 0,
        live: bool = False,
        descendants: bool = False,
        snapshot: bool = False,
        wait: bool = False,
        on_trouble: Callable[[WakefulError], None] | None = None,
    ) -> AsyncIterator[EventRecord]:
        """The thread's events as they happen, until it ends, through all its executions.

        Watching adds nothing to history. It reconnects by itself after an outage of the server or the workers: you get
        each event once, in the order of its number.

        Args:
            after: the number of the last event that you have seen; with `descendants`, of each thread.
            live: also yield what is in flight between events: text, reasoning and calls while the model writes them,
                and the progress of tools. Such records are `provisional`; drop them at a `stream_reset`.
            descendants: also yield the events of sub-agents, each between its parent's `child_started` and its end.
            snapshot: begin with the thread as it is: a `messages_snapshot`, a `state_snapshot` if there is state, and
                what waits.
            wait: if there is no such thread yet, wait until someone starts it; it is looked for twice a second.
            on_trouble: called once per outage: of the server, or of the workers while the thread has work for one.

        Raises:
            ThreadNotFound: no workflow has this id, and `wait` is not set.
            CallerError: `snapshot` is given together with `after`, `descendants` or `wait`; or no thread can have this
                id.
        """
        if not isinstance(after, Mapping):
            check_type("after", after, int, "the number of an event")
        if snapshot and (after or descendants or wait):
            raise CallerError("a stream that begins with a snapshot has no `after`, and is of one thread that exists")
        context = self._watch_context(on_trouble)
        if snapshot:
            records = watch_from_snapshot(context, thread_id, live=live)
        else:
            records = watch(context, thread_id, after=after, live=live, descendants=descendants)
        if not wait:
            return records
        check_thread_id(thread_id)
        return once_started(context, thread_id, records)

    def threads(
        self,
        *,
        agent_id: str | None = None,
        status: RunStatus | RunStatusName | None = None,
        outcome: OutcomeName | None = None,
        tenant: str | None = None,
        user: str | None = None,
        is_open: bool | None = None,
        started_after: datetime | timedelta | None = None,
        started_before: datetime | timedelta | None = None,
        subagents: bool = False,
        query: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        details: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[ThreadSummary]:
        """The threads of this namespace that meet all conditions: open ones first, the newest first.

        It reads Temporal's visibility, page by page as you iterate, and no thread; visibility lags behind by a moment.

        Args:
            status: of the newest run: `created`, `running`, `waiting` or `done`.
            outcome: how the newest run ended: `natural`, `stopped`, `blocked`, `error` or `cancelled`.
            user: who has written to the thread, or for whom its newest run acts. Lists show at most 50 users of a
                thread; `threads_of` also finds threads that more have written to.
            started_after: of its newest execution: a time, or how long ago.
            subagents: also list the threads of sub-agents.
            query: any other condition, as a Temporal list filter; such as on search attributes of your own.
            details: also read every thread that is listed, for `runs` and `last_line`.

        Raises:
            CallerError: no run has this status or outcome, or Temporal does not understand `query`.
        """
        if limit is not None:
            check_type("limit", limit, int, "a number of threads")
        wanted = ThreadFilter(
            agent_id=agent_id,
            status=status,
            outcome=outcome,
            tenant=tenant,
            user=user,
            is_open=is_open,
            started_after=time_of(started_after),
            started_before=time_of(started_before),
            subagents=subagents,
            query=query,
            metadata=metadata or {},
        )
        return list_threads(self.reader, wanted, details=details, limit=limit)

    async def tree(self, thread_id: str) -> TreeNode:
        """The thread's run, with every sub-agent and background task that descends from it.

        A run that cannot be read has what Temporal lists of it, and the reason in `unknown`.
        """
        return await TreeReader(self.reader).read(thread_id)

    def watch_tree(self, thread_id: str, *, every: float = 1.0) -> AsyncIterator[TreeNode]:
        """The tree, and again whenever it has changed, until the thread's run has ended; polled `every` seconds."""
        return TreeReader(self.reader).watch(thread_id, every=every)

    async def why(self, thread_id: str, *, now: int | None = None) -> Diagnosis:
        """What the thread does and waits for, since when, why, and what to do; the cause may be a descendant's.

        A diagnosis adds nothing to history. `now` is in milliseconds since 1970, instead of this machine's clock.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        return await why(self.reader, thread_id, now=now)

    async def undelivered(self, thread_id: str) -> tuple[UndeliveredMessage, ...]:
        """The messages to other agents that the thread could not deliver; long ones are cut."""
        return (await self.status(thread_id)).undelivered

    async def recover_undelivered(self, thread_id: str, action: Literal["replay", "clear"]) -> None:
        """Make the thread send its undelivered messages again, or drop them."""
        with rejecting_invalid():
            request = UndeliveredRequest(action=action)
        await self._signal(thread_id, names.SIGNAL_UNDELIVERED, request)

    def inbox(
        self,
        *,
        thread_id: str | None = None,
        agent_id: str | None = None,
        tool: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[PendingDecision]:
        """Every decision that a run of this namespace waits for, oldest first.

        With `thread_id`, those of this thread and its descendants: `path` says where each is. A run that cannot be
        read comes last, with the reason in `unknown`, whatever `tool` you ask for.
        """
        wanted = InboxFilter(agent_id=agent_id, tool=tool, tenant=tenant)
        return pending_decisions(self.reader, thread_id=thread_id, wanted=wanted, limit=limit)

    def decisions(
        self,
        *,
        thread_id: str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        since: datetime | timedelta | None = None,
    ) -> AsyncIterator[DecisionRecord]:
        """Every decision about a tool call that threads of this namespace have applied: who, what, when and why.

        It reads the events of each thread, also of sub-agents and closed threads, so it takes time; each thread's
        oldest decision comes first. A thread that cannot be read has one record, with the reason in `unknown`.

        Args:
            user: only of runs that act for this user.
            since: only decisions that were applied since then: a time, or how long ago.

        Raises:
            ThreadNotFound: no workflow has the id `thread_id`.
        """
        wanted = DecisionFilter(thread_id=thread_id, tenant=tenant, user=user, since=time_of(since))
        return read_decisions(self._watch_context(), wanted)

    async def decide(
        self,
        thread_id: str,
        call_id: str,
        action: DecisionAction | DecisionActionName,
        *,
        result: JsonValue = None,
        reason: str | None = None,
        arguments: JsonValue = None,
        arguments_digest: str | None = None,
        always: bool = False,
        decision_id: str | None = None,
        actor: str | None = None,
        tenant: str | None = None,
        run_id: str | None = None,
        confirm: bool = False,
    ) -> DecisionStatus | None:
        """Answer a suspended tool call, by its id or by its suspension's.

        The signal is durable when this returns, whether or not a worker is running. With `confirm`, this waits until
        the thread has handled it, and returns its status.

        Args:
            arguments: resume the call with these instead of the model's.
            arguments_digest: of the arguments that the decider saw; if they have changed, the decision is rejected.
            always: also allow such calls on this thread from now on.
            decision_id: sending a decision with the same id again has no effect.
            tenant: yours, as for `send`: a thread of another tenant refuses the decision.
            run_id: of the run whose call it is: the decision is refused if the thread has a newer run.

        Raises:
            CallerError: the result or the arguments are too large.
            OtherTenant: the thread belongs to another tenant, as for `send`.
            DecisionRefused: the run has ended; with `confirm`, also when it changed nothing. `AlreadyDecided` says by
                whom and when the call was decided before.
            NoAnswer: with `confirm`, when no worker has handled it in time; it is in history, and will be applied.
        """
        with rejecting_invalid(target="call_id"):
            decision = Decision(
                target=call_id,
                action=one_of(DecisionAction, "action", action, synonyms=ACTION_SYNONYMS),
                result=result,
                reason=reason,
                arguments=arguments,
                arguments_digest=arguments_digest,
                always=always,
                decision_id=decision_id or uuid.uuid4().hex,
                actor=actor,
            )
        return await self.decide_many(thread_id, (decision,), tenant=tenant, run_id=run_id, confirm=confirm)

    async def decide_many(
        self,
        thread_id: str,
        decisions: Sequence[Decision],
        *,
        tenant: str | None = None,
        run_id: str | None = None,
        confirm: bool = False,
    ) -> DecisionStatus | None:
        """Answer several suspended calls of one thread: all of them, or none if one decision cannot be applied.

        Args:
            run_id: of the run whose calls they are, as for `decide`.

        Raises:
            OtherTenant: the thread belongs to another tenant, as for `send`.
            DecisionRefused: the run has ended; with `confirm`, also when they changed nothing.
            NoAnswer: with `confirm`, when no worker has handled them in time; they are in history, and will be applied.
        """
        with client_span(SPAN_DECIDE, thread_id=thread_id):
            return await decide(self.reader, thread_id, decisions, is_confirmed=confirm, tenant=tenant, run_id=run_id)

    async def submit(
        self,
        thread_id: str,
        input: str | Sequence[InputMessage],
        *,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send messages to an open thread; `send`, whose arguments these are, also wakes a closed one."""
        with rejecting_invalid():
            submission = Submission(
                input=several(input),
                on_busy=one_of(OnBusy, "on_busy", on_busy),
                **run_fields("submit", options, SendOptions),
            )
        check_rules(submission.permissions)
        with client_span(SPAN_SEND, thread_id=thread_id):
            await self._signal(thread_id, names.SIGNAL_SUBMIT, submission)

    async def queued(self, thread_id: str) -> list[QueuedMessage]:
        """The messages and mail that no run has read, in the order in which runs read them."""
        return await read_queued(self.reader, thread_id)

    async def withdraw(
        self,
        thread_id: str,
        message_ids: Sequence[str],
        *,
        request_id: str | None = None,
        tenant: str | None = None,
        confirm: bool = False,
    ) -> Changed | None:
        """Withdraw messages that no run has read; a run that a message interrupts is cancelled nevertheless.

        The signal is durable when this returns. With `confirm`, this waits until the thread has handled it, and returns
        which messages are withdrawn, and why the others are not.

        Args:
            request_id: sending a request with the same id again has no effect.
            tenant: yours, as for `send`: a thread of another tenant refuses the request.

        Raises:
            ChangeRefused: the thread is closed; with `confirm`, also when no message was withdrawn.
            OtherTenant: the thread belongs to another tenant, as for `send`.
            NoAnswer: with `confirm`, when no worker has handled it in time; it is in history, and will be handled.
        """
        with rejecting_invalid():
            request = WithdrawRequest(message_ids=several(message_ids), request_id=request_id, tenant=tenant)
        return await change(self.reader, thread_id, request, is_confirmed=confirm)

    async def edit(
        self,
        thread_id: str,
        message_id: str,
        message: str | InputMessage,
        *,
        request_id: str | None = None,
        tenant: str | None = None,
        confirm: bool = False,
    ) -> Changed | None:
        """Replace a message that no run has read; it keeps its id and its place.

        Args:
            request_id: sending a request with the same id again has no effect.
            tenant: yours, as for `send`: a thread of another tenant refuses the request.
            confirm: wait until the thread has handled it, to see whether it came too late.

        Raises:
            CallerError: the message is too large.
            ChangeRefused: the thread is closed; with `confirm`, also when the message was not edited.
            OtherTenant: the thread belongs to another tenant, as for `send`.
            NoAnswer: with `confirm`, when no worker has handled it in time; it is in history, and will be handled.
        """
        with rejecting_invalid(content="message"):
            written = message if isinstance(message, InputMessage) else InputMessage(content=message)
            edited = written.model_copy(update={"id": message_id})
            request = EditRequest(message=edited, request_id=request_id, tenant=tenant)
        return await change(self.reader, thread_id, request, is_confirmed=confirm)

    async def permissions(self, thread_id: str) -> PermissionsView:
        """The permission rules of the thread's agent, of the thread, and of its newest run."""
        return await self.reader.query(thread_id, names.QUERY_PERMISSIONS, PermissionsView)

    async def revoke(
        self,
        thread_id: str,
        tools: Sequence[str],
        *,
        inherited: bool = False,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        tenant: str | None = None,
        confirm: bool = False,
    ) -> Changed | None:
        """Revoke rules that decisions with `always` have added to the thread, by their `tool`.

        It applies to calls that start afterwards.

        Args:
            inherited: lift rules that the thread has of its ancestors, or of agents that handed it off, instead: this
                thread, and what it starts from now on, may do what they denied or asked about. The event has `actor`
                and `reason`.
            request_id: sending a request with the same id again has no effect.
            tenant: yours, as for `send`: a thread of another tenant refuses the request.
            confirm: wait until the thread has handled it, and return which rules are revoked.

        Raises:
            ChangeRefused: the thread is closed; with `confirm`, also when no rule was revoked.
            OtherTenant: the thread belongs to another tenant, as for `send`.
            NoAnswer: with `confirm`, when no worker has handled it in time; it is in history, and will be handled.
        """
        with rejecting_invalid():
            request = RevokeRequest(
                tools=several(tools),
                inherited=inherited,
                actor=actor,
                reason=reason,
                request_id=request_id,
                tenant=tenant,
            )
        return await change(self.reader, thread_id, request, is_confirmed=confirm)

    async def cancel(self, thread_id: str, *, reason: str | None = None, run_id: str | None = None) -> None:
        """Cancel the active run; wait for `result` to know that it has ended.

        If the run has ended and its tasks work on, they are cancelled: a thread that is closed is woken for it, starts
        no run, and closes again when they have stopped.

        In `run` mode this is Temporal's own cancel, after which the workflow closes as Canceled. A thread in `thread`
        mode is sent the `cancel` signal, and stays open; without the thread's codec, it gets Temporal's cancel, too.

        Args:
            run_id: cancel this run alone, by the `cancel` signal in either mode: the thread refuses it if this run has
                ended, or is not its newest. A workflow in `run` mode then closes as Completed.
        """
        await cancel_thread(self.reader, thread_id, reason=reason, run_id=run_id)

    async def close(self, thread_id: str, *, reason: str | None = None) -> None:
        """Cancel the active run and all tasks, if there are any, and complete the thread's workflow.

        `result` then returns the last run's result. A later `send`, or mail from another agent, wakes the thread with
        its conversation.
        """
        await self._signal(thread_id, names.SIGNAL_CLOSE, {"reason": reason} if reason else None)

    async def fork(
        self,
        thread_id: str,
        *,
        at: int,
        message: str | None = None,
        agent_id: str | None = None,
        new_thread_id: str | None = None,
        mode: ThreadMode | ThreadModeName = ThreadMode.RUN,
        **options: Unpack[RunOptions],
    ) -> str:
        """Start a thread that continues after step `at` of this one, which does not change; 0 is before its first step.

        Returns the new thread's id. The fork pays for none of the steps that it inherits.

        Args:
            message: what the fork is sent after that step; without one, the model continues.
            agent_id: the agent that answers, if not the one of that step.
            options: the fields of `RunOptions`, for the fork's first run. If you give neither `user` nor `metadata`, it
                has both of the run that it continues. It belongs to the same tenant.

        Raises:
            CallerError: there is no such step, it has not ended, it needs a message, or `new_thread_id` is taken.
            OtherTenant: the thread belongs to another tenant than the one that you name.
        """
        check_type("at", at, int, "the number of a step")
        fields = run_fields("fork", options)
        request = ForkRequest(at, message, agent_id, new_thread_id, mode, fields)
        return await fork_thread(self.reader, thread_id, request)

    async def rewind(self, thread_id: str, *, to: int, reason: str | None = None) -> Rewound:
        """Undo everything after step `to` of the thread and call the model again from there; 0 is the beginning.

        Side effects of tools are not undone. Sub-agents and tasks that were started since are cancelled; earlier ones
        keep running, and what they have reported since is sent to the thread again.

        Raises:
            CallerError: there is no such step, nothing came after it, or the thread is a sub-agent's.
            NoAnswer: no worker has started the thread, or its history does not replay here and no worker answered.
        """
        check_type("to", to, int, "the number of a step")
        return await rewind(self.reader, await plan_rewind(self.reader, thread_id, to=to), reason=reason)

    async def delete(self, thread_id: str, *, profiles: bool | ProfileStore = False) -> DeleteReceipt:
        """Delete the thread for good: its executions, archives, sub-agents, tasks and stored payloads.

        Open ones are terminated first; no worker is needed. Forks of the thread stay. Deleting it again has no effect,
        or deletes what an earlier call could not: `remaining` of the receipt names that.

        Args:
            profiles: also delete the profiles of these threads, in this store, or in the one that `WAKEFUL_PROFILES`
                names.

        Raises:
            CallerError: the thread is a sub-agent of a thread that exists: delete that one.
        """
        return await delete_thread(self.temporal, thread_id, profiles=profiles)

    async def threads_of(
        self, *, tenant: str | None = None, user: str | None = None, query: str | None = None
    ) -> OwnedThreads:
        """The threads of a tenant, or those to which a user has written, to delete them; nothing is deleted.

        It finds them by search attributes, and reads those that lists do not say enough of: that takes time in a
        namespace without Wakeful's search attributes, and for threads of releases that did not show users. What no
        worker has handled yet is not found.

        Args:
            tenant: with `user`, only this tenant's threads: users of several tenants may have one name.
            query: only threads that this Temporal list filter finds, too.

        Raises:
            CallerError: neither a tenant nor a user is given, or Temporal does not understand `query`.
        """
        return await find_owned(self.reader, OwnedFilter(tenant, user, query))

    def handle(self, thread_id: str, *, run_id: str | None = None) -> Handle:
        """The thread's workflow, for everything that Temporal's own client can do with it."""
        return self.temporal.get_workflow_handle(thread_id, run_id=run_id, result_type=RunResult)

    def _watch_context(self, on_trouble: Callable[[WakefulError], None] | None = None) -> WatchContext:
        return WatchContext(self.reader, self._shared_calls, self._heartbeat_feeds, OutageReporter(on_trouble))

    async def _signal(self, thread_id: str, name: str, argument: object) -> None:
        try:
            await self.handle(thread_id).signal(name, argument)
        except RPCError as error:
            raise error_of(error, thread_id) from error


def _warn_of_patterns(thread_id: str | None, tools: Sequence[FrontendTool]) -> None:
    for tool in tools:
        warn_of_patterns([tool.parameters, tool.result_schema], thread_id=thread_id or "", frontend_tool=tool.id)
