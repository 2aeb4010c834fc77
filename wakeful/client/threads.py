"""List threads by what Temporal's visibility has of them: search attributes and memos. `Client.threads` is the verb.

One list query finds them, whatever their number; no thread is read unless the caller wants details. Visibility lags
behind by a moment.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from pydantic import JsonValue
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.statuses import Statuses
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.runs import RunStatus, RunStatusName
from wakeful.contract.suggestions import did_you_mean
from wakeful.contract.users import parse_shown
from wakeful.contract.views import StatusView
from wakeful.history.decoder import Payloads
from wakeful.history.list_queries import any_of, quoted

PAGE = 100
"""Threads that are looked at together."""

OutcomeName = Literal["natural", "stopped", "blocked", "error", "cancelled"]
"""How a run ended."""
OUTCOMES: tuple[OutcomeName, ...] = get_args(OutcomeName)

_THREADS = f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_OUTCOME = SearchAttributeKey.for_keyword(names.ATTRIBUTE_OUTCOME)
_REASON = SearchAttributeKey.for_keyword(names.ATTRIBUTE_REASON)
_PARENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_PARENT)
_TENANT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)
_USER = SearchAttributeKey.for_keyword(names.ATTRIBUTE_USER)
_USERS = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_USERS)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


class ThreadSummary(Wire):
    """A thread as lists show it."""

    thread_id: str
    agent_id: Few[str] = ""
    title: Few[str] = ""
    """The title that it was given, or the beginning of the message that began or woke it."""
    status: Maybe[RunStatus] = None
    """Of its newest run; absent if the namespace lacks Wakeful's search attributes."""
    outcome: Maybe[str] = None
    """How the newest run ended, if it has: `natural`, `stopped`, `blocked`, `error` or `cancelled`."""
    reason: Maybe[str] = None
    """A short code that says more of the outcome."""
    tenant: Maybe[str] = None
    user: Maybe[str] = None
    """The user for whom the newest run acts."""
    users: Few[tuple[str, ...]] = ()
    """The users who have written to the thread, in the order in which they wrote first."""
    more_users: Few[bool] = False
    """There were others: more than lists show, or before a release that records them."""
    pending: Few[tuple[str, ...]] = ()
    """The ids of the calls that wait for a decision."""
    parent_thread_id: Maybe[str] = None
    closed_as: Maybe[str] = None
    """How its workflow closed, such as `completed` or `terminated`; absent while it is open."""
    started_at: int
    """When its newest execution started, in milliseconds since 1970, as is `closed_at`."""
    closed_at: Maybe[int] = None
    runs: Maybe[int] = None
    """With details: how many runs it has had."""
    metadata: Few[dict[str, JsonValue]] = {}
    """With details: of the message that began its newest run."""
    last_line: Maybe[str] = None
    """With details: the last line of its newest answer, or what its run is doing."""
    unknown: Maybe[str] = None
    """With details: why the thread cannot be read."""


