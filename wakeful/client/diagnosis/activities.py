"""A pending activity: queued, running, backing off, paused, being cancelled, or without a live worker."""

from wakeful.client.diagnosis import model_calls, remote_calls
from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Activity, ActivityState, Evidence, QueueKind, TaskQueue
from wakeful.client.diagnosis.model_calls import ModelCall
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clause,
    clock,
    code,
    counted,
    duration,
    lasting,
    one_line,
    seconds,
    since_then,
    start_worker,
    temporal,
    times,
    until,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.missing import Missing
from wakeful.contract.views import CALLING

LATE_SECONDS = 5.0
"""Our workers heartbeat every second: one without a heartbeat for this long is lost, or its event loop is blocked."""
NEW_SECONDS = 5.0
"""A task that was queued more recently is not late."""
OTHERS_LATE = 0.9
"""Of the heartbeat timeout: a worker on another task queue may not be ours, and may heartbeat less often."""


def finding(evidence: Evidence, activity: Activity, *, step: str, now: int) -> Finding:
    """What this pending activity means for its run."""
    match activity.state:
        case ActivityState.PAUSED:
            return _paused(evidence, activity, step, now)
        case ActivityState.CANCELLING:
            return _lost(evidence, activity, step, now) or _cancelling(evidence, activity, step, now)
        case ActivityState.STARTED:
            return _lost(evidence, activity, step, now) or _running(evidence, activity, step, now)
        case ActivityState.SCHEDULED if activity.missing is not None and evidence.has_pollers(activity, now):
            return _missing(evidence, activity, activity.missing, step, now)
        case ActivityState.SCHEDULED if activity.next_attempt_at is not None and activity.next_attempt_at > now:
            return _backing_off(evidence, activity, step, now)
        case ActivityState.SCHEDULED:
            return _queued(evidence, activity, step, now)


