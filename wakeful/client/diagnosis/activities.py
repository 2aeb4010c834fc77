"""A pending activity: queued, running, lost, backing off, paused or stopping, and what that means for its run."""

from wakeful.client.diagnosis import model_calls
from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Activity, ActivityState, Evidence, Queue, QueueKind
from wakeful.client.diagnosis.model_calls import ModelCall
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clock,
    code,
    counted,
    duration,
    lasting,
    plain,
    said,
    seconds,
    since_then,
    start_worker,
    temporal,
    times,
    until,
    wakeful,
)
from wakeful.contract import names

LATE_SECONDS = 5.0
"""Our workers give a sign of life every second: who has given none for this long is lost, or blocked."""
PATIENT_SECONDS = 5.0
"""What has been queued for less is on its way."""
OTHERS_LATE = 0.9
"""Of the heartbeat timeout: a worker of somebody else's may give signs of life more rarely."""


def finding(evidence: Evidence, activity: Activity, *, step: str, now: int) -> Finding:
    """What this activity has to say about its run."""
    match activity.state:
        case ActivityState.PAUSED:
            return _paused(evidence, activity, step, now)
        case ActivityState.STOPPING:
            return _lost(evidence, activity, step, now) or _stopping(evidence, activity, step, now)
        case ActivityState.STARTED:
            return _lost(evidence, activity, step, now) or _running(evidence, activity, step, now)
        case ActivityState.SCHEDULED if activity.next_at is not None and activity.next_at > now:
            return _backing_off(evidence, activity, step, now)
        case ActivityState.SCHEDULED:
            return _queued(evidence, activity, step, now)


