"""The decisions that runs wait for, and the answers to them. `Client` has the verbs.

Nothing stores an inbox: the waiting runs are the inbox. One list query finds them by search attribute, and their memos
say what they wait for. Only runs without such a memo are read from history, and those that the caller opens: a run that
cannot be read is listed with the reason.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from time import time

from pydantic import JsonValue
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.arguments import check_type, rejecting_invalid
from wakeful.client.confirming import DecisionStatus, confirm
from wakeful.client.diagnosis.evidence import QueueKind, TaskQueue
from wakeful.client.diagnosis.server_answers import read_queue
from wakeful.client.earlier_decisions import refusal_after_end
from wakeful.client.queries import OPEN_RUNS, in_tree
from wakeful.client.statuses import MAX_CONCURRENT_READS, Statuses, Unanswered
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import check_tenant, describe
from wakeful.contract import names
from wakeful.contract.applied_decisions import DecisionChannel
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.decisions import Decision, Decisions, ResumeMode, SuspensionTicket, needs_result
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.ids import is_descendant, ticket_id
from wakeful.contract.runs import RunIdentity, RunStatus
from wakeful.contract.views import PendingView, Sent, StatusView, ToolCallView
from wakeful.history.decoder import ExecutionRef
from wakeful.history.unhandled import read_unhandled
from wakeful.rpc_errors import error_of, is_run_ended

SIGNAL_LIMIT = 1_900_000
"""Bytes: the server rejects a payload of more than two megabytes."""

# Runs that started while an attribute could not be registered do not have it: they are listed without it.
_WAITING = (
    f"{OPEN_RUNS} AND ({names.ATTRIBUTE_STATUS} IS NULL OR {names.ATTRIBUTE_STATUS} = '{RunStatus.WAITING}' "
    f"OR {names.ATTRIBUTE_PENDING} IS NOT NULL)"
)

_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_TENANT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


class PendingDecision(Wire):
    """A decision that a run waits for, with what a person needs to make it."""

    ticket: str
    """`THREAD/CALL`, as `wakeful approve` takes it."""
    thread_id: str
    run_id: Few[str] = ""
    agent_id: Few[str] = ""
    tenant: Maybe[str] = None
    user: Maybe[str] = None
    path: tuple[str, ...]
    """The threads from the root to this one."""
    call_id: Few[str] = ""
    suspension_id: Maybe[str] = None
    tool_name: Few[str] = ""
    arguments: Maybe[JsonValue] = None
    arguments_digest: Maybe[str] = None
    """Send it with the decision: the decision is rejected if the arguments have changed by then."""
    message: Maybe[str] = None
    action: Few[str] = ""
    since: Maybe[int] = None
    """Milliseconds since 1970, as is `expires_at`."""
    age: Maybe[float] = None
    """Seconds since then."""
    expires_at: Maybe[int] = None
    resume_mode: Maybe[ResumeMode] = None
    remember: Maybe[str] = None
    """The permission rule that a decision with `always` would add."""
    response_schema: Maybe[JsonValue] = None
    cut: Few[bool] = False
    """The message and the arguments are only a part, without the schema. The inbox of the thread has the whole."""
    unknown: Maybe[str] = None
    """Why nothing more is known: the run cannot be read. You can send the decision nevertheless."""
    undecodable: Few[bool] = False
    """The reason is that this program does not have the thread's payload codec."""
    sent: Maybe[Sent] = None
    """What was sent and settles it, if no worker has handled that yet: a decision about it, or a cancel or close of its
    run. Do not ask for it."""
    is_question: Few[bool] = False
    """The tool asks for a value; else it, a rule, a gate or a hook asks whether the call may run. Only entries that
    were read from the thread say so."""

    @property
    def needs_result(self) -> bool:
        """Whether the decision must have a result: the model reads it, or the tool is called with it."""
        return needs_result(self.resume_mode, self.response_schema)


@dataclass(frozen=True)
class InboxFilter:
    """Which pending decisions to list: all, or those of an agent, a tool, a tenant."""

    agent_id: str | None = None
    tool: str | None = None
    tenant: str | None = None

    def includes(self, entry: PendingDecision) -> bool:
        """Whether it is to be listed; of a run that cannot be read, agent and tool may be unknown."""
        is_of_agent = self.agent_id in (None, entry.agent_id or self.agent_id)
        is_of_tool = self.tool in (None, entry.tool_name or self.tool)
        return is_of_agent and is_of_tool and self.tenant in (None, entry.tenant)


ALL = InboxFilter()


