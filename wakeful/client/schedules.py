"""Run agents at set times, by Temporal's own schedules: each firing starts a thread, or sends a message to one.

A firing on a thread of its own starts `AgentRun` itself. With a thread, it starts `ScheduledMessage`, a workflow that
delivers the message as `send` does. What Temporal can do with a schedule (trigger, pause, backfill, update) it can do
with these.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Unpack

from temporalio.api.common.v1 import Memo, Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleListDescription,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.arguments import check_rules, check_thread_id, check_type, one_of, rejecting_invalid, run_fields
from wakeful.client.wake import temporal_priority
from wakeful.contract import names
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.limits import cut
from wakeful.contract.requests import TITLE_LENGTH, RunRequest, ScheduledSend, Submission, title_of
from wakeful.contract.runs import OnBusy, OnBusyName, OnError, OnErrorName, RunMode
from wakeful.contract.settings import RunOptions

FIRING_SUFFIX = "-2026-11-17T09:00:00Z"
"""What Temporal appends to the id of each firing, which is a thread's."""

_OURS = (names.WORKFLOW, names.WORKFLOW_SCHEDULED)


class ScheduleEntry(Wire):
    """A schedule, as a list shows it."""

    schedule_id: str
    agent_id: Few[str] = ""
    thread_id: Maybe[str] = None
    """The thread that each firing sends its message to; None if each starts a thread of its own."""
    next_at: Maybe[datetime] = None
    last_at: Maybe[datetime] = None
    last_thread_id: Maybe[str] = None
    """The thread that the last firing started; of a schedule with a thread, the workflow that sent the message."""
    paused: Few[bool] = False
    note: Maybe[str] = None


