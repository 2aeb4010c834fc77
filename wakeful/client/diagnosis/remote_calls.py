"""A call of a remote agent: its task is at work, or its service fails."""

from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Activity, ActivityState
from wakeful.client.diagnosis.wording import clause, code, counted, lasting, since_then, times, until, wakeful
from wakeful.contract.errors import OUTAGE_NOTE
from wakeful.contract.remote import RemoteProgress


def in_progress(activity: Activity, thread_id: str, *, step: str, now: int) -> Finding:
    """The service works, or is being asked; it has not failed."""
    agent, cancel = _agent(activity), wakeful("cancel", thread_id)
    next = f"Wait, or check at the service; {code(cancel)} cancels the run, and its task there."
    progress = activity.remote
    if progress is None or progress.task_id is None:
        since = activity.started_at or activity.first_scheduled_at
        service = f" of {progress.service}" if progress else ""
        doing = f"{step}has been sending its message to {agent}{lasting(since, now)}"
        return Finding(Cause.REMOTE_WORKING, doing, f"The service{service} has no task for it yet.", next, since)
    state = progress.state.value if progress.state else "in an unknown state"
    doing = f"{step}waits for {agent}, whose task has been {state}{lasting(progress.state_since, now)}"
    why = f"{_task(progress)}{_polls(activity, progress, now)}"
    return Finding(Cause.REMOTE_WORKING, doing, why, next, progress.state_since, (cancel,))


def failing(activity: Activity, thread_id: str, *, step: str, now: int) -> Finding:
    """The last request to the service failed, and Temporal retries it."""
    outage, failure = activity.outage, activity.failure
    since = outage.since if outage else activity.first_scheduled_at
    failures = (outage.failures if outage else 0) or activity.attempt - 1
    message = failure.message.partition(OUTAGE_NOTE)[0] if failure else "its worker was lost"
    doing = f"{step}calls {_agent(activity)}, which has failed {times(failures)}{since_then(since, now)}"
    task = f" {_task(activity.remote)}" if activity.remote and activity.remote.task_id else " It has no task yet."
    due = until(activity.next_attempt_at, now) if activity.next_attempt_at is not None else "now"
    patience = f", and so on until its agent's patience is over {until(outage.until, now)}" if outage else ""
    why = f"The last failure: {clause(message)}. Temporal retries it {due}{patience}.{task}"
    cancel = wakeful("cancel", thread_id)
    next = f"Check that the service is up and that the worker can reach it; {code(cancel)} cancels the run."
    return Finding(Cause.RETRYING, doing, why, next, since, (cancel,))


def _agent(activity: Activity) -> str:
    named = activity.summary.partition(" · ")[2]
    return f"remote agent {named}" if named else "its remote agent"


def _task(progress: RemoteProgress) -> str:
    return f"Its task is {progress.task_id} at {progress.service}."


def _polls(activity: Activity, progress: RemoteProgress, now: int) -> str:
    if activity.state is not ActivityState.SCHEDULED or activity.next_attempt_at is None:
        return f" A worker, {activity.worker}, follows it."
    asked = (
        f" A worker has asked for it {counted(progress.polls, 'time')}" if progress.polls else " A worker has begun it"
    )
    return f"{asked}, and asks again {until(activity.next_attempt_at, now)}: no worker is busy with it meanwhile."
