"""Which of all the things that a thread waits for is the cause: the one of the highest rank, at any depth."""

from collections.abc import Iterator
from dataclasses import replace

from wakeful.client.diagnosis import activities, endings, workflow_tasks
from wakeful.client.diagnosis.causes import Cause, Diagnosis, Finding
from wakeful.client.diagnosis.evidence import Activity, Evidence, TaskQueue
from wakeful.client.diagnosis.wording import (
    ago,
    clause,
    code,
    counted,
    duration,
    lasting,
    listed,
    one_line,
    send_continue,
    sent_texts,
    until,
    wakeful,
)
from wakeful.contract import names
from wakeful.contract.ids import ticket_id
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import ASKING_PARENT, StatusView, ToolCallView, WaitingFor


def diagnose(evidence: Evidence, *, now: int) -> Diagnosis:
    """What a thread does and waits for, and why.

    Args:
        now: milliseconds since 1970.
    """
    finding = _find_cause(evidence, now)
    return Diagnosis(
        thread_id=evidence.thread_id,
        cause=finding.cause,
        doing=f"{evidence.thread_id} {finding.doing}.",
        why=" ".join(filter(None, (finding.why, _no_more_agents(evidence), _idle_rules(evidence)))),
        next=finding.next,
        since=finding.since,
        at=now,
        commands=finding.commands,
        path=(evidence.thread_id, *finding.path) if finding.path else (),
        facts=tuple(dict.fromkeys(fact for each in evidence.walk() for fact in facts(each, now))),
        unread=tuple(dict.fromkeys(problem for each in evidence.walk() for problem in each.unread)),
    )


def _no_more_agents(evidence: Evidence) -> str:
    refusal = evidence.view.no_more_agents if evidence.view else None
    return f"Its run can start no more sub-agents: {clause(refusal)}." if refusal else ""


def _idle_rules(evidence: Evidence) -> str:
    rules = [repr(rule) for rule in evidence.view.idle_rules] if evidence.view else []
    return (
        f"No tool of its run is matched by {counted(len(rules), 'permission rule')}: {listed(rules)}." if rules else ""
    )


def _find_cause(evidence: Evidence, now: int) -> Finding:
    """The cause, with what waits in the thread's history."""
    found = _cause(evidence, now)
    if not evidence.unhandled or evidence.ended is not None:
        return found
    waiting = f"{evidence.thread_id} has not handled yet: {one_line(sent_texts(evidence.unhandled, now))}."
    return replace(found, why=f"{found.why} {waiting}")


def _cause(evidence: Evidence, now: int) -> Finding:
    if evidence.ended is not None:
        return endings.ending(evidence, evidence.ended, now=now)
    # Without a worker, nothing else that is pending matters: the run could not react to it.
    if (no_worker := workflow_tasks.without_worker(evidence, now)) is not None:
        return no_worker
    if (failing := workflow_tasks.failing(evidence, now)) is not None:
        return failing
    if (not_taken := workflow_tasks.not_taken(evidence, now)) is not None:
        return not_taken
    findings = [*_activities(evidence, now), *_from_status(evidence, now), *_descendants(evidence, now)]
    findings += [task for task in (workflow_tasks.queued(evidence, now),) if task is not None]
    if findings:
        return min(findings, key=lambda finding: finding.rank)
    return workflow_tasks.nothing_pending(evidence, now)


def _activities(evidence: Evidence, now: int) -> list[Finding]:
    """The pending activities. Compaction runs in the background, so it counts only if nothing else is pending."""
    step = _step(evidence)
    pending = [each for each in evidence.activities if each.type != names.ACTIVITY_COMPACT] or evidence.activities
    return [activities.finding(evidence, each, step=step, now=now) for each in pending]


def _from_status(evidence: Evidence, now: int) -> list[Finding]:
    """What the run's own status says that it waits for."""
    view = evidence.view
    if view is None:
        is_asking = evidence.pending_calls and evidence.task is None and evidence.cancelled_with is None
        return [_decision_by_attribute(evidence)] if is_asking else []
    found = []
    calls = view.calls if evidence.cancelled_with is None else ()
    if pending := [call for call in calls if call.ticket is not None and view.settled_by(call) is None]:
        found.append(_decisions(view, pending, now))
    if evidence.unhandled:
        found.append(_unhandled(evidence, view, now))
    if view.waiting_for is WaitingFor.BUDGET:
        found.append(_budget(evidence, view, now))
    elif view.waiting_for is WaitingFor.TASKS:
        found.append(_tasks(evidence, view, now))
    elif view.waiting_for is WaitingFor.PENDING_WORK:
        found.append(_pending_work(evidence, view, now))
    elif view.status is RunStatus.DONE and not evidence.unhandled:
        found.append(_idle(evidence, view, now))
    return found


def _unhandled(evidence: Evidence, view: StatusView, now: int) -> Finding:
    """What it was sent a moment ago; a workflow task that is late is a cause of its own."""
    since, again = evidence.unhandled[0].at, wakeful("why", evidence.thread_id)
    doing = f"is at step {view.steps} and was sent something that no worker has handled yet{lasting(since, now)}"
    why = "That takes a moment, if a worker is running."
    return Finding(Cause.WORKING, doing, why, f"Run {code(again)} again.", since, (again,))