@dataclass(frozen=True)
class ThreadFilter:
    """Which threads to list."""

    agent_id: str | None = None
    status: RunStatus | RunStatusName | None = None
    outcome: OutcomeName | None = None
    tenant: str | None = None
    user: str | None = None
    is_open: bool | None = None
    started_after: datetime | None = None
    started_before: datetime | None = None
    subagents: bool = False
    query: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the newest run. Temporal does not list it, so the threads that meet the other conditions are read."""

    def matches(self, summary: ThreadSummary) -> bool:
        """Whether a thread that was read has the metadata."""
        return all(key in summary.metadata and summary.metadata[key] == self.metadata[key] for key in self.metadata)

    def condition(self, *, of_newest_run: bool = False) -> str:
        """The list filter.

        Args:
            of_newest_run: of the user, only threads whose newest run acts for them; else also all that they wrote to.

        Raises:
            CallerError: a status or an outcome that no run has.
        """
        words = ((self.status, "status", tuple(RunStatus)), (self.outcome, "outcome", OUTCOMES))
        for value, word, known in words:
            if value is not None and value not in known:
                meant = did_you_mean(str(value), known)
                raise CallerError(f"no run has the {word} {str(value)!r}: use one of {', '.join(known)}{meant}")
        keywords = (
            (names.ATTRIBUTE_AGENT, self.agent_id),
            (names.ATTRIBUTE_STATUS, self.status),
            (names.ATTRIBUTE_OUTCOME, self.outcome),
            (names.ATTRIBUTE_TENANT, self.tenant),
        )
        conditions = [_THREADS, *(f"{name} = {quoted(str(value))}" for name, value in keywords if value is not None)]
        if self.user is not None:
            of_user = f"{names.ATTRIBUTE_USER} = {quoted(self.user)}"
            wrote = f"{names.ATTRIBUTE_USERS} = {quoted(self.user)}"
            conditions.append(of_user if of_newest_run else f"({wrote} OR {of_user})")
        if self.is_open is not None:
            conditions.append(f"ExecutionStatus {'=' if self.is_open else '!='} 'Running'")
        times = (">", self.started_after), ("<", self.started_before)
        conditions += [f"StartTime {sign} {quoted(written_time(at))}" for sign, at in times if at is not None]
        if not self.subagents:
            conditions.append(f"{names.ATTRIBUTE_PARENT} IS NULL")
        if self.query is not None:
            conditions.append(f"({self.query})")
        return " AND ".join(conditions)


def time_of(when: datetime | timedelta | None) -> datetime | None:
    """A point in time: the one that is given, or so long ago. A time without a zone is local."""
    if when is not None and not isinstance(when, datetime | timedelta):
        raise CallerError(f"a time should be a datetime, or a timedelta that says how long ago, not {when!r}")
    return datetime.now(UTC) - when if isinstance(when, timedelta) else when


async def list_threads(
    reader: ThreadReader, wanted: ThreadFilter, *, details: bool, limit: int | None
) -> AsyncIterator[ThreadSummary]:
    """Yield the threads in the order in which Temporal lists them: open ones first, and the newest first.

    Raises:
        CallerError: Temporal does not understand the filter.
    """
    condition, left, shown = wanted.condition(), limit, set[str]()
    try:
        if wanted.user is not None and not await _is_understood(reader.temporal, condition):
            # A namespace that only workers of an older release have served does not know who else wrote.
            condition = wanted.condition(of_newest_run=True)
        async for page in _pages(reader.temporal, condition, size=min(PAGE, limit or PAGE)):
            newest = await _newest(reader.temporal, [each for each in page if each.id not in shown])
            candidates = newest if wanted.metadata else newest[:left]
            shown |= {each.id for each in candidates}
            summaries = await _summaries(reader, candidates, details=details or bool(wanted.metadata))
            found = [summary for summary in summaries if wanted.matches(summary)][:left]
            for summary in found:
                yield summary
            if left is not None and (left := left - len(found)) <= 0:
                return
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise CallerError(
                f"Temporal does not understand the filter {condition!r}: {error.message}. If it lacks a search "
                "attribute of Wakeful, `wakeful doctor` says how to register it"
            ) from error
        raise WakefulError(f"Temporal does not list the threads: {error.message}") from error


async def _is_understood(temporal: TemporalClient, condition: str) -> bool:
    """Whether the namespace has every search attribute in a list filter."""
    try:
        await temporal.list_workflows(condition, page_size=1).fetch_next_page()
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return False
    return True


async def _pages(temporal: TemporalClient, condition: str, *, size: int) -> AsyncIterator[list[WorkflowExecution]]:
    listed = temporal.list_workflows(condition, page_size=size)
    while True:
        await listed.fetch_next_page()
        if page := [*(listed.current_page or ())]:
            yield page
        if not listed.next_page_token:
            return


async def _newest(temporal: TemporalClient, found: Sequence[WorkflowExecution]) -> list[WorkflowExecution]:
    """The executions that are the newest of their threads: a closed one may have been woken, or started over."""
    newest = {each.id: each.run_id for each in sorted(found, key=lambda each: each.start_time)}
    closed = [each.id for each in found if each.status is not WorkflowExecutionStatus.RUNNING]
    for ids in any_of("WorkflowId", sorted(set(closed))):
        others = [each async for each in temporal.list_workflows(f"{_THREADS} AND {ids}")]
        newest |= {each.id: each.run_id for each in sorted(others, key=lambda each: each.start_time)}
    return [each for each in found if newest[each.id] == each.run_id]


async def _summaries(
    reader: ThreadReader, executions: Sequence[WorkflowExecution], *, details: bool
) -> list[ThreadSummary]:
    payloads = Payloads(reader.temporal.data_converter)
    listed = [_summary(each, await _title(payloads, each)) for each in executions]
    if not details:
        return listed
    views = await Statuses(reader.temporal, reader=reader).of(executions)
    return [
        summary.model_copy(update=_details(view) if isinstance(view, StatusView) else {"unknown": view.reason})
        for summary, view in zip(listed, views, strict=True)
        if view is not None  # it was deleted meanwhile
    ]


def _summary(execution: WorkflowExecution, title: str) -> ThreadSummary:
    attributes, status = execution.typed_search_attributes, execution.status
    is_open = status is None or status is WorkflowExecutionStatus.RUNNING
    shown = attributes.get(_STATUS)
    users = parse_shown(attributes.get(_USERS) or ())
    return ThreadSummary(
        thread_id=execution.id,
        agent_id=attributes.get(_AGENT) or "",
        title=title,
        status=RunStatus(shown) if shown in tuple(RunStatus) else None,
        outcome=attributes.get(_OUTCOME),
        reason=attributes.get(_REASON),
        tenant=attributes.get(_TENANT),
        user=attributes.get(_USER),
        users=users.names,
        more_users=users.more,
        pending=tuple(attributes.get(_PENDING) or ()) if is_open else (),
        parent_thread_id=attributes.get(_PARENT),
        closed_as=None if is_open or status is None else status.name.lower(),
        started_at=_millis(execution.start_time),
        closed_at=None if execution.close_time is None else _millis(execution.close_time),
    )


async def _title(payloads: Payloads, execution: WorkflowExecution) -> str:
    payload = execution.raw_info.memo.fields.get(names.MEMO_TITLE)
    if payload is None:
        return ""
    try:
        return str(await payloads.value(RawPayloads(payloads=[payload]), str))
    except Exception:  # this client does not have its codec: the thread is listed without its title
        return ""


def _details(view: StatusView) -> dict[str, object]:
    answer = view.result.response if view.result is not None else ""
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    return {"runs": view.runs, "metadata": view.metadata, "last_line": lines[-1] if lines else view.doing}


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def written_time(at: datetime) -> str:
    """A time as list filters write it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