async def pending_decisions(
    reader: ThreadReader,
    *,
    thread_id: str | None = None,
    wanted: InboxFilter = ALL,
    limit: int | None = None,
) -> AsyncIterator[PendingDecision]:
    """Yield the pending decisions, oldest first, then an entry for each run that cannot be read.

    With `thread_id`, only those of that thread and its descendants, and none of them is cut.

    Raises:
        ThreadNotFound: no workflow has this id.
        WakefulError: Temporal does not list the runs.
    """
    try:
        executions = await _list_waiting(reader.temporal, thread_id)
    except RPCError as error:
        if thread_id is not None:
            raise error_of(error, thread_id) from error
        raise WakefulError(f"Temporal does not list the waiting runs: {error.message}") from error
    listed = {execution.run_id: await reader.pending.of(execution) for execution in executions}
    unlisted = [
        each for each in executions if not _is_enough(each, listed[each.run_id], is_opened=thread_id is not None)
    ]
    answers = await Statuses(reader.temporal, reader=reader).of(unlisted)
    read = {execution.run_id: answer for execution, answer in zip(unlisted, answers, strict=True)}
    sent = await _sent(reader, executions, is_opened=thread_id is not None)
    found = [
        entry
        for execution in executions
        for entry in _with_sent(
            _entries(execution, listed[execution.run_id], read.get(execution.run_id)), sent.get(execution.run_id, ())
        )
        if thread_id is None or _is_in_tree(entry, thread_id)
    ]
    listed_entries = [entry for entry in found if wanted.includes(entry)]
    listed_entries.sort(key=lambda entry: (entry.unknown is not None, entry.since or 0, entry.ticket))
    for entry in listed_entries[:limit]:
        yield entry


async def decide(
    reader: ThreadReader,
    thread_id: str,
    decisions: Sequence[Decision],
    *,
    is_confirmed: bool,
    tenant: str | None = None,
    run_id: str | None = None,
) -> DecisionStatus | None:
    """Send decisions as one signal, and, if it is to be confirmed, wait for what becomes of them.

    Raises:
        CallerError: there are none, or they are too large.
        DecisionRefused: the run has ended; or they changed nothing, if it is to be confirmed. `AlreadyDecided` if a
            call was decided before.
        OtherTenant: the thread belongs to another tenant than the decider.
        NoAnswer: no worker has handled the signal in time; only if it is to be confirmed.
    """
    if not decisions:
        raise CallerError("there is no decision to send")
    check_type("decisions", decisions, Sequence, "a list of Decision(…)")
    for each in decisions:
        check_type("a decision", each, Decision, "a Decision(…)")
    named = tuple(map(_completed, decisions))
    with rejecting_invalid():
        batch = Decisions(decisions=named, tenant=tenant, run_id=run_id)
    signal = named[0] if len(named) == 1 and tenant is None and run_id is None else batch
    size = len(signal.model_dump_json().encode(errors="surrogatepass"))
    if size > SIGNAL_LIMIT:
        raise CallerError(f"the decision has {size:,} bytes, but the limit is {SIGNAL_LIMIT:,}: shorten it")
    if tenant is not None:
        check_tenant(await describe(reader.temporal, thread_id), tenant, sent="decision")
    try:
        await reader.temporal.get_workflow_handle(thread_id).signal(names.SIGNAL_DECIDE, signal)
    except RPCError as error:
        if is_run_ended(error):
            targets = [each.target for each in named]
            raise await refusal_after_end(reader, thread_id, targets, tenant=tenant) from error
        raise error_of(error, thread_id) from error
    return await confirm(reader, thread_id, named) if is_confirmed else None


def _completed(decision: Decision) -> Decision:
    """With an id, and with the channel by which it comes."""
    id, channel = decision.decision_id or uuid.uuid4().hex, decision.channel or DecisionChannel.CLIENT
    return decision.undated.model_copy(update={"decision_id": id, "channel": channel})


def pending_of(view: StatusView | PendingView) -> tuple[PendingDecision, ...]:
    """The decisions that a run with this status, or with this memo, waits for."""
    now = int(time() * 1000)
    cut = view.cut if isinstance(view, PendingView) else ()
    is_read = isinstance(view, StatusView)  # a memo does not say which calls a gate has suspended
    return tuple(
        _entry(view.identity, call, call.ticket, now, cut=call.call_id in cut, is_read=is_read).model_copy(
            update={"sent": view.settled_by(call) if isinstance(view, StatusView) else None}
        )
        for call in view.calls
        if call.ticket is not None
    )


def not_sent(pending: Iterable[PendingDecision]) -> tuple[PendingDecision, ...]:
    """Those that nothing settles which waits for a worker: a person can be asked for them."""
    return tuple(each for each in pending if each.sent is None)