def _decision_by_attribute(evidence: Evidence) -> Finding:
    """No worker answers, but the search attribute names calls; no workflow task is pending, so none was decided."""
    tickets = [ticket_id(evidence.thread_id, call) for call in evidence.pending_calls]
    why = (
        "Its search attribute says so; the question and its time are not known, because "
        f"{clause(evidence.no_status or 'no worker answers')}. Temporal stores your decision until a worker takes it."
    )
    return _decision("waits for a decision", tickets, None, why)


def _decisions(view: StatusView, pending: list[ToolCallView], now: int) -> Finding:
    by_age = sorted(pending, key=lambda call: call.since or 0)
    oldest = by_age[0]
    tickets = [ticket_id(view.identity.thread_id, call.call_id) for call in by_age]
    ticket = oldest.ticket
    question = one_line((ticket.suspension.message or ticket.suspension.action) if ticket else "")
    others = "" if len(pending) == 1 else f" (and on {counted(len(pending) - 1, 'other call')})"
    call = f"a decision on {oldest.tool_name}{others}"
    doing = f"is at step {view.steps} and has been waiting for {call}{lasting(oldest.since, now)}"
    why = f"A person has to answer: {question!r}."
    if ticket is not None and ticket.expires_at is not None:
        then = ticket.suspension.expiry.then.value if ticket.suspension.expiry else "cancel"
        why += f" Without an answer, the call expires {until(ticket.expires_at, now)}, which means: {then}."
    else:
        why += " It has no deadline."
    return _decision(doing, tickets, oldest.since, why)


def _decision(doing: str, tickets: list[str], since: int | None, why: str) -> Finding:
    approve, deny = wakeful("approve", *tickets), wakeful("deny", *tickets)
    next = f"{code(approve)} resumes it, {code(deny)} cancels it."
    return Finding(Cause.DECISION, doing, why, next, since, (approve, deny))


def _budget(evidence: Evidence, view: StatusView, now: int) -> Finding:
    since = evidence.last_event_at
    parent = view.identity.parent_thread_id
    limit = view.budget.model_dump(exclude_none=True) if view.budget else {}
    spent = {name: getattr(view.spent, name) for name in limit if hasattr(view.spent, name)}
    account = ", ".join(f"{spent[name]:g} of {limit[name]:g} {name.replace('_', ' ')}" for name in spent)
    has_spent = f" It has spent {account}." if account else ""
    doing = f"is at step {view.steps} and has been waiting for more budget ({view.doing}){lasting(since, now)}"
    if parent is None or not view.doing.startswith(ASKING_PARENT):
        why = f"Its background tasks hold the rest of its budget; it gets back what they do not spend.{has_spent}"
        tree = wakeful("tree", evidence.thread_id)
        return Finding(Cause.BUDGET, doing, why, f"Wait for them; {code(tree)} shows them.", since, (tree,))
    why = f"It has spent its part of its parent's budget, and has asked {parent} for more.{has_spent}"
    parent_why, cancel = wakeful("why", parent), wakeful("cancel", evidence.thread_id)
    next = (
        f"Its parent answers as soon as it can: {code(parent_why)} says what it waits for; {code(cancel)} cancels the "
        "sub-agent."
    )
    return Finding(Cause.BUDGET, doing, why, next, since, (parent_why, cancel))


def _tasks(evidence: Evidence, view: StatusView, now: int) -> Finding:
    running = [task for task in view.tasks if not task.status.is_terminal]
    named = listed([f"{task.name or task.task_id}" for task in running] or ["its tasks"])
    since = min((task.created_at_ms for task in running if task.created_at_ms), default=None)
    tree = wakeful("tree", evidence.thread_id)
    oldest = f", {'the oldest of which' if len(running) > 1 else 'which'} has run{lasting(since, now)}" if since else ""
    doing = f"waits for {counted(len(running), 'background task')} ({named}){oldest}"
    why = "Its model has nothing else to do: the run continues when they end."
    return Finding(Cause.TASKS, doing, why, f"{code(tree)} shows what each does.", since, (tree,))


def _pending_work(evidence: Evidence, view: StatusView, now: int) -> Finding:
    since = evidence.last_event_at
    doing = f"is {view.doing}, and has been waiting{lasting(since, now)}"
    why = (
        "Its model is done, but a plugin or a tool holds the run open until that work is done, and no message has come."
    )
    send, cancel = send_continue(evidence.thread_id), wakeful("cancel", evidence.thread_id)
    next = f"What does the work has to send a message, as {code(send)} does; {code(cancel)} ends the run."
    return Finding(Cause.PENDING_WORK, doing, why, next, since, (send, cancel))


def _idle(evidence: Evidence, view: StatusView, now: int) -> Finding:
    since = evidence.last_event_at
    if view.result is not None:
        return endings.last_run(evidence, view.result, now=now)
    send = send_continue(evidence.thread_id)
    return Finding(
        Cause.IDLE,
        f"is idle{lasting(since, now)}",
        "It waits for a message.",
        f"Send one: {code(send)}.",
        since,
        (send,),
    )


