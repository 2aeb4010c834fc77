"""Read what Temporal knows of a thread, and the thread's own status. It adds nothing to any history.

`diagnose` draws the conclusions. What cannot be read is noted in `unread`, and the rest is read nevertheless.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from time import time
from typing import Any

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError, WorkflowQueryFailedError
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.diagnosis import server_answers
from wakeful.client.diagnosis.causes import Diagnosis
from wakeful.client.diagnosis.diagnose import diagnose
from wakeful.client.diagnosis.evidence import Activity, ActivityState, Ended, Evidence, QueueKind, TaskQueue
from wakeful.client.diagnosis.history import RecentHistory, read_recent, read_retry_limits
from wakeful.client.queries import QUERY_TIMEOUT, ask
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.missing import Missing
from wakeful.contract.runs import RunResult
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView, WaitingFor
from wakeful.history.close_states import has_ended, read_result
from wakeful.rpc_errors import error_of
from wakeful.undecodable import check_decodable

OBSERVE_SECONDS = 2.0
"""How long a streaming answer is observed to see whether it grows."""
WORKER_TIMEOUT = timedelta(seconds=2)
"""How long a worker may take to show that it is there; the status itself is read from history."""
MAX_CONCURRENT_READS = 8
MAX_CHILDREN = 50
"""Children of one thread that are read; of more, the first ones."""
MAX_DEPTH = 16

_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


async def why(reader: ThreadReader, thread_id: str, *, now: int | None = None) -> Diagnosis:
    """What a thread does and waits for, and why.

    Args:
        now: milliseconds since 1970, instead of this machine's clock.

    Raises:
        ThreadNotFound: no workflow has this id.
        CallerError: the workflow with this id is not Wakeful's.
    """
    evidence = await EvidenceReader(reader).read(thread_id)
    return diagnose(evidence, now=int(time() * 1000) if now is None else now)


async def missing_of(temporal: Client, thread_id: str) -> Missing | None:
    """What a thread needs and the last worker that was tried does not have; None if it waits for nothing like that.

    Raises:
        ThreadNotFound: no workflow has this id.
    """
    try:
        described = await temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
    except RPCError as error:
        raise error_of(error, thread_id) from error
    for pending in described.raw_description.pending_activities:
        if (missing := (await server_answers.activity(temporal, pending)).missing) is not None:
            return missing
    return None


@dataclass(frozen=True)
class _Answer:
    """Of a worker, if it has answered: its status, or why there is none."""

    view: StatusView | None = None
    has_answered: bool = False
    no_status: str | None = None


class EvidenceReader:
    """Reads a thread and the children that it waits for, once. Each task queue is described once."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._temporal = reader.temporal
        self._queues: dict[tuple[str, QueueKind], asyncio.Task[TaskQueue | str]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._seen: set[str] = set()

    async def read(self, thread_id: str, *, depth: int = 0) -> Evidence:
        """The evidence about a thread.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        self._seen.add(thread_id)
        async with self._slots:
            evidence = await self._read(thread_id)
        if evidence.view is None or evidence.ended is not None:
            return evidence
        wanted = [child for child in _waited_for(evidence.view) if child not in self._seen]
        if depth >= MAX_DEPTH:
            return _with_unread(evidence, [f"{thread_id}: its children were not read"] if wanted else [])
        children = await asyncio.gather(*(self._child(child, depth + 1) for child in wanted[:MAX_CHILDREN]))
        left = len(wanted) - MAX_CHILDREN
        problems = [child for child in children if isinstance(child, str)]
        problems += [f"{thread_id}: {left} more of its children were not read"] if left > 0 else []
        found = tuple(child for child in children if isinstance(child, Evidence))
        return _with_unread(replace(evidence, descendants=found), problems)

    async def _child(self, thread_id: str, depth: int) -> Evidence | str:
        try:
            return await self.read(thread_id, depth=depth)
        except Exception as error:  # one thread of a tree must not hide what is wrong with the others
            return f"{thread_id}: {error}"

    async def _read(self, thread_id: str) -> Evidence:
        described = await self._described(thread_id)
        if described.workflow_type not in (names.WORKFLOW, names.WORKFLOW_TOOL_TASK):
            raise CallerError(f"{thread_id!r} is not a thread but a workflow of type {described.workflow_type!r}")
        if server_answers.close_status(described.status) is not None:
            answer = _Answer(await self._read_status(described))
        else:
            answer, view = await asyncio.gather(self._ask_worker(described), self._read_status(described))
            if answer.view is None:  # the query took long, and what was read before it may have changed
                answer = replace(answer, view=view)
                described = await self._described(thread_id)
        recent = await read_recent(self._temporal, thread_id, described.run_id)
        is_open = server_answers.close_status(described.status) is None
        unhandled = tuple(reversed(recent.sent)) if is_open else ()
        attributes = described.typed_search_attributes
        evidence = Evidence(
            thread_id=thread_id,
            queue=described.task_queue,
            is_tool=described.workflow_type == names.WORKFLOW_TOOL_TASK,
            view=answer.view and answer.view.model_copy(update={"unhandled": unhandled}),
            has_answered=answer.has_answered,
            no_status=answer.no_status,
            task=server_answers.workflow_task(described.raw_description),
            task_failure=recent.task_failure,
            pinned=server_answers.pinned(described.raw_description),
            pending_calls=tuple(attributes.get(_PENDING) or ()),
            unhandled=unhandled,
            cancel=recent.cancel,
            last_failure=recent.last_failure,
            last_event_at=recent.last_event_at,
            reset_at=recent.reset_at,
            unread=recent.unread,
        )
        if server_answers.close_status(described.status) is not None:
            return replace(evidence, task=None, ended=await self._ended(described, recent), pending_calls=())
        return await self._with_activities(evidence, described, recent)

    async def _described(self, thread_id: str) -> WorkflowExecutionDescription:
        try:
            described = await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            raise error_of(error, thread_id) from error
        check_decodable(self._temporal.data_converter, described)
        return described

    async def _with_activities(
        self, evidence: Evidence, described: WorkflowExecutionDescription, recent: RecentHistory
    ) -> Evidence:
        """With its pending activities, and the task queues of them and of the run."""
        activities = await self._activities(described, recent)
        wanted = {(evidence.queue, QueueKind.WORKFLOW), (evidence.queue, QueueKind.ACTIVITY)}
        wanted |= {(activity.queue, QueueKind.ACTIVITY) for activity in activities}
        if not evidence.has_answered:
            self._queues.pop((evidence.queue, QueueKind.WORKFLOW), None)
        (queues, problems), activities = await asyncio.gather(
            self._task_queues(wanted), self._observed(evidence.thread_id, activities)
        )
        return _with_unread(replace(evidence, activities=activities, queues=queues), problems)

    async def _read_status(self, described: WorkflowExecutionDescription) -> StatusView | None:
        """The status from history, which needs no worker; None if it does not replay here, or has not started."""
        if described.workflow_type == names.WORKFLOW_TOOL_TASK:
            return None
        try:
            return await self._reader.history.query(described.id, names.QUERY_STATUS, StatusView)
        except WakefulError:
            return None

    async def _ask_worker(self, described: WorkflowExecutionDescription) -> _Answer:
        """Whether a worker answers, which Temporal does not know of one that has just started or died."""
        handle = self._temporal.get_workflow_handle(described.id)
        try:
            if described.workflow_type == names.WORKFLOW_TOOL_TASK:
                await handle.query(names.QUERY_STATUS, rpc_timeout=WORKER_TIMEOUT)
                return _Answer(has_answered=True)
            view = await ask(self._temporal, described.id, names.QUERY_STATUS, StatusView, within=WORKER_TIMEOUT)
            return _Answer(view, has_answered=True)
        except (WorkflowQueryFailedError, WakefulError) as error:
            return _Answer(has_answered=True, no_status=f"its status query failed: {error}")
        except RPCError as error:
            if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
                seconds = WORKER_TIMEOUT.total_seconds()
                return _Answer(no_status=f"no worker answered its status query within {seconds:g}s")
            return _Answer(no_status=f"its status could not be queried: {error.message}")

    async def _task_queues(
        self, wanted: Iterable[tuple[str, QueueKind]]
    ) -> tuple[dict[tuple[str, QueueKind], TaskQueue], list[str]]:
        """These task queues, and what could not be read of them."""
        for key in sorted(wanted):
            if key not in self._queues:
                self._queues[key] = asyncio.create_task(server_answers.read_queue(self._temporal, *key))
        read = {key: await self._queues[key] for key in sorted(wanted)}
        queues = {key: queue for key, queue in read.items() if isinstance(queue, TaskQueue)}
        return queues, [problem for problem in read.values() if isinstance(problem, str)]

    async def _activities(self, described: WorkflowExecutionDescription, recent: RecentHistory) -> tuple[Activity, ...]:
        activities = []
        for pending in described.raw_description.pending_activities:
            activity = await server_answers.activity(self._temporal, pending)
            scheduled = recent.scheduled.get(activity.id)
            if scheduled is not None:
                activity = replace(activity, first_scheduled_at=scheduled.at, summary=scheduled.summary)
            if activity.is_model_call and scheduled is not None and scheduled.input is not None:
                limits = await read_retry_limits(self._temporal, described.id, described.run_id, scheduled.input)
                activity = replace(activity, limits=limits)
            activities.append(activity)
        return tuple(activities)

    async def _observed(self, thread_id: str, activities: tuple[Activity, ...]) -> tuple[Activity, ...]:
        """The activities, with how a streaming answer grows while it is observed: one read cannot show that."""
        streaming = {each.id for each in activities if each.state is ActivityState.STARTED and each.checkpoint}
        if not streaming:
            return activities
        await asyncio.sleep(OBSERVE_SECONDS)
        try:
            again = await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError:
            return activities
        later = {
            pending.activity_id: await server_answers.activity(self._temporal, pending)
            for pending in again.raw_description.pending_activities
            if pending.activity_id in streaming
        }
        return tuple(_with_growth(each, later[each.id]) if each.id in later else each for each in activities)

    async def _ended(self, described: WorkflowExecutionDescription, recent: RecentHistory) -> Ended:
        status = server_answers.close_status(described.status)
        assert status is not None
        at = server_answers.datetime_millis(described.close_time) if described.close_time else None
        failure = recent.failure or recent.last_failure
        read: RunResult | ChildResult | None
        if described.workflow_type == names.WORKFLOW_TOOL_TASK:
            read = await self._tool_result(described)
        else:
            read = await read_result(self._temporal, described, within=QUERY_TIMEOUT)
        if has_ended(described):
            failure = recent.last_failure  # the workflow's own failure only repeats the result
        return Ended(status, at, read, failure, recent.ended_by, recent.ended_because)

    async def _tool_result(self, described: WorkflowExecutionDescription) -> ChildResult | None:
        handle: Any = self._temporal.get_workflow_handle(described.id, run_id=described.run_id, result_type=ChildResult)
        try:
            result = await handle.result(follow_runs=False, rpc_timeout=QUERY_TIMEOUT)
        except (WorkflowFailureError, RPCError, ValueError):
            return None
        return result if isinstance(result, ChildResult) else None


def _with_growth(before: Activity, after: Activity) -> Activity:
    """The activity as it was read later, with the growth of its answer if it is the same attempt."""
    later = replace(after, first_scheduled_at=before.first_scheduled_at, summary=before.summary, limits=before.limits)
    if after.attempt != before.attempt or after.checkpoint is None or before.checkpoint is None:
        return later
    growth = server_answers.size(after.checkpoint) - server_answers.size(before.checkpoint)
    return replace(later, growth=growth, observed_seconds=OBSERVE_SECONDS)


def _waited_for(view: StatusView) -> list[str]:
    """The children that block the run: tasks only when it has nothing else to do."""
    calls = [call.child_thread_id for call in view.calls if call.child_thread_id is not None and call.ticket is None]
    if view.waiting_for in (WaitingFor.TASKS, WaitingFor.BUDGET):
        return list(view.children)
    return calls


def _with_unread(evidence: Evidence, problems: list[str]) -> Evidence:
    return replace(evidence, unread=(*evidence.unread, *problems)) if problems else evidence
