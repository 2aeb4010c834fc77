"""Which of all the things that a thread waits for is the cause: the one that outdoes the others, however deep it is."""

from collections.abc import Iterator
from dataclasses import replace

from wakeful.client.diagnosis import activities, endings, workflow_tasks
from wakeful.client.diagnosis.causes import Cause, Diagnosis, Finding
from wakeful.client.diagnosis.evidence import Activity, Evidence, Queue
from wakeful.client.diagnosis.wording import (
    ago,
    code,
    counted,
    duration,
    go_on,
    lasting,
    listed,
    plain,
    said,
    until,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.ids import ticket_id
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import StatusView, ToolCallView, WaitingFor


def diagnose(evidence: Evidence, *, now: int) -> Diagnosis:
    """What is the matter with a thread.

    Args:
        now: milliseconds since 1970.
    """
    found = _found(evidence, now)
    return Diagnosis(
        thread_id=evidence.thread_id,
        cause=found.cause,
        doing=f"{evidence.thread_id} {found.doing}.",
        why=found.why,
        next=found.next,
        since=found.since,
        at=now,
        commands=found.commands,
        path=(evidence.thread_id, *found.path) if found.path else (),
        facts=tuple(dict.fromkeys(fact for each in evidence.walk() for fact in facts(each, now))),
        unread=tuple(dict.fromkeys(problem for each in evidence.walk() for problem in each.unread)),
    )


def _found(evidence: Evidence, now: int) -> Finding:
    if evidence.ended is not None:
        return endings.ending(evidence, evidence.ended, now=now)
    # Without a worker nothing else that is pending matters: none of it would be heard of.
    if (unattended := workflow_tasks.unattended(evidence, now)) is not None:
        return unattended
    if (failing := workflow_tasks.failing(evidence, now)) is not None:
        return failing
    found = [*_activities(evidence, now), *_of_view(evidence, now), *_below(evidence, now)]
    found += [turn for turn in (workflow_tasks.waiting(evidence, now),) if turn is not None]
    if found:
        return min(found, key=lambda finding: finding.rank)
    return workflow_tasks.at_rest(evidence, now)


def _activities(evidence: Evidence, now: int) -> list[Finding]:
    """A summary is made in the background: the run waits for it only if it waits for nothing else."""
    step = _step(evidence)
    pending = [each for each in evidence.activities if each.kind != names.ACTIVITY_COMPACT] or evidence.activities
    return [activities.finding(evidence, each, step=step, now=now) for each in pending]


def _of_view(evidence: Evidence, now: int) -> list[Finding]:
    """What the run itself says that it waits for."""
    view = evidence.view
    if view is None:
        return [_unheard(evidence)] if evidence.calls and evidence.task is None else []
    found = []
    if asking := [call for call in view.calls if call.ticket is not None]:
        found.append(_decisions(view, asking, now))
    if view.waiting_for is WaitingFor.BUDGET:
        found.append(_budget(evidence, view, now))
    elif view.waiting_for is WaitingFor.TASKS:
        found.append(_tasks(evidence, view, now))
    elif view.status is RunStatus.DONE:
        found.append(_idle(evidence, view, now))
    return found


def _unheard(evidence: Evidence) -> Finding:
    """Nobody answers, but its search attribute names the calls; and no turn is due, so none has been decided."""
    tickets = [ticket_id(evidence.thread_id, call) for call in evidence.calls]
    why = (
        f"Its search attribute says so; what is asked, and since when, is not known, because "
        f"{said(evidence.silence or 'nobody answers')}. Temporal keeps the decision until a worker takes it."
    )
    return _decision("waits for a decision", tickets, None, why)


def _decisions(view: StatusView, asking: list[ToolCallView], now: int) -> Finding:
    oldest = min(asking, key=lambda call: call.since or 0)
    thread = view.identity.thread_id
    tickets = [ticket_id(thread, call.call_id) for call in sorted(asking, key=lambda call: call.since or 0)]
    ticket = oldest.ticket
    asked = plain((ticket.suspension.message or ticket.suspension.action) if ticket else "")
    others = "" if len(asking) == 1 else f" (and on {counted(len(asking) - 1, 'other call')})"
    asks = f"a decision on {oldest.tool_name}{others}"
    doing = f"is at step {view.steps} and has been waiting for {asks}{lasting(oldest.since, now)}"
    why = f"A person has to answer: {asked!r}."
    if ticket is not None and ticket.expires_at is not None:
        then = ticket.suspension.expiry.then.value if ticket.suspension.expiry else "cancel"
        why += f" If nobody does, the call expires {until(ticket.expires_at, now)}, and that means: {then}."
    else:
        why += " It has no deadline and waits for as long as it takes."
    return _decision(doing, tickets, oldest.since, why)


def _decision(doing: str, tickets: list[str], since: int | None, why: str) -> Finding:
    approve, deny = wakeful("approve", *tickets), wakeful("deny", *tickets)
    next = f"{code(approve)} lets it go on, {code(deny)} does not."
    return Finding(Cause.DECISION, doing, why, next, since, (approve, deny))


def _budget(evidence: Evidence, view: StatusView, now: int) -> Finding:
    since = evidence.last_event_at
    parent = view.identity.parent_thread_id
    limit = view.budget.model_dump(exclude_none=True) if view.budget else {}
    spent = {name: getattr(view.spent, name) for name in limit if hasattr(view.spent, name)}
    account = ", ".join(f"{spent[name]:g} of {limit[name]:g} {name.replace('_', ' ')}" for name in spent)
    told = f" It has spent {account}." if account else ""
    doing = f"is at step {view.steps} and has been waiting for more budget ({view.doing}){lasting(since, now)}"
    if parent is None or not view.doing.startswith("asking"):
        why = f"What it may spend is lent to its background tasks; what they leave comes back to it.{told}"
        tree = wakeful("tree", evidence.thread_id)
        return Finding(Cause.BUDGET, doing, why, f"Wait for them; {code(tree)} shows them.", since, (tree,))
    why = f"It was lent a part of its parent's budget, has spent that, and has asked {parent} for more.{told}"
    look, cancel = wakeful("why", parent), wakeful("cancel", evidence.thread_id)
    next = f"Its parent answers as soon as it can: {code(look)} says what keeps it; {code(cancel)} stops the sub-agent."
    return Finding(Cause.BUDGET, doing, why, next, since, (look, cancel))


def _tasks(evidence: Evidence, view: StatusView, now: int) -> Finding:
    running = [task for task in view.tasks if not task.status.is_terminal]
    named = listed([f"{task.name or task.task_id}" for task in running] or ["its tasks"])
    since = min((task.created_at_ms for task in running if task.created_at_ms), default=None)
    tree = wakeful("tree", evidence.thread_id)
    oldest = f", {'the oldest of which' if len(running) > 1 else 'which'} has run{lasting(since, now)}" if since else ""
    doing = f"is done but for {counted(len(running), 'background task')} ({named}){oldest}"
    why = "Its model has nothing more to say until they end; then it goes on by itself."
    return Finding(Cause.TASKS, doing, why, f"{code(tree)} shows what each does.", since, (tree,))


def _idle(evidence: Evidence, view: StatusView, now: int) -> Finding:
    since = evidence.last_event_at
    if view.result is not None:
        return endings.last_run(evidence, view.result, now=now)
    send = go_on(evidence.thread_id)
    return Finding(
        Cause.IDLE,
        f"is idle{lasting(since, now)}",
        "It waits for a message.",
        f"{code(send)} gives it one.",
        since,
        (send,),
    )


def _below(evidence: Evidence, now: int) -> list[Finding]:
    """What those below wait for, as the reason of the thread that waits for them."""
    view = evidence.view
    step = f"is at step {view.steps} and " if view else ""
    others = len(evidence.below) - 1
    beside = f" (and for {counted(others, 'other')} besides)" if others else ""
    found = []
    for child in evidence.below:
        inner = _found(child, now)
        if child.ended is not None:
            inner = _unheard_end(evidence, inner)
        doing = f"{step}waits for {_kind(view, child)} {child.thread_id}{beside}, which {inner.doing}"
        found.append(replace(inner, doing=doing, path=(child.thread_id, *inner.path)))
    return found


def _unheard_end(evidence: Evidence, inner: Finding) -> Finding:
    """The end of one that the thread above still waits for."""
    cancel = wakeful("cancel", evidence.thread_id)
    cause = Cause.WORKING if inner.cause is Cause.ENDED else inner.cause
    why = f"{inner.why} {evidence.thread_id} has not taken notice of that yet."
    next = f"If it does not go on by itself within a minute, {code(cancel)} stops it."
    return replace(inner, cause=cause, why=why, next=next, commands=(cancel,))


def _kind(view: StatusView | None, child: Evidence) -> str:
    tasks = {task.thread_id for task in view.tasks} if view else set()
    if child.is_tool:
        return "background tool"
    return "background task" if child.thread_id in tasks else "its sub-agent"


def _step(evidence: Evidence) -> str:
    return f"is at step {evidence.view.steps} and " if evidence.view and evidence.view.steps else ""


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
