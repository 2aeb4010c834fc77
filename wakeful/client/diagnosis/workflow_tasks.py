"""A run's workflow task: is there a worker for it, does it fail, is it queued, or is none pending?"""

from wakeful.client.diagnosis.activities import backlog, last_seen
from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Evidence, Failure, QueueKind, TaskQueue
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clause,
    clock,
    code,
    counted,
    duration,
    lasting,
    listed,
    since_then,
    start_worker,
    temporal,
    times,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.ids import ticket_id

STALE_SECONDS = 60.0
"""A run that makes progress has events: one without any for this long is not explained by its status."""
TAKEN_WITHIN_SECONDS = 10.0
"""How long a workflow task may wait: that long, Temporal keeps it for the worker that had the run in its cache."""
NONDETERMINISM = "TMPRL1100"
"""The code of that error in Temporal's SDKs."""


def without_worker(evidence: Evidence, now: int) -> Finding | None:
    """A finding if no worker of the right version polls the run's task queue; None if one does, or if unknown."""
    queue = evidence.task_queue(evidence.queue, QueueKind.WORKFLOW)
    if evidence.has_answered or queue is None:
        return None
    pollers = queue.live_pollers(now)
    if not pollers:
        return _no_worker(evidence, queue, now)
    wanted = (evidence.pinned,) if evidence.pinned else queue.versions or ("",)
    if all(poller.version not in wanted for poller in pollers):
        return _wrong_version(evidence, wanted, sorted({poller.version for poller in pollers}), now)
    return None


def _no_worker(evidence: Evidence, queue: TaskQueue, now: int) -> Finding:
    since, newest = evidence.untaken_since, queue.newest_poller
    worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    queued = f" Its next workflow task has been queued{lasting(since, now)}." if since is not None else ""
    why = f"No worker polls task queue {queue.name!r}: {last_seen(queue, now)}.{queued}"
    next = f"Start one: {code(worker)}. Nothing is lost: the run continues where it is."
    also, approve = _decisions_to_send(evidence)
    waiting_since = since if since is not None else newest.at if newest else None
    doing = f"has been waiting for a worker{lasting(waiting_since, now)}" if evidence.task else "has no worker"
    return Finding(Cause.NO_WORKER, doing, why, next + also, waiting_since, (worker, *approve))


