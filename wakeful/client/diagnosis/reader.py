"""Read what Temporal knows of a thread, and what the thread says itself. Nothing of it adds to any history.

What it comes to is `wakeful.diagnosis`' business. Whatever cannot be read is noted as such, and the rest is read.
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
from wakeful.client.diagnosis.evidence import Activity, ActivityState, Ended, Evidence, Queue, QueueKind
from wakeful.client.diagnosis.history import Past, read_past, read_tries
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.runs import RunResult
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView, WaitingFor
from wakeful.rpc_errors import error_of

LOOK_SECONDS = 2.0
"""How long an answer is watched to see whether it grows."""
CANNOT_SAY = "it could not say where it stands"
SHORT_PATIENCE = timedelta(seconds=2)
AT_ONCE = 8
MOST_BELOW = 50
"""Threads below one thread that are looked at; of more, the first ones."""
DEEPEST = 16

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


async def why(temporal: Client, thread_id: str, *, now: int | None = None) -> Diagnosis:
    """What is the matter with a thread.

    Args:
        now: milliseconds since 1970, in place of this machine's clock.

    Raises:
        ThreadNotFound: no workflow has this id.
        CallerError: one has it that is none of ours.
    """
    evidence = await EvidenceReader(temporal).read(thread_id)
    return diagnose(evidence, now=int(time() * 1000) if now is None else now)


@dataclass(frozen=True)
class _Answer:
    view: StatusView | None = None
    has_answered: bool = False
    silence: str | None = None


class EvidenceReader:
    """One look at a thread and at those that it waits for. Each task queue is asked about once."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal
        self._queues: dict[tuple[str, QueueKind], asyncio.Task[Queue | str]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._seen: set[str] = set()

    async def read(self, thread_id: str, *, depth: int = 0) -> Evidence:
        """The evidence about a thread.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        self._seen.add(thread_id)
        async with self._turn:
            evidence = await self._read(thread_id)
        if evidence.view is None or evidence.ended is not None:
            return evidence
        wanted = [child for child in _waited_for(evidence.view) if child not in self._seen]
        if depth >= DEEPEST:
            return _noting(evidence, [f"{thread_id}: what runs below it was not looked at"] if wanted else [])
        below = await asyncio.gather(*(self._child(child, depth + 1) for child in wanted[:MOST_BELOW]))
        left = len(wanted) - MOST_BELOW
        problems = [child for child in below if isinstance(child, str)]
        problems += [f"{thread_id}: {left} more threads below it were not looked at"] if left > 0 else []
        found = tuple(child for child in below if isinstance(child, Evidence))
        return _noting(replace(evidence, below=found), problems)

    async def _child(self, thread_id: str, depth: int) -> Evidence | str:
        try:
            return await self.read(thread_id, depth=depth)
        except Exception as error:  # one thread of a tree must not hide what is wrong with the others
            return f"{thread_id}: {error}"

    async def _read(self, thread_id: str) -> Evidence:
        described = await self._described(thread_id)
        if described.workflow_type not in (names.WORKFLOW, names.WORKFLOW_TOOL_TASK):
            raise CallerError(
                f"{thread_id!r} is no thread of Wakeful's but a workflow of type {described.workflow_type!r}"
            )
        answer = _Answer()
        if server_answers.closing(described.status) is None:
            answer = await self._answer(described)
            if answer.view is None:  # the wait was long: what was read before it may be otherwise by now
                described = await self._described(thread_id)
        past = await read_past(self._temporal, thread_id, described.run_id)
        attributes = described.typed_search_attributes
        evidence = Evidence(
            thread_id=thread_id,
            queue=described.task_queue,
            is_tool=described.workflow_type == names.WORKFLOW_TOOL_TASK,
            agent_id=attributes.get(_AGENT) or "",
            started_at=server_answers.millis(described.start_time),
            view=answer.view,
            has_answered=answer.has_answered,
            silence=answer.silence,
            task=server_answers.task(described.raw_description),
            task_failure=past.task_failure,
            pinned=server_answers.pinned(described.raw_description),
            calls=tuple(attributes.get(_PENDING) or ()),
            cancel=past.cancel,
            last_failure=past.last_failure,
            last_event_at=past.last_event_at,
            reset_at=past.reset_at,
            unread=past.unread,
        )
        if server_answers.closing(described.status) is not None:
            return replace(evidence, task=None, ended=await self._ended(described, past), calls=())
        return await self._with_work(evidence, described, past)

    async def _described(self, thread_id: str) -> WorkflowExecutionDescription:
        try:
            return await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            raise error_of(error, thread_id) from error

    async def _with_work(self, evidence: Evidence, described: WorkflowExecutionDescription, past: Past) -> Evidence:
        """With the activities that are pending, and who polls for them and for the run."""
        activities = await self._activities(described, past)
        wanted = {(evidence.queue, QueueKind.WORKFLOW), (evidence.queue, QueueKind.ACTIVITY)}
        wanted |= {(activity.queue, QueueKind.ACTIVITY) for activity in activities}
        if not evidence.has_answered:
            self._queues.pop((evidence.queue, QueueKind.WORKFLOW), None)
        (queues, problems), activities = await asyncio.gather(
            self._polled(wanted), self._watched(evidence.thread_id, activities)
        )
        return _noting(replace(evidence, activities=activities, queues=queues), problems)

    async def _answer(self, described: WorkflowExecutionDescription) -> _Answer:
        key = (described.task_queue, QueueKind.WORKFLOW)
        queues, _ = await self._polled([key])
        # Temporal may not know yet of a worker that has just come: it is asked for all the same, but not for long.
        patience = QUERY_TIMEOUT if key not in queues or queues[key].pollers else SHORT_PATIENCE
        handle = self._temporal.get_workflow_handle(described.id)
        try:
            if described.workflow_type == names.WORKFLOW_TOOL_TASK:
                await handle.query(names.QUERY_STATUS, rpc_timeout=patience)
                return _Answer(has_answered=True)
            view: StatusView = await handle.query(names.QUERY_STATUS, result_type=StatusView, rpc_timeout=patience)
            return _Answer(view, has_answered=True)
        except WorkflowQueryFailedError as error:
            return _Answer(has_answered=True, silence=f"{CANNOT_SAY}: {error}")
        except RPCError as error:
            if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
                return _Answer(silence=f"nobody said within {patience.total_seconds():g}s where it stands")
            return _Answer(silence=f"it could not be asked where it stands: {error.message}")

    async def _polled(
        self, wanted: Iterable[tuple[str, QueueKind]]
    ) -> tuple[dict[tuple[str, QueueKind], Queue], list[str]]:
        """Who polls these queues, and what could not be read of them."""
        for key in sorted(wanted):
            if key not in self._queues:
                self._queues[key] = asyncio.create_task(server_answers.read_queue(self._temporal, *key))
        read = {key: await self._queues[key] for key in sorted(wanted)}
        queues = {key: queue for key, queue in read.items() if isinstance(queue, Queue)}
        return queues, [problem for problem in read.values() if isinstance(problem, str)]

    async def _activities(self, described: WorkflowExecutionDescription, past: Past) -> tuple[Activity, ...]:
        activities = []
        for pending in described.raw_description.pending_activities:
            activity = await server_answers.activity(self._temporal, pending)
            scheduled = past.scheduled.get(activity.id)
            if scheduled is not None:
                activity = replace(activity, first_at=scheduled.at, summary=scheduled.summary)
            if activity.is_model_call and scheduled is not None and scheduled.input is not None:
                tries = await read_tries(self._temporal, described.id, described.run_id, scheduled.input)
                activity = replace(activity, tries=tries)
            activities.append(activity)
        return tuple(activities)

    async def _watched(self, thread_id: str, activities: tuple[Activity, ...]) -> tuple[Activity, ...]:
        """The activities, with how an answer that is coming has grown meanwhile: one look cannot tell."""
        coming = {each.id for each in activities if each.state is ActivityState.STARTED and each.checkpoint}
        if not coming:
            return activities
        await asyncio.sleep(LOOK_SECONDS)
        try:
            again = await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError:
            return activities
        later = {
            pending.activity_id: await server_answers.activity(self._temporal, pending)
            for pending in again.raw_description.pending_activities
            if pending.activity_id in coming
        }
        return tuple(_grown(each, later[each.id]) if each.id in later else each for each in activities)

    async def _ended(self, described: WorkflowExecutionDescription, past: Past) -> Ended:
        closing = server_answers.closing(described.status)
        assert closing is not None
        at = server_answers.millis(described.close_time) if described.close_time else None
        kind: type[RunResult | ChildResult] = RunResult if described.workflow_type == names.WORKFLOW else ChildResult
        handle: Any = self._temporal.get_workflow_handle(described.id, run_id=described.run_id, result_type=kind)
        failure = past.failure or past.last_failure
        try:
            result = await handle.result(follow_runs=False, rpc_timeout=QUERY_TIMEOUT)
        except (WorkflowFailureError, RPCError, ValueError):
            result = None
        read = result if isinstance(result, RunResult | ChildResult) else None
        return Ended(closing, at, read, failure, past.ended_by, past.ended_because)


def _grown(before: Activity, after: Activity) -> Activity:
    """Growth between two looks at the same attempt; what the second one found is newer."""
    kept = replace(after, first_at=before.first_at, summary=before.summary, tries=before.tries)
    if after.attempt != before.attempt or after.checkpoint is None or before.checkpoint is None:
        return kept
    return replace(
        kept, grown=server_answers.size(after.checkpoint) - server_answers.size(before.checkpoint), looked=LOOK_SECONDS
    )


def _waited_for(view: StatusView) -> list[str]:
    """The threads below that hold the run up: a task only when there is nothing else to do."""
    calls = [call.child_thread_id for call in view.calls if call.child_thread_id is not None and call.ticket is None]
    if view.waiting_for in (WaitingFor.TASKS, WaitingFor.BUDGET):
        return list(view.children)
    return calls


def _noting(evidence: Evidence, problems: list[str]) -> Evidence:
    return replace(evidence, unread=(*evidence.unread, *problems)) if problems else evidence
