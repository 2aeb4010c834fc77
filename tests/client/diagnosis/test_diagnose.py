"""Which of the things that a thread waits for is the cause, and how it is said: evidence in, one diagnosis out."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.diagnoses import assert_parses
from tests.support.stand_ins import asking_call, delegate_call, view_of
from wakeful.client.diagnosis.causes import Cause, Diagnosis
from wakeful.client.diagnosis.diagnose import diagnose
from wakeful.client.diagnosis.evidence import (
    Activity,
    ActivityState,
    Asked,
    Closing,
    Ended,
    Evidence,
    Failure,
    Poller,
    Queue,
    QueueKind,
    Task,
    Tries,
)
from wakeful.client.diagnosis.wording import clock, duration
from wakeful.contract import names
from wakeful.contract.decisions import Expiry, ExpiryAction
from wakeful.contract.runs import (
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    RunResult,
    RunStatus,
    StopDetail,
    Stopped,
    ToolCallStatus,
)
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import Task as BackgroundTask
from wakeful.contract.tasks import TaskStatus, TaskType
from wakeful.contract.views import ToolCallView, WaitingFor

NOW = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
MINUTE = 60_000


def queue(kind: QueueKind, *ages: float, name: str = "q", **more: Any) -> dict[tuple[str, QueueKind], Queue]:
    """A queue whose pollers polled so many seconds ago."""
    version = more.pop("version", "")
    pollers = tuple(Poller(f"worker-{n}", NOW - int(age * 1000), version) for n, age in enumerate(ages))
    return {(name, kind): Queue(name, kind, pollers, **more)}


ATTENDED = queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 3)


def thread(**more: Any) -> Evidence:
    """A thread that answers."""
    view = more.pop("view", view_of("t", "agent", doing="calling gpt"))
    known: dict[str, Any] = {"queues": ATTENDED, "view": view, "has_answered": view is not None, **more}
    return Evidence("t", "q", **known)


def activity(kind: str = names.ACTIVITY_INFER, state: ActivityState = ActivityState.STARTED, **more: Any) -> Activity:
    known: dict[str, Any] = {
        "queue": "q",
        "started_at": None if state is ActivityState.SCHEDULED else NOW - 2_000,
        "heartbeat_at": None if state is ActivityState.SCHEDULED else NOW - 500,
        "timeout": 600,
        "heartbeat_timeout": 30,
        "worker": "worker-0",
        "scheduled_at": NOW - MINUTE,
        **more,
    }
    return Activity("a1", kind, state, **known)


def said(evidence: Evidence) -> Diagnosis:
    found = diagnose(evidence, now=NOW)
    for command in found.commands:
        assert_parses(command)
        assert f"`{command}`" in found.next
    assert "  " not in found.text
    assert ".." not in found.text
    return found


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (59.9, "59s"), (134, "2m14s"), (754, "12m"), (3600, "1h00m"), (90_000, "1d01h"), (-5, "0s")],
)
def test_a_length_of_time_is_as_fine_as_one_needs_who_waits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_clock_time_of_another_day_has_its_date() -> None:
    assert clock(NOW - MINUTE, NOW) == "07:59:00 UTC"
    assert clock(NOW - 24 * 60 * MINUTE, NOW) == "2027-01-14 08:00 UTC"


def test_a_model_that_refuses_is_said_as_a_colleague_would() -> None:
    refused = activity(
        state=ActivityState.SCHEDULED,
        attempt=7,
        first_at=NOW - 2 * MINUTE,
        next_at=NOW + 14_000,
        failure=Failure(
            "inference failed: model 'gpt' at host answered 429: 'slow down'; ask again later", "rate_limited"
        ),
        tries=Tries(("gpt",), 10, 300, 60),
    )
    assert said(thread(activities=(refused,))).text == (
        "t is at step 1 and asks model gpt, which has failed 6 times since 07:58:00 UTC (2m00s). The last time (rate "
        "limited): model 'gpt' at host answered 429: 'slow down'. Temporal tries again in 14s (08:00:14 UTC); 4 "
        "attempts are left. It is the provider's limit, not Wakeful's: wait, raise the limit, or give the agent a "
        "fallback model. `wakeful cancel t` stops the run."
    )


def test_without_the_agents_policy_attempts_are_those_that_temporal_allows() -> None:
    refused = activity(
        state=ActivityState.SCHEDULED, attempt=2, most_attempts=10, next_at=NOW + 1, failure=Failure("odd", "Strange")
    )
    found = said(thread(activities=(refused,), view=None, has_answered=True))
    assert (
        "The last time (Strange): odd. Temporal tries again in 0s (08:00:00 UTC) (attempt 2 of at most 10)."
        in found.why
    )
    assert "asks its model" in found.doing


def test_attempts_that_broke_off_half_way_do_not_count_as_failures() -> None:
    came = {"attempt": 2, "model": "gpt", "text": "half", "interruptions": [], "broken": "connection reset"}
    tries = Tries(("gpt", "spare"), 2, 300, 60)
    refused = activity(
        state=ActivityState.SCHEDULED,
        attempt=3,
        next_at=NOW + 1,
        failure=Failure("x", "stream_interrupted"),
        reported=came,
    )
    assert "3 attempts are left, next of model gpt." in said(thread(activities=(replace(refused, tries=tries),))).why
    asked = activity(attempt=3, reported=came, tries=tries)
    assert (
        "broke off (connection reset) after 4 characters of text; it is asked to go on"
        in said(thread(activities=(asked,))).why
    )


def test_tokens_reasoning_and_calls_that_have_come_are_counted() -> None:
    came = {
        "attempt": 1,
        "model": "gpt",
        "text": "x",
        "reasoning": "hm" * 600,
        "calls": [{"id": "1", "name": "pay"}],
        "usage": {"completion_tokens": 321},
    }
    found = said(thread(activities=(activity(reported=came, grown=40, looked=2.0),)))
    assert found.cause is Cause.MODEL_STREAMING
    assert found.why.startswith(
        "1,200 characters of reasoning, 1 character of text and 1 tool call (pay) (321 tokens) so far"
    )
    assert said(thread(activities=(activity(reported={"not": "ours"}),))).cause is Cause.MODEL_THINKING


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (None, "has reported no progress"),
        ({"message": "copying", "progress": 0.25}, "last reported 'copying', 25%"),
        ({"loaded": 3, "total": 12}, "last reported 3 of 12"),
        ({"loaded": 3}, "last reported 3"),
        ({"else": 1}, "last reported {'else': 1}"),
    ],
)
def test_the_last_report_of_a_tool_is_told(reported: Any, words: str) -> None:
    found = said(thread(activities=(activity("copy", reported=reported),)))
    assert (found.cause, words in found.why) == (Cause.TOOL_RUNNING, True)


def test_a_call_that_gives_no_sign_of_life_has_lost_its_worker() -> None:
    quiet = activity("copy", heartbeat_at=NOW - 12_000, started_at=NOW - MINUTE)
    found = said(thread(activities=(quiet,)))
    assert found.cause is Cause.WORKER_LOST
    assert "Temporal notices in 18s (08:00:18 UTC), after 30s without one, and then tries again." in found.why
    assert said(thread(activities=(replace(quiet, most_attempts=1),))).why.endswith("since it may not run twice.")
    with_others = thread(activities=(quiet,), queues=queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 9, 3))
    assert said(with_others).commands == ("wakeful cancel t",)


def test_a_worker_of_somebody_elses_may_give_signs_of_life_as_rarely_as_it_may() -> None:
    rare = activity("copy", queue="theirs", heartbeat_at=NOW - 20_000, started_at=NOW - MINUTE)
    assert said(thread(activities=(rare,))).cause is Cause.TOOL_RUNNING
    assert said(thread(activities=(replace(rare, heartbeat_at=NOW - 28_000),))).cause is Cause.WORKER_LOST
    assert said(thread(activities=(replace(rare, heartbeat_timeout=0.0),))).cause is Cause.TOOL_RUNNING


def test_an_activity_of_the_runtime_that_fails_is_tried_again() -> None:
    lookup = activity(
        names.ACTIVITY_RESOLVE_AGENT,
        ActivityState.SCHEDULED,
        attempt=3,
        most_attempts=10,
        first_at=NOW - MINUTE,
        next_at=NOW + 4_000,
        failure=Failure("no such agent", "AgentNotFound"),
    )
    found = said(thread(activities=(lookup,)))
    assert found.cause is Cause.RETRYING
    assert "which has failed twice since 07:59:00 UTC (1m00s)" in found.doing
    assert (
        "The last time: no such agent. Temporal tries again in 4s (08:00:04 UTC), for attempt 3 of at most 10."
        in found.why
    )
    assert said(thread(activities=(activity(names.ACTIVITY_RESTORE),))).cause is Cause.WORKING


def test_slots_that_are_all_taken_are_not_taken_for_missing_workers() -> None:
    waits = activity("copy", ActivityState.SCHEDULED)
    crowded = queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 200, backlog=7, backlog_age=61)
    found = said(thread(activities=(waits,), queues=crowded))
    assert found.cause is Cause.BACKLOG
    assert "so all their slots are taken" in found.why
    assert "where about 7 activity tasks are queued, the oldest for 1m01s" in found.why
    new = thread(activities=(replace(waits, scheduled_at=NOW - 1_000),), queues=crowded)
    assert said(new).cause is Cause.WORKING
    assert said(thread(activities=(waits,), queues={})).cause is Cause.UNKNOWN


def test_a_worker_that_is_listed_and_has_not_polled_since_is_not_called_busy() -> None:
    lost = Failure("its worker was lost", "heartbeat timeout")
    again = activity("copy", ActivityState.SCHEDULED, attempt=2, failure=lost)
    listed = queue(QueueKind.WORKFLOW, 65) | queue(QueueKind.ACTIVITY, 65, backlog=1, backlog_age=60)
    found = said(thread(activities=(again,), queues=listed, view=None))
    assert found.cause is Cause.WORKER_SILENT
    assert "and nobody answers for the run. The attempt before it failed: its worker was lost." in found.why
    assert said(thread(activities=(again,), queues=listed)).cause is Cause.BACKLOG


def test_a_run_that_sleeps_on_code_that_does_not_fit_is_known_before_it_wakes() -> None:
    silence = "it could not say where it stands: [TMPRL1100] Nondeterminism error: timer"
    found = said(thread(view=None, has_answered=True, silence=silence, calls=("c",)))
    assert found.cause is Cause.TASK_FAILING
    assert found.commands == ("wakeful replay t",)


def test_a_run_that_says_it_works_and_has_no_event_for_long_is_not_understood() -> None:
    assert said(thread(last_event_at=NOW - 2 * MINUTE)).cause is Cause.UNKNOWN
    assert said(thread(last_event_at=NOW - 1_000)).cause is Cause.WORKING


def test_a_summary_in_the_background_is_not_what_a_run_waits_for() -> None:
    both = (activity(names.ACTIVITY_COMPACT), activity())
    assert said(thread(activities=both)).cause is Cause.MODEL_THINKING
    assert "the summary of the oldest messages" in said(thread(activities=both[:1])).doing


def test_no_worker_outdoes_what_is_pending_unless_somebody_answers() -> None:
    deserted = queue(QueueKind.WORKFLOW, 240) | queue(QueueKind.ACTIVITY, 240)
    pending = (activity(state=ActivityState.SCHEDULED, next_at=NOW + 9_000, failure=Failure("429", "rate_limited")),)
    found = said(thread(view=None, activities=pending, queues=deserted, task=Task(NOW - MINUTE, 1, is_started=False)))
    assert found.cause is Cause.NO_WORKER
    assert (
        "the last worker there, worker-0, polled 4m00s ago (07:56:00 UTC). Its next turn has been due for 1m00s"
        in found.why
    )
    assert said(thread(activities=pending, queues=deserted)).cause is Cause.MODEL_RETRYING
    assert said(thread(view=None, queues=deserted)).since == NOW - 240_000


def test_a_pinned_run_needs_a_worker_of_its_version() -> None:
    other = queue(QueueKind.WORKFLOW, 3, version="app.two", versions=("app.two",))
    assert said(thread(view=None, queues=other, silence="nobody")).cause is Cause.WORKER_SILENT
    found = said(thread(view=None, queues=other, pinned="app.one"))
    assert (found.cause, "It is pinned to that version." in found.why) == (Cause.WRONG_VERSION, True)
    unversioned = queue(QueueKind.WORKFLOW, 3, versions=("app.two",))
    assert "are of no version" in said(thread(view=None, queues=unversioned)).why


def test_a_turn_that_failed_once_long_ago_or_is_new_is_no_cause() -> None:
    failure = Failure("boom", "workflow worker unhandled failure", NOW - MINUTE)
    assert said(thread(task_failure=failure, task=Task(NOW, 1, is_started=False))).cause is Cause.WORKING
    assert said(thread(task_failure=failure)).cause is Cause.WORKING
    assert said(thread(task_failure=failure, task=Task(NOW, 4, is_started=False))).cause is Cause.TASK_FAILING


def test_a_turn_that_nobody_takes_while_workers_poll_is_a_backlog() -> None:
    crowded = queue(QueueKind.WORKFLOW, 3, 4, backlog=12, backlog_age=30)
    due = thread(view=None, queues=crowded, task=Task(NOW - MINUTE, 1, is_started=False), calls=("call",))
    found = said(due)
    assert found.cause is Cause.BACKLOG
    assert (
        "2 workers polled task queue 'q' since, where about 12 workflow tasks are queued, the oldest for 30s"
        in found.why
    )
    dead = replace(due, queues=queue(QueueKind.WORKFLOW, 61, backlog=1))
    assert said(dead).cause is Cause.WORKER_SILENT  # a poll that was open would have been given the task
    taken = replace(due, task=Task(NOW - MINUTE, 1, is_started=True), queues=ATTENDED)
    assert said(taken).cause is Cause.WORKER_SILENT


def test_a_decision_that_only_the_search_attribute_knows_of_is_said_as_such() -> None:
    found = said(thread(view=None, calls=("-c", "d"), silence="nobody said within 7s where it stands"))
    assert found.cause is Cause.DECISION
    assert "what is asked, and since when, is not known, because nobody said within 7s where it stands." in found.why
    assert found.commands == ("wakeful approve t/-c t/d", "wakeful deny t/-c t/d")


def test_commands_can_be_typed_for_threads_that_look_like_options() -> None:
    odd = replace(thread(view=None, calls=("c",)), thread_id="-t t")
    assert said(odd).commands == ("wakeful approve -- '-t t/c'", "wakeful deny -- '-t t/c'")


def test_a_decision_says_when_it_expires_and_what_else_waits() -> None:
    call = asking_call("pay", since=NOW - 5 * MINUTE)
    assert call.ticket is not None
    expiry = Expiry(after_seconds=3600, then=ExpiryAction.DENY)
    suspension = call.ticket.suspension.model_copy(update={"expiry": expiry})
    ticket = call.ticket.model_copy(update={"expires_at": NOW + 55 * MINUTE, "suspension": suspension})
    calls = (call.model_copy(update={"ticket": ticket}), asking_call("sell", "call_2_2", since=NOW - MINUTE))
    view = view_of("t", "agent", RunStatus.WAITING, calls=calls, waiting_for=WaitingFor.DECISIONS)
    found = said(thread(view=view))
    assert found.text == (
        "t is at step 1 and has been waiting for a decision on pay (and on 1 other call) for 5m00s (since 07:55:00 "
        "UTC). A person has to answer: 'May I pay?'. If nobody does, the call expires in 55m (08:55:00 UTC), and that "
        "means: deny. `wakeful approve t/call_2_1 t/call_2_2` lets it go on, `wakeful deny t/call_2_1 t/call_2_2` does "
        "not."
    )


def child(name: str, **more: Any) -> Evidence:
    return replace(thread(view=view_of(f"t/{name}", name), **more), thread_id=f"t/{name}")


def test_of_several_below_the_one_that_needs_somebody_is_the_cause_and_of_equals_the_oldest() -> None:
    calls = (delegate_call("a", "t/a"), delegate_call("b", "t/b"))
    view = view_of("t", "agent", calls=calls)
    slow = child("a", activities=(activity("copy", started_at=NOW - 9 * MINUTE),))
    slower = child("b", activities=(activity("copy", started_at=NOW - 10 * MINUTE),))
    found = said(thread(view=view, below=(slow, slower)))
    assert (found.cause, found.path) == (Cause.TOOL_RUNNING, ("t", "t/b"))
    assert (
        "waits for its sub-agent t/b (and for 1 other besides), which is at step 1 and waits for tool copy"
        in found.doing
    )
    asks = child("a", calls=("c",))
    asks = replace(asks, view=None, has_answered=False)
    assert said(thread(view=view, below=(asks, slower))).path == ("t", "t/a")


def test_an_end_below_that_was_not_heard_of_is_the_cause() -> None:
    view = view_of("t", "agent", calls=(delegate_call("a", "t/a"),))
    gone = child("a", ended=Ended(Closing.TERMINATED, NOW - MINUTE, by="ann", reason="too dear"))
    found = said(thread(view=view, below=(gone,)))
    assert (found.cause, found.path) == (Cause.TERMINATED, ("t", "t/a"))
    assert found.why.endswith("t has not taken notice of that yet.")
    assert found.commands == ("wakeful cancel t",)


def test_tasks_are_the_cause_when_nothing_is_known_of_them() -> None:
    task = BackgroundTask(
        task_id="task-1", owner_thread_id="t", task_type=TaskType.SUB_AGENT, name="dig", created_at_ms=NOW - MINUTE
    )
    view = view_of("t", "agent", RunStatus.WAITING, tasks=(task,), waiting_for=WaitingFor.TASKS)
    found = said(thread(view=view))
    assert found.cause is Cause.TASKS
    assert "t is done but for 1 background task (dig), which has run for 1m00s (since 07:59:00 UTC)." in found.doing


def result(termination: Any, **more: Any) -> RunResult:
    return RunResult(
        thread_id="t", run_id="r", agent_id="a", status_reason="", termination=termination, steps=2, **more
    )


@pytest.mark.parametrize(
    ("termination", "cause", "words"),
    [
        (NaturalEnd(), Cause.ENDED, "came to its natural end 1m00s ago (07:59:00 UTC) after 2 steps."),
        (
            Stopped(value=StopDetail(code="budget", detail="cost budget is spent")),
            Cause.BUDGET_SPENT,
            "The cost budget is spent.",
        ),
        (Stopped(value=StopDetail(code="max_rounds", detail="16 rounds")), Cause.STOPPED, "(max_rounds)"),
        (Blocked(value="no refunds"), Cause.BLOCKED, "It said: no refunds."),
        (Cancelled(), Cause.CANCELLED, "Client ann@laptop asked for it, saying 'wrong order'."),
        (Errored(value="inference failed: nope"), Cause.FAILED, "See to it, and then `wakeful send t 'Please go on.'`"),
    ],
)
def test_every_end_of_a_run_has_its_cause(termination: Any, cause: Cause, words: str) -> None:
    detail = "wrong order" if isinstance(termination, Cancelled) else None
    ended = Ended(Closing.COMPLETED, NOW - MINUTE, result(termination, detail=detail))
    found = said(thread(ended=ended, view=None, cancel=Asked(NOW - MINUTE, "client ann@laptop")))
    assert (found.cause, found.since) == (cause, NOW - MINUTE)
    assert words in found.text


def test_a_run_of_a_thread_that_stays_open_ended_all_the_same() -> None:
    view = view_of("t", "agent", RunStatus.DONE, result=result(Errored(value="inference failed: key refused")))
    failure = Failure("inference failed: key refused", "unauthorized")
    found = said(thread(view=view, last_event_at=NOW - MINUTE, last_failure=failure))
    assert found.cause is Cause.FAILED
    assert found.why == "Inference failed: key refused. The thread is open."
    assert found.next.startswith("Give the worker a valid API key")
    assert said(thread(view=view_of("t", "agent", RunStatus.DONE))).cause is Cause.IDLE


@pytest.mark.parametrize(
    ("ended", "cause", "words"),
    [
        (Ended(Closing.TIMED_OUT), Cause.TERMINATED, "was ended by its workflow's timeout"),
        (Ended(Closing.CANCELLED), Cause.CANCELLED, "Somebody whom its newest events do not name cancelled it"),
        (Ended(Closing.FAILED, failure=Failure("bad", "InvalidRequest")), Cause.FAILED, "`wakeful run AGENT TEXT`"),
        (Ended(Closing.COMPLETED), Cause.FAILED, "Its result could not be read."),
    ],
)
def test_ends_from_outside_are_told_apart(ended: Ended, cause: Cause, words: str) -> None:
    found = said(thread(ended=ended, view=None))
    assert (found.cause, words in found.text) == (cause, True)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (TaskStatus.COMPLETED, Cause.ENDED),
        (TaskStatus.CANCELLED, Cause.CANCELLED),
        (TaskStatus.FAILED, Cause.FAILED),
    ],
)
def test_a_background_tool_has_an_end_too(status: Any, cause: Cause) -> None:
    settled = ChildResult(work_id="task-1", thread_id="t", status=status)
    assert said(thread(ended=Ended(Closing.COMPLETED, NOW, settled), view=None, is_tool=True)).cause is cause
    assert said(thread(ended=Ended(Closing.TERMINATED), view=None, is_tool=True)).commands == ()
    assert said(thread(view=None, is_tool=True, has_answered=True)).cause is Cause.WORKING


def test_what_is_not_known_is_said_with_what_was_looked_at() -> None:
    found = said(thread(view=None, queues={}, silence="it could not be asked where it stands: no such codec"))
    assert found.cause is Cause.UNKNOWN
    assert found.text == (
        "t is open. It could not be asked where it stands: no such codec; its description, its task queue and its "
        "newest events were looked at, and none of them tells why. Look again: `wakeful why t`."
    )


def test_every_fact_stands_behind_the_diagnosis_once() -> None:
    view = view_of("t", "agent", calls=(ToolCallView(call_id="c", tool_name="copy", status=ToolCallStatus.RUNNING),))
    below = child("a", activities=(activity("copy", attempt=2, failure=Failure("lost", "heartbeat timeout")),))
    found = said(thread(view=view, below=(below,), reset_at=NOW - MINUTE, unread=("x: unread",), last_event_at=NOW))
    assert found.unread == ("x: unread",)
    assert len(found.facts) == len(set(found.facts))
    assert "t: was reset 1m00s ago (07:59:00 UTC)" in found.facts
    assert any(fact.startswith("t/a: activity a1 (copy) started, attempt 2") for fact in found.facts)