def _paused(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    pause = activity.pause
    at = pause.at if pause else None
    by = f" by {pause.by}" if pause and pause.by else ""
    reason = f", with the reason {one_line(pause.reason)!r}" if pause and pause.reason else ""
    unpause = temporal(
        *("activity", "unpause", "--workflow-id", evidence.thread_id, "--activity-id", activity.id),
    )
    return Finding(
        Cause.PAUSED,
        f"{step}has been blocked{lasting(at, now)}: {_name(activity)} is paused",
        f"It was paused in Temporal{by}{reason}, at attempt {activity.attempt}, and stays paused until you unpause it.",
        f"Unpause it: {code(unpause)}.",
        at,
        (unpause,),
    )


def _cancelling(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    cancel = evidence.cancel
    since = cancel.at if cancel else None
    by = f" by {cancel.by}" if cancel and cancel.by else ""
    terminate = temporal("workflow", "terminate", "--workflow-id", evidence.thread_id)
    return Finding(
        Cause.STOPPING,
        f"{step}is being cancelled{by}, and has waited{lasting(since, now)} for {_name(activity)} to stop",
        f"{capital(_name(activity))} has been running{lasting(activity.started_at, now)} and has received the "
        f"cancellation. {_deadline(activity, now)}",
        f"Wait; if it never stops, {code(terminate)} ends the run without it.",
        since,
        (terminate,),
    )


def _lost(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding | None:
    """None if its worker heartbeats, as far as it has to."""
    alive_at, timeout = activity.alive_at, activity.heartbeat_timeout
    if alive_at is None or not timeout:
        return None
    is_ours = activity.queue == evidence.queue or activity.calls_model
    late = min(LATE_SECONDS, timeout / 2) if is_ours else timeout * OTHERS_LATE
    if now - alive_at <= late * 1000:
        return None
    at = alive_at + int(timeout * 1000)
    then = "and then retries it" if activity.may_repeat else "and then fails the call, which may not run twice"
    why = (
        f"Its worker, {activity.worker or 'of an unknown identity'}, has died, or something blocks its event loop. "
        f"Temporal detects that {until(at, now)}, after the heartbeat timeout of {seconds(timeout)}, {then}."
    )
    cancel = wakeful("cancel", evidence.thread_id)
    queue = evidence.task_queue(activity.queue, QueueKind.ACTIVITY)
    others = [poller for poller in queue.live_pollers(now) if poller.identity != activity.worker] if queue else []
    worker = _worker_for(evidence, activity)
    next = f"Wait for that; {code(cancel)} cancels the run."
    if not others:
        next = f"No other worker polls task queue {activity.queue!r}: start one ({code(worker)})."
    doing = f"{step}waits for {_name(activity)}, whose worker has not heartbeated{lasting(alive_at, now)}"
    return Finding(Cause.WORKER_LOST, doing, why, next, alive_at, (cancel,) if others else (worker,))


def _running(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    if activity.is_remote_call:
        return remote_calls.in_progress(activity, evidence.thread_id, step=step, now=now)
    if activity.is_model_call:
        return model_calls.in_progress(_model_call(evidence, activity, step, now))
    cancel = wakeful("cancel", evidence.thread_id)
    if activity.is_own:
        doing = f"{step}has been running {_name(activity)}{lasting(activity.started_at, now)}"
        why = f"It runs on worker {activity.worker}, as attempt {activity.attempt}."
        next = f"Wait; {code(cancel)} cancels the run."
        return Finding(Cause.WORKING, doing, why, next, activity.started_at, (cancel,))
    arguments = f" with {one_line(activity.summary)}" if activity.summary else ""
    attempt = f" This is attempt {activity.attempt}." if activity.attempt > 1 else ""
    why = (
        f"It runs on worker {activity.worker}{arguments}, and {_progress(activity)}. "
        f"{_deadline(activity, now)}{attempt}"
    )
    next = f"Wait, or check what {activity.type} itself waits for; {code(cancel)} cancels it and the run."
    doing = f"{step}waits for {_name(activity)}, which has been running{lasting(activity.started_at, now)}"
    return Finding(Cause.TOOL_RUNNING, doing, why, next, activity.started_at, (cancel,))


def _backing_off(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    failure = activity.failure
    if activity.is_remote_call:
        describe = remote_calls.in_progress if failure is None else remote_calls.failing
        return describe(activity, evidence.thread_id, step=step, now=now)
    if activity.is_model_call and failure is not None:
        return model_calls.backing_off(_model_call(evidence, activity, step, now), failure)
    since = activity.first_scheduled_at
    failed = f"The last failure: {clause(failure.message)}. " if failure else ""
    limit = f" of at most {activity.max_attempts}" if activity.max_attempts else ""
    cancel = wakeful("cancel", evidence.thread_id)
    due = until(activity.next_attempt_at, now) if activity.next_attempt_at is not None else "now"
    return Finding(
        Cause.RETRYING,
        f"{step}waits for {_name(activity)}, which has failed {times(activity.attempt - 1)}{since_then(since, now)}",
        f"{failed}Temporal retries it {due}, as attempt {activity.attempt}{limit}.",
        f"Wait, or fix the cause of the failure; {code(cancel)} cancels the run.",
        since,
        (cancel,),
    )


def _missing(evidence: Evidence, activity: Activity, missing: Missing, step: str, now: int) -> Finding:
    """The workers that were tried do not have what it needs."""
    known = f", which knows {', '.join(missing.known)}" if missing.known else ""
    worker = _worker_for(evidence, activity)
    cancel = wakeful("cancel", evidence.thread_id)
    since = missing.missing_since
    if missing.reason:
        return Finding(
            Cause.MISSING,
            f"{step}has been waiting{lasting(since, now)} for {missing.what}",
            f"Worker {activity.worker or missing.worker} cannot reach it: {clause(missing.reason)}. Temporal tries it "
            f"again every few seconds, on any worker, until the patience is over {until(missing.retried_until, now)}.",
            f"Start the server, or correct its settings in the registry; {code(cancel)} cancels the run.",
            since,
            (cancel,),
        )
    return Finding(
        Cause.MISSING,
        f"{step}has been waiting{lasting(since, now)} for a worker that has {missing.what}",
        f"The last worker that was tried, {activity.worker or missing.worker}{known}, does not have it. In a rolling "
        f"deploy, another one may: Temporal tries them every few seconds, until the patience is over "
        f"{until(missing.retried_until, now)}.",
        f"If the name is right, start a worker that has it ({code(worker)}); {code(cancel)} cancels the run.",
        since,
        (worker, cancel),
    )


def _queued(evidence: Evidence, activity: Activity, step: str, now: int) -> Finding:
    """It is on its task queue, and no worker has started it."""
    queue = evidence.task_queue(activity.queue, QueueKind.ACTIVITY)
    since = activity.scheduled_at
    doing = f"{step}has been waiting for a worker to start {_name(activity)}{lasting(since, now)}"
    is_new = since is not None and now - since < NEW_SECONDS * 1000
    if queue is None:
        why = f"It is on task queue {activity.queue!r}, whose pollers could not be read."
        return Finding(Cause.UNKNOWN, doing, why, "", since)
    is_own = activity.queue == evidence.queue
    if not queue.live_pollers(now) and not is_own:
        return _no_tool_worker(evidence, queue, activity, doing, now)
    if is_new:
        return Finding(Cause.WORKING, doing, "It was queued moments ago.", "Check again in a few seconds.", since)
    if not (is_own and evidence.has_answered) and since is not None and not queue.was_polled_since(since):
        return _no_poll_since(evidence, queue, activity, doing, now)
    return _backlog(evidence, queue, activity, doing, now)


def _no_tool_worker(evidence: Evidence, queue: TaskQueue, activity: Activity, doing: str, now: int) -> Finding:
    """Its task queue is not the run's own, and no worker polls it."""
    why = (
        f"{capital(_name(activity))} runs on task queue {queue.name!r}, which no worker polls: {last_seen(queue, now)}."
        f"{_queue_deadline(activity, now)}"
    )
    worker = _worker_for(evidence, activity)
    own, done = (
        ("", "the model has answered")
        if activity.calls_model
        else (", or your own activity worker", "the tool has run")
    )
    next = (
        f"Start a worker for that task queue: {code(worker)}{own}. "
        f"Nothing is wrong with the run itself: it continues when {done}."
    )
    return Finding(Cause.NO_TOOL_WORKER, doing, why, next, activity.scheduled_at, (worker,))


def _worker_for(evidence: Evidence, activity: Activity) -> str:
    """The command that starts a worker for it."""
    is_inference = activity.calls_model and activity.queue != evidence.queue
    return start_worker(activity.queue, names.DEFAULT_TASK_QUEUE, inference=is_inference)


def _no_poll_since(evidence: Evidence, queue: TaskQueue, activity: Activity, doing: str, now: int) -> Finding:
    """Temporal still lists workers, but none has polled since it was queued.

    Of the run's own task queue, none answers for the run, either.
    """
    worker, again = _worker_for(evidence, activity), wakeful("why", evidence.thread_id)
    before = f" The attempt before it failed: {clause(activity.failure.message)}." if activity.failure else ""
    is_own = queue.name == evidence.queue
    then = ", and no worker answers queries of the run." if is_own else ". It has stopped, or all its slots are taken."
    why = f"No worker has polled for it: {last_seen(queue, now)}{then}{before}{_queue_deadline(activity, now)}"
    next = f"Check that a worker is running, start one if not ({code(worker)}), then run {code(again)} again."
    return Finding(Cause.WORKER_SILENT, doing, why, next, activity.scheduled_at, (worker, again))


def _backlog(evidence: Evidence, queue: TaskQueue, activity: Activity, doing: str, now: int) -> Finding:
    """There are workers, and it is queued nevertheless."""
    worker = _worker_for(evidence, activity)
    pollers = len(queue.live_pollers(now))
    if pollers:
        workers = f"{counted(pollers, 'worker')} {'polls' if pollers == 1 else 'poll'} task queue {queue.name!r}"
    else:
        workers = (
            f"The workers of task queue {queue.name!r} poll for no activities: all their slots are taken (or they run "
            "workflows only)"
        )
    why = f"{workers}; {backlog(queue)}.{_queue_deadline(activity, now)}"
    next = (
        f"The workers have more tasks than they can run: start more of them ({code(worker)}), raise "
        "max_concurrent_activities, or wait."
    )
    return Finding(Cause.BACKLOG, doing, why, next, activity.scheduled_at, (worker,))


def backlog(queue: TaskQueue) -> str:
    """What is queued; Temporal only estimates it."""
    if not queue.backlog:
        return "Temporal counts no backlog yet"
    oldest = f", the oldest for {duration(queue.backlog_age)}" if queue.backlog_age >= 1 else ""
    tasks = counted(queue.backlog, f"{queue.kind.value} task")
    return f"about {tasks} {'is' if queue.backlog == 1 else 'are'} queued{oldest}"


def _queue_deadline(activity: Activity, now: int) -> str:
    """When a call fails that no worker starts; empty if it can wait for any time."""
    if not activity.queue_timeout or activity.scheduled_at is None:
        return ""
    at = activity.scheduled_at + int(activity.queue_timeout * 1000)
    return f" If no worker starts it, the call fails {until(at, now)}."


def last_seen(queue: TaskQueue, now: int) -> str:
    newest = queue.newest_poller
    if newest is None:
        return "Temporal has seen no worker there in the last five minutes"
    return f"the last worker there, {newest.identity}, polled {ago(newest.at, now)}"


def _progress(activity: Activity) -> str:
    report = activity.heartbeat
    if not isinstance(report, dict) or not report:
        return "has reported no progress"
    parts = []
    if isinstance(message := report.get("message"), str):
        parts.append(repr(one_line(message)))
    if isinstance(progress := report.get("progress"), int | float):
        parts.append(f"{progress:.0%}")
    if isinstance(loaded := report.get("loaded"), int | float):
        total = report.get("total")
        parts.append(f"{loaded:g} of {total:g}" if isinstance(total, int | float) else f"{loaded:g}")
    return f"last reported {', '.join(parts) or one_line(str(report))}"


def _deadline(activity: Activity, now: int) -> str:
    if not activity.timeout or activity.started_at is None:
        return "It has no timeout."
    at = activity.started_at + int(activity.timeout * 1000)
    left = duration(max(0, at - now) / 1000)
    return f"It has {left} left of its timeout of {seconds(activity.timeout)} ({clock(at, now)})."


def _model_call(evidence: Evidence, activity: Activity, step: str, now: int) -> ModelCall:
    return ModelCall(activity, evidence.thread_id, _model(evidence, activity), step, now)


def _model(evidence: Evidence, activity: Activity) -> str:
    """The model that is called first: from the run's status, or from the activity's summary."""
    doing = evidence.view.doing if evidence.view else ""
    verb, _, model = doing.partition(" ")
    if verb == CALLING:
        return model
    return activity.summary.partition(" · ")[2]


OWN = {
    names.ACTIVITY_RESOLVE_AGENT: "the lookup of its agent",
    names.ACTIVITY_DESCRIBE_WORKER: "the description of its worker",
    names.ACTIVITY_INFER: "its model call",
    names.ACTIVITY_CALL_REMOTE: "the call of its remote agent",
    names.ACTIVITY_CANCEL_REMOTE: "the cancel of its remote task",
    names.ACTIVITY_RESTORE: "the restore of its earlier conversation",
    names.ACTIVITY_ARCHIVE: "the archiving of its older messages and events",
    names.ACTIVITY_COMPACT: "the summary of its oldest messages",
    names.ACTIVITY_DELIVER: "the delivery of a message",
    names.ACTIVITY_HOOKS: "the hooks of its plugins",
    names.ACTIVITY_FIND_STOPPING: "the check that no thread above it is being cancelled",
}


def _name(activity: Activity) -> str:
    return OWN.get(activity.type, f"tool {activity.type}")
