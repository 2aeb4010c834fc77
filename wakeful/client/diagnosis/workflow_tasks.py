"""A run's next turn, its workflow task: is there a worker to take it, does it come through, or is there none due?"""

from wakeful.client.diagnosis.activities import PATIENT_SECONDS, backlog, last_seen
from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Evidence, Failure, Queue, QueueKind
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    code,
    counted,
    duration,
    lasting,
    listed,
    said,
    since_then,
    start_worker,
    temporal,
    times,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.ids import ticket_id

STALE_SECONDS = 60.0
"""A run that is at work has events; one that says so and has none for this long is not understood."""
NONDETERMINISM = "TMPRL1100"
"""How Temporal's SDKs number it."""


def unattended(evidence: Evidence, now: int) -> Finding | None:
    """Nobody polls the task queue of the run, or nobody of its version does. None if somebody does or may."""
    queue = evidence.polled(evidence.queue, QueueKind.WORKFLOW)
    if evidence.has_answered or queue is None:
        return None
    live = queue.live(now)
    if not live:
        return _no_worker(evidence, queue, now)
    wanted = (evidence.pinned,) if evidence.pinned else queue.versions or ("",)
    if all(poller.version not in wanted for poller in live):
        return _wrong_version(evidence, wanted, sorted({poller.version for poller in live}), now)
    return None


def _no_worker(evidence: Evidence, queue: Queue, now: int) -> Finding:
    since = evidence.task.since if evidence.task else None
    newest = queue.newest
    worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    due = " Its next turn has been due" + lasting(since, now) + "." if since is not None else ""
    why = f"Nobody polls task queue {queue.name!r}: {last_seen(queue, now)}.{due}"
    next = f"Start one: {code(worker)}. Nothing is lost, and the run goes on where it stands."
    commands = [worker]
    if evidence.calls:
        tickets = [ticket_id(evidence.thread_id, call) for call in evidence.calls]
        approve = wakeful("approve", *tickets)
        next += f" It also waits for a decision ({code(approve)}), which may be given already: Temporal keeps it."
        commands.append(approve)
    began = since if since is not None else newest.at if newest else None
    doing = f"has been waiting for a worker{lasting(began, now)}" if evidence.task else "is without a worker"
    return Finding(Cause.NO_WORKER, doing, why, next, began, tuple(commands))


def _wrong_version(evidence: Evidence, wanted: tuple[str, ...], polling: list[str], now: int) -> Finding:
    since = evidence.task.since if evidence.task else None
    for_whom = "workers without a version" if wanted == ("",) else f"workers of version {listed(list(wanted))}"
    there = listed([version or "no version" for version in polling])
    bound = " It is pinned to that version." if evidence.pinned else ""
    why = f"Its turns go to {for_whom}, and those that poll task queue {evidence.queue!r} are of {there}.{bound}"
    commands: tuple[str, ...] = ()
    next = f"Start a worker of version {evidence.pinned} again, and keep it for as long as runs are pinned to it."
    versioned = [version for version in polling if version]
    if evidence.pinned is None and versioned:
        deployment, _, build = versioned[-1].rpartition(".")
        current = temporal(
            *("worker", "deployment", "set-current-version", "--deployment-name", deployment, "--build-id", build),
        )
        next, commands = f"Make the new version the current one: {code(current)}.", (current,)
    elif evidence.pinned is None:
        next = f"Start a worker of {listed(list(wanted))}, or let the deployment's current version be another."
    doing = f"has been waiting for a worker of the right version{lasting(since, now)}"
    return Finding(Cause.WRONG_VERSION, doing, why, next, since, commands)


def failing(evidence: Evidence, now: int) -> Finding | None:
    """Its turn was taken, and failed, and fails again; or the next one would. None if it does not."""
    failure, task = evidence.task_failure, evidence.task
    if failure is not None and task is not None and task.attempt > 1:
        doing = f"cannot take its next turn: that has failed {times(task.attempt - 1)}{since_then(failure.at, now)}"
    elif evidence.silence is not None and _is_unfit(evidence.silence):
        failure = Failure(evidence.silence)
        doing = "sleeps, and could not take its next turn"
    else:
        return None
    replay = wakeful("replay", evidence.thread_id)
    if _is_unfit(f"{failure.kind} {failure.message}"):
        why = (
            f"The code of the worker does not fit the run's history: {said(failure.message)}. A worker was deployed "
            "whose workflow code differs from the code that the run began with; nothing is lost while it waits."
        )
        next = f"Deploy the code that it began with, or code that fits: {code(replay)} tells whether what is here does."
    else:
        why = f"The workflow code of the worker breaks ({failure.kind}): {said(failure.message)}."
        next = f"Deploy code that does not; {code(replay)} tries the run's history on what is installed here."
    return Finding(Cause.TASK_FAILING, doing, why, f"{next} The run then goes on by itself.", failure.at, (replay,))