class Schedules:
    """Creates, lists and deletes the schedules of one namespace."""

    def __init__(self, temporal: Client, *, task_queue: str = names.DEFAULT_TASK_QUEUE) -> None:
        self._temporal = temporal
        self._task_queue = task_queue

    async def create(
        self,
        agent_id: str,
        text: str,
        *,
        spec: ScheduleSpec,
        schedule_id: str | None = None,
        thread_id: str | None = None,
        on_busy: OnBusy | OnBusyName = OnBusy.ENQUEUE,
        policy: SchedulePolicy | None = None,
        on_error: OnError | OnErrorName = OnError.FAIL,
        paused: bool = False,
        **options: Unpack[RunOptions],
    ) -> str:
        """Create a schedule, and return its id.

        Args:
            spec: Temporal's: cron expressions, calendars or intervals, a time zone, a jitter.
            schedule_id: the agent's id by default. A firing's thread has this id with the time appended.
            thread_id: send the message to this thread, as `Client.send` does, instead of starting one.
            on_busy: with `thread_id`, what happens to the message while a run is active.
            policy: Temporal's; by default, a firing is skipped while the one before still runs.
            options: the settings of each firing's run, and for whom it acts: the fields of `RunOptions`.
            on_error: with `complete`, the workflow of a firing whose run ends in an error does not fail; only without
                `thread_id`.

        Raises:
            CallerError: the schedule exists, Temporal refuses it, or a firing could not start what it says.
        """
        check_type(
            "spec", spec, ScheduleSpec, "a ScheduleSpec of temporalio.client, with cron expressions or intervals"
        )
        schedule_id = schedule_id or agent_id
        check_thread_id(thread_id or f"{schedule_id}{FIRING_SUFFIX}")
        if thread_id is not None and on_error != OnError.FAIL:
            raise CallerError("on_error is for the thread that a firing starts: leave out on_error or thread_id")
        fields = run_fields("create", options)
        with rejecting_invalid():
            request = RunRequest(
                agent_id=agent_id,
                input=text,
                on_error=one_of(OnError, "on_error", on_error),
                run_mode=RunMode.SCHEDULED,
                **fields,
            )
            submission = Submission(
                input=text,
                agent_id=agent_id,
                on_busy=one_of(OnBusy, "on_busy", on_busy),
                run_mode=RunMode.SCHEDULED,
                **fields,
            )
        check_rules(request.permissions)
        if thread_id is None:
            action = self._start(schedule_id, request)
        else:
            action = self._send(schedule_id, ScheduledSend(thread_id=thread_id, submission=submission))
        schedule = Schedule(
            action=action, spec=spec, policy=policy or SchedulePolicy(), state=ScheduleState(paused=paused)
        )
        thread = {} if thread_id is None else {names.MEMO_SCHEDULED_THREAD: _readable(thread_id)}
        memo = {names.MEMO_SCHEDULED_AGENT: _readable(agent_id)} | thread
        try:
            await self._temporal.create_schedule(schedule_id, schedule, memo=memo)
        except ScheduleAlreadyRunningError as error:
            raise CallerError(f"schedule {schedule_id!r} exists: choose another id, or delete it first") from error
        except RPCError as error:
            raise _refused(schedule_id, error) from error
        return schedule_id

    async def list(self, *, agent_id: str | None = None) -> AsyncIterator[ScheduleEntry]:
        """The schedules of all agents, or of one. Temporal lists a new one a moment after it was created."""
        try:
            async for listed in await self._temporal.list_schedules():
                entry = _entry(listed)
                if entry is not None and agent_id in (None, entry.agent_id):
                    yield entry
        except RPCError as error:
            raise WakefulError(f"Temporal does not list the schedules: {error.message}") from error

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule. What its firings have started stays.

        Raises:
            CallerError: there is no such schedule, or it starts a workflow that is not Wakeful's.
        """
        handle = self._temporal.get_schedule_handle(schedule_id)
        try:
            action = (await handle.describe()).schedule.action
            kind = action.workflow if isinstance(action, ScheduleActionStartWorkflow) else None
            if kind not in _OURS:
                raise CallerError(f"schedule {schedule_id!r} is not Wakeful's: it starts the workflow {kind!r}")
            await handle.delete()
        except RPCError as error:
            raise _refused(schedule_id, error) from error

    def _start(self, schedule_id: str, request: RunRequest) -> ScheduleActionStartWorkflow:
        return ScheduleActionStartWorkflow(
            names.WORKFLOW,
            request,
            id=schedule_id,
            task_queue=self._task_queue,
            memo={names.MEMO_TITLE: title_of(request)},
            priority=temporal_priority(request),
            static_summary=f"{request.agent_id}: {title_of(request)}",
        )

    def _send(self, schedule_id: str, input: ScheduledSend) -> ScheduleActionStartWorkflow:
        return ScheduleActionStartWorkflow(
            names.WORKFLOW_SCHEDULED,
            input,
            id=schedule_id,
            task_queue=self._task_queue,
            static_summary=cut(f"message to {input.thread_id}", TITLE_LENGTH),
        )


def _readable(text: str) -> Payload:
    """A memo that no codec encodes: lists show it, as they show search attributes."""
    return Payload(metadata={"encoding": b"binary/plain"}, data=text.encode())


def _entry(listed: ScheduleListDescription) -> ScheduleEntry | None:
    """What a list says of a schedule; None if it is not Wakeful's."""
    raw = listed.raw_entry
    if raw.info.workflow_type.name not in _OURS:
        return None
    last = listed.info.recent_actions[-1] if listed.info and listed.info.recent_actions else None
    upcoming = listed.info.next_action_times if listed.info else ()
    return ScheduleEntry(
        schedule_id=listed.id,
        agent_id=_text(raw.memo, names.MEMO_SCHEDULED_AGENT) or "",
        thread_id=_text(raw.memo, names.MEMO_SCHEDULED_THREAD),
        next_at=upcoming[0] if upcoming and not raw.info.paused else None,
        last_at=last.started_at if last else None,
        last_thread_id=getattr(last.action, "workflow_id", None) if last else None,
        paused=raw.info.paused,
        note=raw.info.notes or None,
    )


def _text(memo: Memo, name: str) -> str | None:
    return memo.fields[name].data.decode(errors="replace") if name in memo.fields else None


def _refused(schedule_id: str, error: RPCError) -> WakefulError:
    if error.status is RPCStatusCode.NOT_FOUND:
        return CallerError(f"no schedule {schedule_id!r} in this namespace")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return CallerError(f"Temporal refused schedule {schedule_id!r}: {error.message}")
    return WakefulError(f"Temporal rejected the call for schedule {schedule_id!r}: {error.message}")