def _paused(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    pause = activity.pause
    at = pause.at if pause else None
    by = f" by {pause.by}" if pause and pause.by else ""
    reason = f", saying {plain(pause.reason)!r}" if pause and pause.reason else ""
    unpause = temporal(
        *("activity", "unpause", "--workflow-id", evidence.thread_id, "--activity-id", activity.id),
    )
    return Finding(
        Cause.PAUSED,
        f"{step}has been held up{lasting(at, now)}: {_name(activity)} is paused",
        f"It was paused in Temporal{by}{reason}, at attempt {activity.attempt}, until somebody lets it go on.",
        f"{code(unpause)} does.",
        at,
        (unpause,),
    )


def _stopping(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    asked = evidence.cancel
    since = asked.at if asked else None
    by = f" by {asked.by}" if asked and asked.by else ""
    terminate = temporal("workflow", "terminate", "--workflow-id", evidence.thread_id)
    return Finding(
        Cause.STOPPING,
        f"{step}was told to stop{by} and has been waiting for {_name(activity)} to end{lasting(since, now)}",
        f"{capital(_name(activity))} has been running{lasting(activity.started_at, now)} and was told; it has "
        f"{_bound(activity, now)}to notice.",
        f"Wait; if it never ends, {code(terminate)} ends the run without it.",
        since,
        (terminate,),
    )


def _lost(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding | None:
    """None if its worker gives signs of life, as far as it would have to."""
    alive_at, bound = activity.alive_at, activity.heartbeat_timeout
    if alive_at is None or not bound:
        return None
    is_ours = activity.queue == evidence.queue
    late = min(LATE_SECONDS, bound / 2) if is_ours else bound * OTHERS_LATE
    if now - alive_at <= late * 1000:
        return None
    at = alive_at + int(bound * 1000)
    notices = f"Temporal notices {until(at, now)}, after {seconds(bound)} without one"
    again = "and then tries again" if activity.most_attempts != 1 else "and tells the run, since it may not run twice"
    why = (
        f"Its worker, {activity.worker or 'of an unknown name'}, died, or something in it blocks the event loop. "
        f"{notices}, {again}."
    )
    cancel = wakeful("cancel", evidence.thread_id)
    queue = evidence.polled(activity.queue, QueueKind.ACTIVITY)
    others = [poller for poller in queue.live(now) if poller.identity != activity.worker] if queue else []
    worker = start_worker(activity.queue, names.DEFAULT_TASK_QUEUE)
    next = f"Wait for that; {code(cancel)} stops the run."
    if not others:
        next = f"No other worker polls task queue {activity.queue!r}: see that one runs there ({code(worker)})."
    doing = f"{step}waits for {_name(activity)}, which has given no sign of life{lasting(alive_at, now)}"
    return Finding(Cause.WORKER_LOST, doing, why, next, alive_at, (cancel,) if others else (worker,))


def _running(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    if activity.is_model_call:
        return model_calls.under_way(_model_call(evidence, activity, step, now))
    cancel = wakeful("cancel", evidence.thread_id)
    if activity.is_own:
        doing = f"{step}runs {_name(activity)}{lasting(activity.started_at, now)}"
        why = f"It runs on worker {activity.worker}, attempt {activity.attempt}."
        return Finding(Cause.WORKING, doing, why, _wait(cancel), activity.started_at, (cancel,))
    asked = f" with {plain(activity.summary)}" if activity.summary else ""
    again = f" This is attempt {activity.attempt}." if activity.attempt > 1 else ""
    why = (
        f"It runs on worker {activity.worker}{asked}, and {_progress(activity)}. It has {_bound(activity, now)}"
        f"to end.{again}"
    )
    next = f"Wait, or look at what {activity.kind} waits for itself; {code(cancel)} stops it and the run."
    doing = f"{step}waits for {_name(activity)}, which has been running{lasting(activity.started_at, now)}"
    return Finding(Cause.TOOL_RUNNING, doing, why, next, activity.started_at, (cancel,))


def _backing_off(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    failure = activity.failure
    if activity.is_model_call and failure is not None:
        return model_calls.backing_off(_model_call(evidence, activity, step, now), failure)
    since = activity.first_at
    reason = f": {said(failure.message)}" if failure else ""
    of = f" of at most {activity.most_attempts}" if activity.most_attempts else ""
    cancel = wakeful("cancel", evidence.thread_id)
    due = until(activity.next_at, now) if activity.next_at is not None else "now"
    return Finding(
        Cause.RETRYING,
        f"{step}waits for {_name(activity)}, which has failed {times(activity.attempt - 1)}{since_then(since, now)}",
        f"The last time{reason}. Temporal tries again {due}, for attempt {activity.attempt}{of}.",
        f"Wait, or see to it; {code(cancel)} stops the run.",
        since,
        (cancel,),
    )


def _queued(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    """It is on its task queue, and no worker has taken it."""
    queue = evidence.polled(activity.queue, QueueKind.ACTIVITY)
    since = activity.scheduled_at
    waits = f"{step}has been waiting for a worker to take {_name(activity)}{lasting(since, now)}"
    is_new = since is not None and now - since < PATIENT_SECONDS * 1000
    if queue is None:
        why = f"It is on task queue {activity.queue!r}, and who polls that could not be read."
        return Finding(Cause.UNKNOWN, waits, why, "", since)
    if not queue.live(now) and activity.queue != evidence.queue:
        return _unpolled(queue, activity, waits, now)
    if is_new:
        return Finding(Cause.WORKING, waits, "That is a matter of moments.", "Look again in a while.", since)
    if not evidence.has_answered and since is not None and not queue.polled_since(since):
        return _deserted(evidence, queue, activity, waits, now)
    return _crowded(queue, activity, waits, now)


def _unpolled(queue: Queue, activity: Activity, waits: str, now: int) -> Finding:
    """Its task queue is not the run's own, and nobody is there."""
    seen = last_seen(queue, now)
    why = f"{capital(_name(activity))} runs on task queue {queue.name!r}, which nobody polls: {seen}."
    worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    next = (
        f"Start a worker there that has the tool: {code(worker)}, or whatever serves that queue. "
        "The run itself is fine and goes on by itself then."
    )
    return Finding(Cause.NO_TOOL_WORKER, waits, why, next, activity.scheduled_at, (worker,))


def _deserted(evidence: Evidence, queue: Queue, activity: Activity, waits: str, now: int) -> Finding:
    """Workers are listed, but none has polled since, and none answers for the run."""
    worker, look = start_worker(queue.name, names.DEFAULT_TASK_QUEUE), wakeful("why", evidence.thread_id)
    before = f" The attempt before it failed: {said(activity.failure.message)}." if activity.failure else ""
    why = f"No worker has asked for it: {last_seen(queue, now)}, and nobody answers for the run.{before}"
    next = f"See whether a worker still runs, start one if not ({code(worker)}), and look again ({code(look)})."
    return Finding(Cause.WORKER_SILENT, waits, why, next, activity.scheduled_at, (worker, look))


def _crowded(queue: Queue, activity: Activity, waits: str, now: int) -> Finding:
    """There are workers, and it waits all the same."""
    worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    polls = queue.live(now)
    if polls:
        who = f"{counted(len(polls), 'worker')} {'polls' if len(polls) == 1 else 'poll'} task queue {queue.name!r}"
    else:
        who = (
            f"The workers of task queue {queue.name!r} ask for no activities, so all their slots are taken (or they "
            "are workers for workflows alone)"
        )
    why = f"{who}, where {backlog(queue)}."
    next = (
        "There is more to do than the workers take: start more of them "
        f"({code(worker)}), raise max_concurrent_activities, or wait."
    )
    return Finding(Cause.BACKLOG, waits, why, next, activity.scheduled_at, (worker,))


def backlog(queue: Queue) -> str:
    """What waits in a queue; Temporal counts only about."""
    if not queue.backlog:
        return "Temporal counts no backlog yet"
    oldest = f", the oldest for {duration(queue.backlog_age)}" if queue.backlog_age >= 1 else ""
    waits = counted(queue.backlog, f"{queue.kind.value} task")
    return f"about {waits} {'is' if queue.backlog == 1 else 'are'} queued{oldest}"


def last_seen(queue: Queue, now: int) -> str:
    newest = queue.newest
    if newest is None:
        return "Temporal has seen no worker there in the last five minutes"
    return f"the last worker there, {newest.identity}, polled {ago(newest.at, now)}"


def _progress(activity: Activity) -> str:
    told = activity.reported
    if not isinstance(told, dict) or not told:
        return "has reported no progress"
    parts = []
    if isinstance(message := told.get("message"), str):
        parts.append(repr(plain(message)))
    if isinstance(progress := told.get("progress"), int | float):
        parts.append(f"{progress:.0%}")
    if isinstance(loaded := told.get("loaded"), int | float):
        total = told.get("total")
        parts.append(f"{loaded:g} of {total:g}" if isinstance(total, int | float) else f"{loaded:g}")
    return f"last reported {', '.join(parts) or plain(str(told))}"


def _bound(activity: Activity, now: int) -> str:
    if not activity.timeout or activity.started_at is None:
        return "no timeout "
    at = activity.started_at + int(activity.timeout * 1000)
    return f"{duration(max(0, at - now) / 1000)} left of its timeout of {seconds(activity.timeout)} ({clock(at, now)}) "


def _model_call(evidence: Evidence, activity: Activity, step: str, now: int) -> ModelCall:
    return ModelCall(activity, evidence.thread_id, _model(evidence, activity), step, now)


def _model(evidence: Evidence, activity: Activity) -> str:
    """The model that is asked first: as the run says, or as the activity's summary does."""
    doing = evidence.view.doing if evidence.view else ""
    if doing.startswith("calling "):
        return doing.removeprefix("calling ")
    return activity.summary.partition(" · ")[2]


OWN = {
    names.ACTIVITY_RESOLVE_AGENT: "the lookup of its agent",
    names.ACTIVITY_INFER: "its model call",
    names.ACTIVITY_RESTORE: "the reading of the earlier conversation",
    names.ACTIVITY_COMPACT: "the summary of the oldest messages",
    names.ACTIVITY_DELIVER: "the delivery of a message",
    names.ACTIVITY_HOOKS: "hooks of its plugins",
}


def _name(activity: Activity) -> str:
    return OWN.get(activity.kind, f"tool {activity.kind}")


def _wait(cancel: str) -> str:
    return f"Wait; {code(cancel)} stops the run."