def _descendants(evidence: Evidence, now: int) -> list[Finding]:
    """What its children wait for, as the cause of the thread that waits for them."""
    view = evidence.view
    step = f"is at step {view.steps} and " if view else ""
    others = len(evidence.descendants) - 1
    beside = f" (and for {counted(others, 'other')})" if others else ""
    found = []
    for child in evidence.descendants:
        with_it = evidence.cancelled_with or (view.child_cancelled_by(child.thread_id) if view else None)
        inner = _find_cause(replace(child, cancelled_with=with_it), now)
        if child.ended is not None:
            inner = _unprocessed_end(evidence, inner)
        doing = f"{step}waits for {_kind(view, child)} {child.thread_id}{beside}, which {inner.doing}"
        found.append(replace(inner, doing=doing, path=(child.thread_id, *inner.path)))
    return found


def _unprocessed_end(evidence: Evidence, inner: Finding) -> Finding:
    """A child has ended, and its parent still waits for it."""
    cancel = wakeful("cancel", evidence.thread_id)
    cause = Cause.WORKING if inner.cause is Cause.ENDED else inner.cause
    why = f"{inner.why} {evidence.thread_id} has not processed that yet."
    next = f"If it does not continue by itself within a minute, {code(cancel)} cancels it."
    return replace(inner, cause=cause, why=why, next=next, commands=(cancel,))


def _kind(view: StatusView | None, child: Evidence) -> str:
    tasks = {task.thread_id for task in view.tasks} if view else set()
    if child.is_tool:
        return "background tool"
    return "background task" if child.thread_id in tasks else "its sub-agent"


def _step(evidence: Evidence) -> str:
    return f"is at step {evidence.view.steps} and " if evidence.view and evidence.view.steps else ""


def facts(evidence: Evidence, now: int) -> Iterator[str]:
    """Everything that was read, each with the thread that it is about."""
    thread = evidence.thread_id
    if evidence.ended is not None:
        at = f" {ago(evidence.ended.at, now)}" if evidence.ended.at is not None else ""
        yield f"{thread}: closed{at} as {evidence.ended.status.value}"
    elif evidence.view is not None:
        yield f"{thread}: status {evidence.view.status.value}, {evidence.view.doing}"
    if evidence.view is not None and evidence.view.no_more_agents is not None:
        yield f"{thread}: starts no more sub-agents, because {one_line(evidence.view.no_more_agents)}"
    if evidence.view is not None:
        yield from (
            f"{thread}: permission rule {rule!r} matches no tool of the run" for rule in evidence.view.idle_rules
        )
    if evidence.no_status is not None:
        yield f"{thread}: {one_line(evidence.no_status)}"
    if (task := evidence.task) is not None:
        state = "started" if task.is_started else "not started"
        since = f", scheduled {ago(task.since, now)}" if task.since is not None else ""
        yield f"{thread}: workflow task pending, attempt {task.attempt}, {state}{since}"
    if (failure := evidence.task_failure) is not None:
        yield f"{thread}: its workflow task failed ({failure.kind}): {one_line(failure.message)}"
    for activity in evidence.activities:
        yield f"{thread}: activity {_activity(activity, now)}"
    for queue in evidence.queues.values():
        yield f"task queue {_queue(queue, now)}"
    if (cancel := evidence.cancel) is not None:
        at = f" {ago(cancel.at, now)}" if cancel.at is not None else ""
        yield f"{thread}: {'closed' if cancel.is_close else 'cancelled'} by {cancel.by}{at}"
    if evidence.reset_at is not None:
        yield f"{thread}: was reset {ago(evidence.reset_at, now)}"
    if evidence.last_event_at is not None:
        yield f"{thread}: newest event {ago(evidence.last_event_at, now)}"


def _activity(activity: Activity, now: int) -> str:
    limit = f" of at most {activity.max_attempts}" if activity.max_attempts else ""
    parts = [f"{activity.id} ({activity.type}) {activity.state.value}, attempt {activity.attempt}{limit}"]
    if activity.next_attempt_at is not None:
        parts.append(f"retried {until(activity.next_attempt_at, now)}")
    if activity.started_at is not None:
        parts.append(f"started {ago(activity.started_at, now)} on {activity.worker}")
    if activity.heartbeat_at is not None:
        parts.append(f"heartbeat {ago(activity.heartbeat_at, now)}")
    if activity.failure is not None:
        parts.append(f"failed before ({activity.failure.kind}): {one_line(activity.failure.message)}")
    return ", ".join(parts)


def _queue(queue: TaskQueue, now: int) -> str:
    polls = ", ".join(f"{poller.identity} {ago(poller.at, now)}" for poller in queue.pollers) or "no worker"
    age = f" for up to {duration(queue.backlog_age)}" if queue.backlog else ""
    return f"{queue.name!r} ({queue.kind.value}): polled by {polls}; about {queue.backlog:,} queued{age}"