def _is_unfit(message: str) -> bool:
    """Whether it is Temporal's complaint about code that does something else than history says was done."""
    return NONDETERMINISM in message or "non deterministic" in message


def waiting(evidence: Evidence, now: int) -> Finding | None:
    """Its turn is due and no worker has taken it, or the worker that did does not come back."""
    task = evidence.task
    queue = evidence.polled(evidence.queue, QueueKind.WORKFLOW)
    if evidence.has_answered or task is None or task.since is None or now - task.since < PATIENT_SECONDS * 1000:
        return None
    look = wakeful("why", evidence.thread_id)
    if task.is_started:
        doing = f"is taking a turn{lasting(task.since, now)}, and the worker that has it does not come back"
        why = (
            "It runs a local tool or a plugin's hook meanwhile, or it is gone: Temporal hands the turn to another "
            "worker after ten seconds without a sign of life."
        )
        return Finding(Cause.WORKER_SILENT, doing, why, f"Look again: {code(look)}.", task.since, (look,))
    if queue is None or not queue.backlog or not queue.polled_since(task.since):
        return None
    worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
    doing = f"has been waiting for a worker to take its next turn{lasting(task.since, now)}"
    polls = len(queue.live(now))
    why = f"{counted(polls, 'worker')} polled task queue {queue.name!r} since, where {backlog(queue)}."
    next = f"There is more to do than the workers take: start more of them ({code(worker)}), or wait."
    return Finding(Cause.BACKLOG, doing, why, next, task.since, (worker,))


def at_rest(evidence: Evidence, now: int) -> Finding:
    """Nothing is pending that anybody could name."""
    look = wakeful("why", evidence.thread_id)
    view, since = evidence.view, evidence.last_event_at
    if view is not None:
        step = f"is at step {view.steps} and " if view.steps else ""
        last = f"Its last event was {ago(since, now)}, and " if since is not None else ""
        next = f"Look again if it stays so: {code(look)}."
        if since is not None and now - since > STALE_SECONDS * 1000:
            why = f"{last}nothing that Temporal knows of is pending for it."
            return Finding(Cause.UNKNOWN, f"{step}says that it is {view.doing}", why, next, since, (look,))
        why = f"{last}nothing that it waits for is late."
        return Finding(Cause.WORKING, f"{step}gets on: it is {view.doing}", capital(why), next, since, (look,))
    if evidence.is_tool and evidence.has_answered:
        doing = f"is a background tool, and between two moments{lasting(since, now)}"
        return Finding(Cause.WORKING, doing, "Nothing of it is pending.", f"Look again: {code(look)}.", since, (look,))
    return _silent(evidence, look, now)


def _silent(evidence: Evidence, look: str, now: int) -> Finding:
    queue = evidence.polled(evidence.queue, QueueKind.WORKFLOW)
    since = evidence.last_event_at
    if not evidence.has_answered and queue is not None and (newest := queue.newest) is not None:
        worker = start_worker(queue.name, names.DEFAULT_TASK_QUEUE)
        why = (
            f"Worker {newest.identity} polled task queue {queue.name!r} {ago(newest.at, now)} and does not answer now: "
            f"it has died since, or has too much to do ({said(evidence.silence or 'it said nothing')})."
        )
        next = f"See whether it still runs, start one if not ({code(worker)}), and look again ({code(look)})."
        return Finding(Cause.WORKER_SILENT, f"gives no answer{_quiet(since, now)}", why, next, since, (look, worker))
    looked = "its description, its task queue and its newest events were looked at, and none of them tells why"
    why = f"{capital(said(evidence.silence or 'nothing is known'))}; {looked}."
    return Finding(Cause.UNKNOWN, f"is open{_quiet(since, now)}", why, f"Look again: {code(look)}.", since, (look,))


def _quiet(since: int | None, now: int) -> str:
    return "" if since is None else f", and nothing has happened on it for {duration((now - since) / 1000)}"
