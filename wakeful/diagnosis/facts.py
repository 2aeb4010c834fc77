"""What was read of a thread, a line each: the ground of a diagnosis, for whoever doubts it."""

from collections.abc import Iterator

from wakeful.diagnosis.evidence import Activity, Evidence, Queue
from wakeful.diagnosis.words import ago, duration, plain, until


def facts(evidence: Evidence, now: int) -> Iterator[str]:
    """Everything that was found, each with the thread that it is about."""
    about = evidence.thread_id
    if evidence.ended is not None:
        at = f" {ago(evidence.ended.at, now)}" if evidence.ended.at is not None else ""
        yield f"{about}: closed{at} as {evidence.ended.closing.value}"
    elif evidence.view is not None:
        yield f"{about}: answers that it is {evidence.view.doing} (status {evidence.view.status.value})"
    elif evidence.silence is not None:
        yield f"{about}: {plain(evidence.silence)}"
    if (task := evidence.task) is not None:
        state = "taken by a worker" if task.is_started else "not taken"
        since = f", due {ago(task.since, now)}" if task.since is not None else ""
        yield f"{about}: workflow task pending, attempt {task.attempt}, {state}{since}"
    if (failure := evidence.task_failure) is not None:
        yield f"{about}: its workflow task failed ({failure.kind}): {plain(failure.message)}"
    for activity in evidence.activities:
        yield f"{about}: activity {_activity(activity, now)}"
    for queue in evidence.queues.values():
        yield f"task queue {_queue(queue, now)}"
    if evidence.cancel is not None:
        at = f" {ago(evidence.cancel.at, now)}" if evidence.cancel.at is not None else ""
        yield f"{about}: {evidence.cancel.by} asked it to stop{at}"
    if evidence.reset_at is not None:
        yield f"{about}: was reset {ago(evidence.reset_at, now)}"
    if evidence.last_event_at is not None:
        yield f"{about}: newest event {ago(evidence.last_event_at, now)}"


def _activity(activity: Activity, now: int) -> str:
    of = f" of at most {activity.most_attempts}" if activity.most_attempts else ""
    parts = [f"{activity.id} ({activity.kind}) {activity.state.value}, attempt {activity.attempt}{of}"]
    if activity.next_at is not None:
        parts.append(f"tried again {until(activity.next_at, now)}")
    if activity.started_at is not None:
        parts.append(f"started {ago(activity.started_at, now)} on {activity.worker}")
    if activity.heartbeat_at is not None:
        parts.append(f"heartbeat {ago(activity.heartbeat_at, now)}")
    if activity.failure is not None:
        parts.append(f"failed before ({activity.failure.kind}): {plain(activity.failure.message)}")
    return ", ".join(parts)


def _queue(queue: Queue, now: int) -> str:
    polls = ", ".join(f"{poller.identity} {ago(poller.at, now)}" for poller in queue.pollers) or "nobody"
    waits = f"about {queue.backlog:,} waiting" + (f" for up to {duration(queue.backlog_age)}" if queue.backlog else "")
    return f"{queue.name!r} ({queue.kind.value}): polled by {polls}; {waits}"