async def _list_waiting(temporal: TemporalClient, thread_id: str | None) -> list[WorkflowExecution]:
    tree = ""
    if thread_id is not None:
        described = await temporal.get_workflow_handle(thread_id).describe()
        tree = f" AND {in_tree(thread_id, described.root_id)}"
    try:
        return [each async for each in temporal.list_workflows(_WAITING + tree) if _may_wait(each)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return [execution async for execution in temporal.list_workflows(OPEN_RUNS + tree)]


def _may_wait(execution: WorkflowExecution) -> bool:
    """Whether a run may wait for a decision. One that waits for its tasks has neither ids of calls nor a memo."""
    attributes, memo = execution.typed_search_attributes, execution.raw_info.memo.fields
    return attributes.get(_STATUS) is None or attributes.get(_PENDING) is not None or names.MEMO_PENDING in memo


def _is_enough(execution: WorkflowExecution, listed: PendingView | None, *, is_opened: bool) -> bool:
    """Whether the memo has what the caller needs: every call, and of a thread that is opened the whole of each."""
    if listed is None or (is_opened and listed.cut):
        return False
    shown = {call.call_id for call in listed.calls}
    return shown >= set(execution.typed_search_attributes.get(_PENDING) or ())


async def _sent(
    reader: ThreadReader, executions: Sequence[WorkflowExecution], *, is_opened: bool
) -> dict[str, tuple[Sent, ...]]:
    """What no worker has handled, by run: of a thread that is opened, and of the task queues that have a backlog.

    Else the workers handle everything at once, and an inbox of a thousand runs need not read their histories.
    """
    queues = {each.task_queue for each in executions}
    late = queues if is_opened else {name for name in queues if await _has_backlog(reader.temporal, name)}
    slots = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def read(execution: WorkflowExecution) -> tuple[Sent, ...]:
        async with slots:
            try:
                return await read_unhandled(reader.temporal, ExecutionRef(execution.id, execution.run_id))
            except Exception:  # whatever is wrong with one thread, such as its codec, it is listed with the others
                return ()

    wanted = [each for each in executions if each.task_queue in late]
    return {each.run_id: sent for each, sent in zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True)}


async def _has_backlog(temporal: TemporalClient, queue: str) -> bool:
    described = await read_queue(temporal, queue, QueueKind.WORKFLOW)
    return not isinstance(described, TaskQueue) or bool(described.backlog)


def _with_sent(entries: tuple[PendingDecision, ...], sent: tuple[Sent, ...]) -> tuple[PendingDecision, ...]:
    def settling(entry: PendingDecision) -> Sent | None:
        return next((each for each in sent if each.settles(entry.run_id, entry.call_id, entry.suspension_id)), None)

    return tuple(entry.model_copy(update={"sent": settling(entry) or entry.sent}) for entry in entries)


def _entries(
    execution: WorkflowExecution, listed: PendingView | None, read: StatusView | Unanswered | None
) -> tuple[PendingDecision, ...]:
    """What the run was read to wait for; else what its memo says, or its search attributes."""
    if isinstance(read, StatusView):
        return pending_of(read)
    if listed is not None:
        return pending_of(listed)
    return _unknown(execution, read) if read is not None else ()


def _is_in_tree(entry: PendingDecision, thread_id: str) -> bool:
    # The path of a run that cannot be read is incomplete, but its id contains its ancestors'.
    return thread_id in entry.path or (entry.unknown is not None and is_descendant(entry.thread_id, thread_id))


def _unknown(execution: WorkflowExecution, unanswered: Unanswered) -> tuple[PendingDecision, ...]:
    """What the search attributes alone say; without any, that there may be a decision."""
    attributes = execution.typed_search_attributes
    known = (execution.root_id, execution.parent_id, execution.id)
    return tuple(
        PendingDecision(
            ticket=ticket_id(execution.id, call_id),
            thread_id=execution.id,
            agent_id=attributes.get(_AGENT) or "",
            tenant=attributes.get(_TENANT),
            path=tuple(dict.fromkeys(thread for thread in known if thread)),
            call_id=call_id,
            unknown=unanswered.reason,
            undecodable=unanswered.undecodable,
        )
        for call_id in attributes.get(_PENDING) or [""]
    )


def _entry(
    identity: RunIdentity, call: ToolCallView, ticket: SuspensionTicket, now: int, *, cut: bool, is_read: bool
) -> PendingDecision:
    suspension = ticket.suspension
    return PendingDecision(
        ticket=ticket_id(identity.thread_id, call.call_id),
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        agent_id=identity.agent_id,
        tenant=identity.tenant,
        user=identity.user,
        path=(*identity.path, identity.thread_id),
        call_id=call.call_id,
        suspension_id=suspension.id,
        tool_name=call.tool_name,
        arguments=ticket.pending.arguments,
        arguments_digest=ticket.arguments_digest,
        message=suspension.message,
        action=suspension.action,
        since=call.since,
        age=None if call.since is None else max(0.0, (now - call.since) / 1000),
        expires_at=ticket.expires_at,
        resume_mode=ticket.resume_mode,
        remember=ticket.remember,
        response_schema=suspension.response_schema,
        cut=cut,
        is_question=is_read and ticket.is_question(gated=call.gated),
    )