def _decisions_to_send(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """What to do about the decisions that the run waits for, except those that what was sent already settles."""
    if not (tickets := _not_settled(evidence)):
        return "", ()
    approve = wakeful("approve", *tickets)
    return f" It also waits for a decision ({code(approve)}), which you can send now: Temporal stores it.", (approve,)


def _not_settled(evidence: Evidence) -> list[str]:
    view = evidence.view
    run_id, calls = (view.identity.run_id, view.calls) if view is not None else ("", ())
    suspensions = {call.call_id: call.ticket.suspension.id for call in calls if call.ticket is not None}
    return [
        ticket_id(evidence.thread_id, call)
        for call in evidence.pending_calls
        if evidence.cancelled_with is None
        and not any(sent.settles(run_id, call, suspensions.get(call)) for sent in evidence.unhandled)
    ]


def _wrong_version(evidence: Evidence, wanted: tuple[str, ...], polling: list[str], now: int) -> Finding:
    since = evidence.task.since if evidence.task else None
    workers = "workers without a version" if wanted == ("",) else f"workers of version {listed(list(wanted))}"
    others = (
        f"those that poll task queue {evidence.queue!r} are of {listed([each or 'no version' for each in polling])}"
    )
    pinned = " It is pinned to that version." if evidence.pinned else ""
    why = f"Its workflow tasks go to {workers}, but {others}.{pinned}"
    commands: tuple[str, ...] = ()
    next = f"Start a worker of version {evidence.pinned} again, and keep it running while runs are pinned to it."
    versioned = [version for version in polling if version]
    if evidence.pinned is None and versioned:
        deployment, _, build = versioned[-1].rpartition(".")
        current = temporal(
            *("worker", "deployment", "set-current-version", "--deployment-name", deployment, "--build-id", build),
        )
        next, commands = f"Make the new version the current one: {code(current)}.", (current,)
    elif evidence.pinned is None:
        next = f"Start a worker of {listed(list(wanted))}, or make another version the deployment's current one."
    doing = f"has been waiting for a worker of the right version{lasting(since, now)}"
    return Finding(Cause.WRONG_VERSION, doing, why, next, since, commands)


def failing(evidence: Evidence, now: int) -> Finding | None:
    """Its workflow task fails repeatedly, or the next one would. None if neither is the case."""
    failure, task = evidence.task_failure, evidence.task
    if failure is not None and task is not None and task.attempt > 1:
        failed = f"{times(task.attempt - 1)}{since_then(failure.at, now)}"
        doing = f"cannot complete its next workflow task, which has failed {failed}"
    elif evidence.no_status is not None and _is_nondeterminism(evidence.no_status):
        failure = Failure(evidence.no_status)
        doing = "is asleep, and its next workflow task would fail"
    else:
        return None
    replay = wakeful("replay", evidence.thread_id)
    if _is_nondeterminism(f"{failure.kind} {failure.message}"):
        why = (
            f"The worker's workflow code does not match the run's history: {clause(failure.message)}. A worker was "
            "deployed whose workflow code differs from the code that the run started with; nothing is lost meanwhile."
        )
        next = (
            f"Deploy the code that it started with, or code that replays: {code(replay)} checks what is installed here."
        )
    else:
        why = f"The worker's workflow code raises an error ({failure.kind}): {clause(failure.message)}."
        next = f"Deploy a fix; {code(replay)} replays the run's history on what is installed here."
    next += " Temporal retries the workflow task, so the run then continues by itself."
    return Finding(Cause.TASK_FAILING, doing, why, next, failure.at, (replay,))


def _is_nondeterminism(message: str) -> bool:
    return NONDETERMINISM in message or "non deterministic" in message


def not_taken(evidence: Evidence, now: int) -> Finding | None:
    """Its workflow task is late, and no worker has polled since: one that waited for work would have been given it.

    Nothing else that is pending matters then, as if no worker were there; of a quiet task queue, Temporal shows for 75
    seconds that one was.
    """
    since, queue = _late_since(evidence, now), evidence.task_queue(evidence.queue, QueueKind.WORKFLOW)
    if since is None or queue is None or queue.was_polled_since(since):
        return None
    again, worker = wakeful("why", evidence.thread_id), start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    why = (
        f"No worker has polled task queue {queue.name!r} since {clock(since, now)}: {last_seen(queue, now)}, and no "
        "worker answers queries of the run."
    )
    next = f"Check that a worker is running, start one if not ({code(worker)}), then run {code(again)} again."
    also, approve = _decisions_to_send(evidence)
    doing = _waits_to_be_taken(since, now)
    return Finding(Cause.WORKER_SILENT, doing, why, next + also, since, (worker, again, *approve))


def queued(evidence: Evidence, now: int) -> Finding | None:
    """Its workflow task is late: workers are busy, or the one that has started it has not completed it."""
    task, again = evidence.task, wakeful("why", evidence.thread_id)
    if task is not None and task.is_started and task.since is not None and _is_late(evidence, task.since, now):
        doing = f"has a workflow task in progress{lasting(task.since, now)}, which its worker does not complete"
        why = (
            "The worker is running a local tool or a plugin's hook, or it has died: then Temporal gives the workflow "
            "task to another worker after ten seconds."
        )
        return Finding(Cause.WORKER_SILENT, doing, why, f"Run {code(again)} again.", task.since, (again,))
    since, queue = _late_since(evidence, now), evidence.task_queue(evidence.queue, QueueKind.WORKFLOW)
    if since is None or queue is None:
        return None
    worker, pollers = start_worker(queue.name, names.DEFAULT_TASK_QUEUE), len(queue.live_pollers(now))
    why = f"Workers are busy: {counted(pollers, 'worker')} polled task queue {queue.name!r} since; {backlog(queue)}."
    next = f"The workers have more tasks than they can run: start more of them ({code(worker)}), or wait."
    return Finding(Cause.BACKLOG, _waits_to_be_taken(since, now), why, next, since, (worker,))


def _late_since(evidence: Evidence, now: int) -> int | None:
    """Since when its workflow task waits to be taken, if that is late."""
    since = evidence.untaken_since
    return since if since is not None and _is_late(evidence, since, now) else None


def _is_late(evidence: Evidence, since: int, now: int) -> bool:
    """Whether work waits for longer than a worker may take that died with the run in its cache."""
    return not evidence.has_answered and now - since >= TAKEN_WITHIN_SECONDS * 1000


def _waits_to_be_taken(since: int, now: int) -> str:
    return f"has been waiting for a worker to take its next workflow task{lasting(since, now)}"


def nothing_pending(evidence: Evidence, now: int) -> Finding:
    """Temporal shows nothing that the run waits for."""
    again = wakeful("why", evidence.thread_id)
    view, since = evidence.view, evidence.last_event_at
    if view is not None:
        step = f"is at step {view.steps} and " if view.steps else ""
        last = f"Its last event was {ago(since, now)}, and " if since is not None else ""
        next = f"If it stays so, run {code(again)} again."
        if since is not None and now - since > STALE_SECONDS * 1000:
            why = f"{last}nothing is pending for it in Temporal."
            return Finding(Cause.UNKNOWN, f"{step}reports that it is {view.doing}", why, next, since, (again,))
        why = f"{last}nothing that it waits for is late."
        return Finding(Cause.WORKING, f"{step}makes progress: it is {view.doing}", capital(why), next, since, (again,))
    if evidence.is_tool and evidence.has_answered:
        doing = f"is a background tool between two activities{lasting(since, now)}"
        next = f"Run {code(again)} again."
        return Finding(Cause.WORKING, doing, "Nothing is pending for it.", next, since, (again,))
    return _silent(evidence, again, now)


def _silent(evidence: Evidence, again: str, now: int) -> Finding:
    queue = evidence.task_queue(evidence.queue, QueueKind.WORKFLOW)
    since = evidence.last_event_at
    if not evidence.has_answered and queue is not None and (newest := queue.newest_poller) is not None:
        worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
        why = (
            f"Worker {newest.identity} polled task queue {queue.name!r} {ago(newest.at, now)} and does not answer now: "
            f"it has died since, or is overloaded ({clause(evidence.no_status or 'no answer')})."
        )
        next = f"Check whether it is running, start one if not ({code(worker)}), then run {code(again)} again."
        return Finding(Cause.WORKER_SILENT, f"does not answer{_quiet(since, now)}", why, next, since, (again, worker))
    read = "its description, its task queue and its newest events do not show the cause either"
    why = f"{capital(clause(evidence.no_status or 'its status is not known'))}; {read}."
    return Finding(Cause.UNKNOWN, f"is open{_quiet(since, now)}", why, f"Run {code(again)} again.", since, (again,))


def _quiet(since: int | None, now: int) -> str:
    return "" if since is None else f", and has had no event for {duration((now - since) / 1000)}"
