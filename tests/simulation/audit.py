"""What must hold for every single fact that a thread is given: checked while a history is replayed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import wakeful_workflows.agent_run as agent_run
from tests.simulation.authority import Authority
from wakeful.contract.decisions import Decision
from wakeful.contract.events import SignalRefused, TaskChanged
from wakeful.contract.gates import Suspend
from wakeful.contract.names import SIGNAL_DECIDE
from wakeful.contract.outcomes import OutcomeStatus, remembered_id
from wakeful.contract.permissions import Behavior
from wakeful.contract.requests import RunRequest
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import DecisionsReceived, Fact, InferenceReturned
from wakeful.loop.machine.stages import Cancelling, Idle
from wakeful.loop.machine.state import Advance, Thread


@dataclass
class Audit:
    """What the facts of one execution did, and what they should not have done."""

    problem: str = ""
    """The first; empty if there is none."""
    calls: dict[str, str] = field(default_factory=dict)
    """The tool and the arguments of each call that the model made, by the call's id."""
    stopped: dict[str, None] = field(default_factory=dict)
    """The children that a cancel, a close or the end of a run had to stop."""

    def note(self, thread: Thread, fact: Fact, made: Advance) -> None:
        """Take one fact into account."""
        self.problem = (
            self.problem
            or _refuses_repeat(thread, fact, made)
            or _ends_task_again(thread, made)
            or _asks_again(thread, fact)
            or _reads_for_another(thread, made)
        )
        for call in made.thread.batch.calls if made.thread.batch else ():
            self.calls.setdefault(call.call.id, f"{call.call.name} {call.call.arguments}")
        self.stopped |= dict.fromkeys(_stopping(made.thread))


@contextmanager
def auditing(audit: Audit, authority: Authority) -> Iterator[None]:
    """Note every fact that a workflow is given in this context, and how it begins."""
    begin = agent_run.begin  # type: ignore[attr-defined]  # which a mutant may have replaced

    def noting(thread: Thread, fact: Fact, *, now: int) -> Advance:
        made = advance(thread, fact, now=now)
        audit.note(thread, fact, made)
        audit.problem = authority.note(thread, fact, made) or audit.problem
        return made

    def beginning(request: RunRequest, **given: Any) -> Advance:
        made = begin(request, **given)
        authority.note(None, None, made, fork=request.fork)
        return made

    with patch.object(agent_run, "advance", noting), patch.object(agent_run, "begin", beginning):
        yield


def _refuses_repeat(thread: Thread, fact: Fact, made: Advance) -> str:
    """A decision that the run has applied is sent again, and refused."""
    if not (isinstance(fact, DecisionsReceived) and fact.decisions) or isinstance(thread.stage, Cancelling):
        return ""
    refusals = [event for event in made.events if isinstance(event, SignalRefused) and event.signal == SIGNAL_DECIDE]
    # Others that were held may be refused with the same fact.
    is_held = thread.run is not None and bool(thread.run.held)
    if not refusals or is_held or not all(_is_applied(thread, decision) for decision in fact.decisions):
        return ""
    return f"a decision that was applied is refused when it is repeated: {refusals[0].reason}"


def _is_applied(thread: Thread, decision: Decision) -> bool:
    return any(
        outcome.status is OutcomeStatus.APPLIED
        and thread.run is not None
        and outcome.run == thread.run.number
        and outcome.id == remembered_id(decision.decision_id or "")
        and remembered_id(decision.target) in outcome.calls
        for outcome in thread.outcomes
    )


def _ends_task_again(thread: Thread, made: Advance) -> str:
    """A background task that has ended ends once more."""
    ended = {task.task_id for task in thread.children.tasks if task.status.is_terminal}
    again = [event.task.task_id for event in made.events if isinstance(event, TaskChanged)]
    return next((f"task {id} has ended twice" for id in again if id in ended), "")


def _asks_again(thread: Thread, fact: Fact) -> str:
    """A tool that a decision has allowed always asks again, although no later message asks about it."""
    if not isinstance(fact, InferenceReturned):
        return ""
    again = {rule.tool for rule in thread.own_rules if rule.behavior is Behavior.ASK} - {*thread.current.always}
    allowed = {rule.tool for rule in thread.permissions if rule.behavior is Behavior.ALLOW} - again
    asked = [verdict.ticket.remember for verdict in fact.response.verdicts.values() if isinstance(verdict, Suspend)]
    return next((f"tool {tool!r} was allowed always, and asks again" for tool in asked if tool in allowed), "")


def _reads_for_another(thread: Thread, made: Advance) -> str:
    """A run reads a client's message of a user for whom it does not act."""
    run = made.thread.run
    waiting = [each for each in (*thread.steering, *thread.queued) if not each.internal and each.user is not None]
    if run is None or not waiting:
        return ""
    read = {each.id for each in made.thread.outcomes if each.status is OutcomeStatus.READ and each.run == run.number}
    user = made.thread.identity.user
    strangers = (each for each in waiting if each.user != user and remembered_id(each.message.id) in read)
    return next((f"a run for user {user!r} reads a message of user {each.user!r}" for each in strangers), "")


def _stopping(thread: Thread) -> Iterator[str]:
    """The threads of the children that this thread waits for in order to stop."""
    match thread.stage:
        case Cancelling(in_flight=stopping) | Idle(stopping=stopping):
            calls = thread.batch.running if thread.batch else ()
            yield from (call.child_thread_id for call in calls if call.id in stopping and call.child_thread_id)
            running = thread.children.running
            yield from (task.thread_id for task in running if task.task_id in stopping and task.thread_id)
        case _:
            return
