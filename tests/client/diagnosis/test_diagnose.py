"""Which of the things that a thread waits for is the cause, and how it is worded: evidence in, one diagnosis out."""

from collections.abc import Sequence
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
    CancelRequest,
    CloseStatus,
    Ended,
    Evidence,
    Failure,
    Poller,
    QueueKind,
    RetryLimits,
    TaskQueue,
    WorkflowTask,
)
from wakeful.client.diagnosis.wording import clock, duration
from wakeful.contract import names
from wakeful.contract.decisions import Expiry, ExpiryAction
from wakeful.contract.remote import RemoteProgress, RemoteState
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
from wakeful.contract.streaming import Outage
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import Task as BackgroundTask
from wakeful.contract.tasks import TaskStatus, TaskType
from wakeful.contract.views import Sent, SentKind, ToolCallView, WaitingFor

NOW = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
MINUTE = 60_000


def queue(kind: QueueKind, *ages: float, name: str = "q", **more: Any) -> dict[tuple[str, QueueKind], TaskQueue]:
    """A queue whose pollers polled so many seconds ago."""
    version = more.pop("version", "")
    pollers = tuple(Poller(f"worker-{n}", NOW - int(age * 1000), version) for n, age in enumerate(ages))
    return {(name, kind): TaskQueue(name, kind, pollers, **more)}


VIEW = view_of("t", "agent", doing="calling gpt")
POLLED = queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 3)


def thread(**more: Any) -> Evidence:
    """A thread that answers."""
    view = more.pop("view", VIEW)
    known: dict[str, Any] = {"queues": POLLED, "view": view, "has_answered": view is not None, **more}
    return Evidence("t", "q", **known)


def activity(type: str = names.ACTIVITY_INFER, state: ActivityState = ActivityState.STARTED, **more: Any) -> Activity:
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
    return Activity("a1", type, state, **known)


def diagnosed(evidence: Evidence) -> Diagnosis:
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
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_clock_time_of_another_day_has_its_date() -> None:
    assert clock(NOW - MINUTE, NOW) == "07:59:00 UTC"
    assert clock(NOW - 24 * 60 * MINUTE, NOW) == "2027-01-14 08:00 UTC"


def test_a_model_that_is_rate_limited_is_explained_in_one_paragraph() -> None:
    refused = activity(
        state=ActivityState.SCHEDULED,
        attempt=7,
        first_scheduled_at=NOW - 2 * MINUTE,
        next_attempt_at=NOW + 14_000,
        failure=Failure(
            "inference failed: model 'gpt' at host answered 429: 'slow down' [failing since …", "rate_limited"
        ),
        limits=RetryLimits(("gpt",), 10, 300, 60),
        outage=Outage(since=NOW - MINUTE, until=NOW + 60 * MINUTE, attempt=6, failures=5),
    )
    assert diagnosed(thread(activities=(refused,))).text == (
        "t is at step 1 and calls model gpt, which has failed 5 times since 07:59:00 UTC (1m00s). The last failure "
        "(rate limited): model 'gpt' at host answered 429: 'slow down'. Temporal retries it in 14s (08:00:14 UTC), and "
        "so on until its agent's patience is over in 1h00m (09:00:00 UTC). The limit is the provider's, not Wakeful's: "
        "wait, raise the limit, or give the agent a fallback model. `wakeful cancel t` cancels the run."
    )


def test_without_the_agents_policy_attempts_are_those_that_temporal_allows() -> None:
    refused = activity(
        state=ActivityState.SCHEDULED,
        attempt=2,
        max_attempts=10,
        next_attempt_at=NOW + 1,
        failure=Failure("odd", "Strange"),
    )
    found = diagnosed(thread(activities=(refused,), view=None, has_answered=True))
    assert (
        "The last failure (Strange): odd. Temporal retries it in 0s (08:00:00 UTC) (attempt 2 of at most 10)."
        in found.why
    )
    assert "calls its model" in found.doing


@pytest.mark.parametrize(
    ("failures", "blocked", "model"),
    [
        (1, (), "gpt"),
        (2, (), "spare"),
        (4, (), "gpt"),
        (5, (), "spare"),
        (1, ("openai/gpt",), "spare"),
        (1, ("openai/gpt", "other/spare"), "gpt"),
    ],
)
def test_the_model_that_is_called_next_is_named_if_there_are_several(
    failures: int, blocked: Sequence[str], model: str
) -> None:
    not_before = dict.fromkeys(blocked, NOW + MINUTE)
    refused = activity(
        state=ActivityState.SCHEDULED,
        attempt=failures + 1,
        next_attempt_at=NOW + 1,
        failure=Failure("x", "overloaded"),
        limits=RetryLimits(("gpt", "spare"), 2, 300, 60),
        outage=Outage(since=NOW, until=NOW, attempt=failures, failures=failures, not_before=not_before),
    )
    found = diagnosed(thread(activities=(refused,)))
    assert f"), with model {model}; its agent's patience is over, so that is the last attempt." in found.why


def test_an_interrupted_attempt_is_continued() -> None:
    came = {"attempt": 2, "model": "gpt", "text": "half", "interruptions": [], "broken": "connection reset"}
    asked = activity(attempt=3, heartbeat=came, limits=RetryLimits(("gpt", "spare"), 2, 300, 60))
    assert (
        "was interrupted (connection reset) after 4 characters of text; the model is asked to continue from there."
        in diagnosed(thread(activities=(asked,))).why
    )


def test_tokens_reasoning_and_calls_that_have_arrived_are_counted() -> None:
    came = {
        "attempt": 1,
        "model": "gpt",
        "text": "x",
        "reasoning": "hm" * 600,
        "calls": [{"id": "1", "name": "pay"}],
        "usage": {"completion_tokens": 321},
    }
    found = diagnosed(thread(activities=(activity(heartbeat=came, growth=40, observed_seconds=2.0),)))
    assert found.cause is Cause.MODEL_STREAMING
    assert found.why.startswith(
        "1,200 characters of reasoning, 1 character of text and 1 tool call (pay) (321 tokens) so far"
    )
    assert diagnosed(thread(activities=(activity(heartbeat={"not": "ours"}),))).cause is Cause.MODEL_THINKING


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (None, "has reported no progress"),
        ({"message": "copying", "progress": 0.25}, "last reported 'copying', 25%"),
        ({"loaded": 3, "total": 12}, "last reported 3 of 12"),
        ({"loaded": 3}, "last reported 3"),
        ({"else": 1}, "last reported {'else': 1}"),
    ],
)
def test_the_last_progress_report_of_a_tool_is_quoted(report: Any, words: str) -> None:
    found = diagnosed(thread(activities=(activity("copy", heartbeat=report),)))
    assert (found.cause, words in found.why) == (Cause.TOOL_RUNNING, True)


def test_a_call_without_heartbeats_has_lost_its_worker() -> None:
    quiet = activity("copy", heartbeat_at=NOW - 12_000, started_at=NOW - MINUTE)
    found = diagnosed(thread(activities=(quiet,)))
    assert found.cause is Cause.WORKER_LOST
    assert (
        "Temporal detects that in 18s (08:00:18 UTC), after the heartbeat timeout of 30s, and then retries it."
        in found.why
    )
    assert diagnosed(thread(activities=(replace(quiet, may_repeat=False),))).why.endswith(
        "and then fails the call, which may not run twice."
    )
    with_others = thread(activities=(quiet,), queues=queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 9, 3))
    assert diagnosed(with_others).commands == ("wakeful cancel t",)


def test_a_worker_on_another_task_queue_may_heartbeat_as_rarely_as_its_timeout_allows() -> None:
    rare = activity("copy", queue="theirs", heartbeat_at=NOW - 20_000, started_at=NOW - MINUTE)
    assert diagnosed(thread(activities=(rare,))).cause is Cause.TOOL_RUNNING
    assert diagnosed(thread(activities=(replace(rare, heartbeat_at=NOW - 28_000),))).cause is Cause.WORKER_LOST
    assert diagnosed(thread(activities=(replace(rare, heartbeat_timeout=0.0),))).cause is Cause.TOOL_RUNNING


def test_an_activity_of_the_runtime_that_fails_is_retried() -> None:
    lookup = activity(
        names.ACTIVITY_RESOLVE_AGENT,
        ActivityState.SCHEDULED,
        attempt=3,
        max_attempts=10,
        first_scheduled_at=NOW - MINUTE,
        next_attempt_at=NOW + 4_000,
        failure=Failure("no such agent", "AgentNotFound"),
    )
    found = diagnosed(thread(activities=(lookup,)))
    assert found.cause is Cause.RETRYING
    assert "which has failed twice since 07:59:00 UTC (1m00s)" in found.doing
    assert (
        "The last failure: no such agent. Temporal retries it in 4s (08:00:04 UTC), as attempt 3 of at most 10."
        in found.why
    )
    assert diagnosed(thread(activities=(activity(names.ACTIVITY_RESTORE),))).cause is Cause.WORKING


def remote_call(state: ActivityState, **more: Any) -> Activity:
    known: dict[str, Any] = {"summary": "step 1 · weather", **more}
    return activity(names.ACTIVITY_CALL_REMOTE, state, **known)


REMOTE = RemoteProgress(service="https://agents.example.com", context_id="c1", message_id="m1")
WORKING = REMOTE.model_copy(
    update={"task_id": "k1", "state": RemoteState.WORKING, "state_since": NOW - 5 * MINUTE, "polls": 4}
)


def test_a_remote_task_at_work_is_no_failure() -> None:
    polled = remote_call(ActivityState.SCHEDULED, attempt=5, next_attempt_at=NOW + 20_000, remote=WORKING)
    found = diagnosed(thread(activities=(polled,)))
    assert found.cause is Cause.REMOTE_WORKING
    assert "waits for remote agent weather, whose task has been working for 5m00s" in found.doing
    assert found.why == (
        "Its task is k1 at https://agents.example.com. A worker has asked for it 4 times, and asks again in 20s "
        "(08:00:20 UTC): no worker is busy with it meanwhile."
    )
    followed = remote_call(ActivityState.STARTED, remote=WORKING)
    found = diagnosed(thread(activities=(followed,)))
    assert found.why == "Its task is k1 at https://agents.example.com. A worker, worker-0, follows it."


def test_a_message_that_the_service_has_no_task_for_is_being_sent() -> None:
    for progress, service in ((REMOTE, " of https://agents.example.com"), (None, "")):
        found = diagnosed(thread(activities=(remote_call(ActivityState.STARTED, remote=progress),)))
        assert "has been sending its message to remote agent weather for 2s" in found.doing
        assert found.why == f"The service{service} has no task for it yet."


def test_a_service_that_fails_is_named_with_its_last_failure() -> None:
    failed = remote_call(
        ActivityState.SCHEDULED,
        attempt=4,
        next_attempt_at=NOW + 20_000,
        failure=Failure("remote agent 'weather': it cannot be reached (refused) [failing since …]", "remote"),
        outage=Outage(since=NOW - MINUTE, until=NOW + 60 * MINUTE, attempt=3, failures=3),
        remote=REMOTE,
    )
    found = diagnosed(thread(activities=(failed,)))
    assert found.cause is Cause.RETRYING
    assert "calls remote agent weather, which has failed 3 times since 07:59:00 UTC (1m00s)" in found.doing
    assert found.why == (
        "The last failure: remote agent 'weather': it cannot be reached (refused). Temporal retries it in 20s "
        "(08:00:20 UTC), and so on until its agent's patience is over in 1h00m (09:00:00 UTC). It has no task yet."
    )
    assert "Its task is k1" in diagnosed(thread(activities=(replace(failed, remote=WORKING),))).why


def test_workers_without_a_free_slot_are_not_reported_as_missing() -> None:
    waits = activity("copy", ActivityState.SCHEDULED)
    crowded = queue(QueueKind.WORKFLOW, 3) | queue(QueueKind.ACTIVITY, 200, backlog=7, backlog_age=61)
    found = diagnosed(thread(activities=(waits,), queues=crowded))
    assert found.cause is Cause.BACKLOG
    assert "poll for no activities: all their slots are taken" in found.why
    assert "; about 7 activity tasks are queued, the oldest for 1m01s" in found.why
    new = thread(activities=(replace(waits, scheduled_at=NOW - 1_000),), queues=crowded)
    assert diagnosed(new).cause is Cause.WORKING
    assert diagnosed(thread(activities=(waits,), queues={})).cause is Cause.UNKNOWN


def test_a_worker_that_is_listed_but_has_not_polled_since_is_not_reported_as_busy() -> None:
    lost = Failure("its worker was lost", "heartbeat timeout")
    again = activity("copy", ActivityState.SCHEDULED, attempt=2, failure=lost)
    listed = queue(QueueKind.WORKFLOW, 65) | queue(QueueKind.ACTIVITY, 65, backlog=1, backlog_age=60)
    found = diagnosed(thread(activities=(again,), queues=listed, view=None))
    assert found.cause is Cause.WORKER_SILENT
    assert "and no worker answers queries of the run. The attempt before it failed: its worker was lost." in found.why
    assert diagnosed(thread(activities=(again,), queues=listed)).cause is Cause.BACKLOG


def test_a_worker_of_another_task_queue_that_has_not_polled_since_is_not_reported_as_busy() -> None:
    far = activity("copy", ActivityState.SCHEDULED, queue="gpu", queue_timeout=900)
    polled = {("gpu", QueueKind.ACTIVITY): TaskQueue("gpu", QueueKind.ACTIVITY, (Poller("w2", NOW - 65_000),))}
    found = diagnosed(thread(activities=(far,), queues=queue(QueueKind.WORKFLOW, 3) | polled))
    assert found.cause is Cause.WORKER_SILENT
    assert "w2, polled 1m05s ago (07:58:55 UTC). It has stopped, or all its slots are taken." in found.why
    assert "If no worker starts it, the call fails in 14m (08:14:00 UTC)" in found.why


def test_a_run_that_would_not_replay_is_known_before_its_next_workflow_task() -> None:
    failure = "its status query failed: [TMPRL1100] Nondeterminism error: timer"
    found = diagnosed(thread(view=None, has_answered=True, no_status=failure, pending_calls=("c",)))
    assert found.cause is Cause.TASK_FAILING
    assert found.commands == ("wakeful replay t",)


def test_a_run_without_an_event_for_long_and_nothing_pending_is_not_explained() -> None:
    assert diagnosed(thread(last_event_at=NOW - 2 * MINUTE)).cause is Cause.UNKNOWN
    assert diagnosed(thread(last_event_at=NOW - 1_000)).cause is Cause.WORKING


def test_a_run_does_not_wait_for_compaction_if_anything_else_is_pending() -> None:
    both = (activity(names.ACTIVITY_COMPACT), activity())
    assert diagnosed(thread(activities=both)).cause is Cause.MODEL_THINKING
    assert "the summary of its oldest messages" in diagnosed(thread(activities=both[:1])).doing


def test_no_worker_outranks_what_is_pending_unless_a_worker_answers() -> None:
    deserted = queue(QueueKind.WORKFLOW, 240) | queue(QueueKind.ACTIVITY, 240)
    pending = (
        activity(state=ActivityState.SCHEDULED, next_attempt_at=NOW + 9_000, failure=Failure("429", "rate_limited")),
    )
    found = diagnosed(
        thread(view=None, activities=pending, queues=deserted, task=WorkflowTask(NOW - MINUTE, 1, is_started=False))
    )
    assert found.cause is Cause.NO_WORKER
    assert (
        "the last worker there, worker-0, polled 4m00s ago (07:56:00 UTC). Its next workflow task has been queued for "
        "1m00s" in found.why
    )
    assert diagnosed(thread(activities=pending, queues=deserted)).cause is Cause.MODEL_RETRYING
    assert diagnosed(thread(view=None, queues=deserted)).since == NOW - 240_000


def sent(kind: SentKind = SentKind.DECISION, *, ago: int = 12_000, **more: object) -> Sent:
    return Sent.model_validate({"kind": kind, "at": NOW - ago} | more)


APPROVED = sent(by="ann", target="call", action="resume")


def was_sent(*unhandled: Sent, **more: Any) -> Evidence:
    """A thread with these signals in its history, which no worker has handled."""
    view = more.pop("view", VIEW)
    known = {
        "task": WorkflowTask(unhandled[0].at, 1, is_started=False),
        "unhandled": unhandled,
        "view": view and view.model_copy(update={"unhandled": unhandled}),
        "has_answered": False,
    }
    return thread(**known | more)


def test_a_decision_that_was_sent_is_not_asked_for_again() -> None:
    asking = VIEW.model_copy(update={"calls": (asking_call("pay", "call"),)})
    assert diagnosed(thread(view=asking)).cause is Cause.DECISION
    new = APPROVED.model_copy(update={"at": NOW - 2_000})
    found = diagnosed(was_sent(new, view=asking))
    assert (found.cause, found.commands) == (Cause.WORKING, ("wakeful why t",))
    assert "t has not handled yet: a decision on call (approve) by ann, sent 2s ago (07:59:58 UTC)." in found.why
    by_suspension = new.model_copy(update={"target": "suspend_call"})
    assert diagnosed(was_sent(by_suspension, view=asking)).cause is Cause.WORKING
    other = VIEW.model_copy(update={"calls": (asking_call("pay", "call"), asking_call("pay", "another"))})
    both = diagnosed(was_sent(new, view=other))
    assert (both.cause, both.commands[0]) == (Cause.DECISION, "wakeful approve t/another")


@pytest.mark.parametrize("kind", [SentKind.CANCEL, SentKind.CLOSE])
def test_what_ends_the_run_is_said_instead_of_asking_for_a_decision(kind: SentKind) -> None:
    asking = VIEW.model_copy(update={"calls": (asking_call("pay", "call"), asking_call("pay", "another"))})
    end = sent(kind, ago=2_000, by="ann")
    found = diagnosed(was_sent(end, view=asking))
    assert (found.cause, found.commands) == (Cause.WORKING, ("wakeful why t",))
    assert f"t has not handled yet: a {kind.value} by ann, sent 2s ago (07:59:58 UTC)." in found.why
    for_another = sent(SentKind.CANCEL, ago=2_000, run_id="run-of-yesterday")
    assert diagnosed(was_sent(for_another, view=asking)).cause is Cause.DECISION
    deserted = queue(QueueKind.WORKFLOW, 240)
    for view in (asking, None):
        gone = diagnosed(was_sent(end, view=view, queues=deserted, pending_calls=("call", "another")))
        assert (gone.cause, len(gone.commands)) == (Cause.NO_WORKER, 1)


def test_what_ends_the_run_ends_the_sub_agents_that_ask() -> None:
    view = view_of("t", "agent", calls=(delegate_call("a", "t/a"),))
    grandchild = Evidence("t/a/b", "q", view=view_of("t/a/b", "b", calls=(asking_call("pay"),)), has_answered=True)
    calls = (asking_call("pay"), delegate_call("b", "t/a/b", "call_1_2"))
    child = Evidence("t/a", "q", view=view_of("t/a", "a", calls=calls), has_answered=True, descendants=(grandchild,))
    assert diagnosed(thread(view=view, descendants=(child,))).cause is Cause.DECISION
    cancelled = was_sent(sent(SentKind.CANCEL, ago=2_000), view=view, descendants=(child,))
    assert diagnosed(cancelled).cause is Cause.WORKING
    silent = replace(child, view=None, pending_calls=("call_2_1",), descendants=())
    assert diagnosed(thread(view=view, descendants=(silent,))).cause is Cause.DECISION
    assert diagnosed(replace(cancelled, descendants=(silent,))).cause is Cause.WORKING


def test_a_task_that_no_worker_has_taken_for_ten_seconds_is_named_though_a_worker_was_there_a_minute_ago() -> None:
    asking = VIEW.model_copy(update={"calls": (asking_call("pay", "call"), asking_call("pay", "another"))})
    gone = was_sent(APPROVED, view=asking, queues=queue(QueueKind.WORKFLOW, 40), pending_calls=("call", "another"))
    found = diagnosed(gone)
    assert found.cause is Cause.WORKER_SILENT
    assert (
        "No worker has polled task queue 'q' since 07:59:48 UTC: the last worker there, worker-0, polled" in found.why
    )
    assert "t has not handled yet: a decision on call (approve) by ann" in found.why
    assert found.commands[-1] == "wakeful approve t/another"  # the other one was sent
    recent = APPROVED.model_copy(update={"at": NOW - 9_000})
    assert diagnosed(replace(gone, task=None, unhandled=())).cause is Cause.DECISION
    new = replace(gone, unhandled=(recent,), task=WorkflowTask(NOW - 9_000, 1, is_started=False))
    assert diagnosed(new).cause is Cause.DECISION
    # Temporal counts the task anew when the worker that had the run in its cache has not taken it.
    again = replace(gone, task=WorkflowTask(NOW - 2_000, 1, is_started=False))
    assert diagnosed(again).since == APPROVED.at
    assert diagnosed(replace(gone, has_answered=True)).cause is Cause.DECISION


def test_no_worker_is_missed_while_workers_are_busy_with_hundreds_of_runs() -> None:
    crowded = queue(QueueKind.WORKFLOW, 1, backlog=500, backlog_age=11)
    found = diagnosed(was_sent(APPROVED, queues=crowded))
    assert found.cause is Cause.BACKLOG
    assert "Workers are busy: 1 worker polled task queue 'q' since; about 500 workflow tasks are queued" in found.why
    uncounted = diagnosed(was_sent(APPROVED, queues=queue(QueueKind.WORKFLOW, 1)))
    assert (uncounted.cause, "Temporal counts no backlog yet" in uncounted.why) == (Cause.BACKLOG, True)


def test_without_a_worker_only_what_was_not_sent_is_asked_for() -> None:
    deserted = queue(QueueKind.WORKFLOW, 240)
    gone = was_sent(APPROVED, view=None, queues=deserted, pending_calls=("call", "another"))
    found = diagnosed(gone)
    assert (found.cause, found.commands[-1]) == (Cause.NO_WORKER, "wakeful approve t/another")
    decided = diagnosed(replace(gone, pending_calls=("call",)))
    assert decided.commands == ("wakeful worker --app module:registry --task-queue q",)


def test_an_idle_thread_that_was_sent_a_message_does_not_ask_for_one() -> None:
    idle = VIEW.model_copy(update={"status": RunStatus.DONE})
    assert diagnosed(thread(view=idle)).cause is Cause.IDLE
    message = sent(SentKind.MESSAGE, ago=2_000, by="zoe")
    many = (message, *(sent(SentKind.CANCEL, ago=1_000) for _ in range(4)))
    found = diagnosed(was_sent(*many, view=idle))
    assert found.cause is Cause.WORKING
    assert (
        "t has not handled yet: a message by zoe, sent 2s ago (07:59:58 UTC); a cancel, sent 1s ago (07:59:59 UTC); "
        "a cancel, sent 1s ago (07:59:59 UTC); 2 more." in found.why
    )


def test_a_pinned_run_needs_a_worker_of_its_version() -> None:
    other = queue(QueueKind.WORKFLOW, 3, version="app.two", versions=("app.two",))
    assert diagnosed(thread(view=None, queues=other, no_status="no answer")).cause is Cause.WORKER_SILENT
    found = diagnosed(thread(view=None, queues=other, pinned="app.one"))
    assert (found.cause, "It is pinned to that version." in found.why) == (Cause.WRONG_VERSION, True)
    unversioned = queue(QueueKind.WORKFLOW, 3, versions=("app.two",))
    assert "are of no version" in diagnosed(thread(view=None, queues=unversioned)).why


def test_a_workflow_task_that_failed_earlier_or_is_new_is_no_cause() -> None:
    failure = Failure("boom", "workflow worker unhandled failure", NOW - MINUTE)
    assert diagnosed(thread(task_failure=failure, task=WorkflowTask(NOW, 1, is_started=False))).cause is Cause.WORKING
    assert diagnosed(thread(task_failure=failure)).cause is Cause.WORKING
    assert (
        diagnosed(thread(task_failure=failure, task=WorkflowTask(NOW, 4, is_started=False))).cause is Cause.TASK_FAILING
    )


def test_a_workflow_task_that_no_worker_takes_while_workers_poll_is_a_backlog() -> None:
    crowded = queue(QueueKind.WORKFLOW, 3, 4, backlog=12, backlog_age=30)
    due = thread(
        view=None, queues=crowded, task=WorkflowTask(NOW - MINUTE, 1, is_started=False), pending_calls=("call",)
    )
    found = diagnosed(due)
    assert found.cause is Cause.BACKLOG
    assert "2 workers polled task queue 'q' since; about 12 workflow tasks are queued, the oldest for 30s" in found.why
    dead = replace(due, queues=queue(QueueKind.WORKFLOW, 61, backlog=1))
    assert diagnosed(dead).cause is Cause.WORKER_SILENT  # a poll that was open would have been given the task
    taken = replace(due, task=WorkflowTask(NOW - MINUTE, 1, is_started=True), queues=POLLED)
    assert diagnosed(taken).cause is Cause.WORKER_SILENT


def test_a_decision_that_only_the_search_attribute_shows_says_so() -> None:
    found = diagnosed(
        thread(view=None, pending_calls=("-c", "d"), no_status="no worker answered its status query within 7s")
    )
    assert found.cause is Cause.DECISION
    assert (
        "the question and its time are not known, because no worker answered its status query within 7s." in found.why
    )
    assert found.commands == ("wakeful approve t/-c t/d", "wakeful deny t/-c t/d")


def test_commands_can_be_typed_for_threads_that_look_like_options() -> None:
    odd = replace(thread(view=None, pending_calls=("c",)), thread_id="-t t")
    assert diagnosed(odd).commands == ("wakeful approve -- '-t t/c'", "wakeful deny -- '-t t/c'")


def test_a_decision_says_when_it_expires_and_what_else_waits() -> None:
    call = asking_call("pay", since=NOW - 5 * MINUTE)
    assert call.ticket is not None
    expiry = Expiry(after_seconds=3600, then=ExpiryAction.DENY)
    suspension = call.ticket.suspension.model_copy(update={"expiry": expiry})
    ticket = call.ticket.model_copy(update={"expires_at": NOW + 55 * MINUTE, "suspension": suspension})
    calls = (call.model_copy(update={"ticket": ticket}), asking_call("sell", "call_2_2", since=NOW - MINUTE))
    view = view_of("t", "agent", RunStatus.WAITING, calls=calls, waiting_for=WaitingFor.DECISIONS)
    found = diagnosed(thread(view=view))
    assert found.text == (
        "t is at step 1 and has been waiting for a decision on pay (and on 1 other call) for 5m00s (since 07:55:00 "
        "UTC). A person has to answer: 'May I pay?'. Without an answer, the call expires in 55m (08:55:00 UTC), which "
        "means: deny. `wakeful approve t/call_2_1 t/call_2_2` resumes it, `wakeful deny t/call_2_1 t/call_2_2` cancels "
        "it."
    )


def child(name: str, **more: Any) -> Evidence:
    return replace(thread(view=view_of(f"t/{name}", name), **more), thread_id=f"t/{name}")


def test_of_several_descendants_the_one_that_needs_a_person_is_the_cause_and_of_equals_the_oldest() -> None:
    calls = (delegate_call("a", "t/a"), delegate_call("b", "t/b"))
    view = view_of("t", "agent", calls=calls)
    slow = child("a", activities=(activity("copy", started_at=NOW - 9 * MINUTE),))
    slower = child("b", activities=(activity("copy", started_at=NOW - 10 * MINUTE),))
    found = diagnosed(thread(view=view, descendants=(slow, slower)))
    assert (found.cause, found.path) == (Cause.TOOL_RUNNING, ("t", "t/b"))
    assert "waits for its sub-agent t/b (and for 1 other), which is at step 1 and waits for tool copy" in found.doing
    asks = child("a", pending_calls=("c",))
    asks = replace(asks, view=None, has_answered=False)
    assert diagnosed(thread(view=view, descendants=(asks, slower))).path == ("t", "t/a")


def test_the_end_of_a_child_that_its_parent_has_not_processed_is_the_cause() -> None:
    view = view_of("t", "agent", calls=(delegate_call("a", "t/a"),))
    gone = child("a", ended=Ended(CloseStatus.TERMINATED, NOW - MINUTE, by="ann", reason="too dear"))
    found = diagnosed(thread(view=view, descendants=(gone,)))
    assert (found.cause, found.path) == (Cause.TERMINATED, ("t", "t/a"))
    assert found.why.endswith("t has not processed that yet.")
    assert found.commands == ("wakeful cancel t",)


def test_a_run_that_is_held_open_says_for_what_and_that_it_needs_a_message() -> None:
    view = view_of(
        "t", "agent", RunStatus.WAITING, doing="held open for the build", waiting_for=WaitingFor.PENDING_WORK
    )
    found = diagnosed(thread(view=view, last_event_at=NOW - MINUTE))
    assert (found.cause, found.since) == (Cause.PENDING_WORK, NOW - MINUTE)
    assert found.text == (
        "t is held open for the build, and has been waiting for 1m00s (since 07:59:00 UTC). Its model is done, but a "
        "plugin or a tool holds the run open until that work is done, and no message has come. What does the work has "
        "to send a message, as `wakeful send t 'Please continue.'` does; `wakeful cancel t` ends the run."
    )


def test_background_tasks_are_the_cause_if_nothing_more_is_known() -> None:
    task = BackgroundTask(
        task_id="task-1", owner_thread_id="t", task_type=TaskType.SUB_AGENT, name="dig", created_at_ms=NOW - MINUTE
    )
    view = view_of("t", "agent", RunStatus.WAITING, tasks=(task,), waiting_for=WaitingFor.TASKS)
    found = diagnosed(thread(view=view))
    assert found.cause is Cause.TASKS
    assert "t waits for 1 background task (dig), which has run for 1m00s (since 07:59:00 UTC)." in found.doing


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
        (Blocked(value="no refunds"), Cause.BLOCKED, "The reason: no refunds."),
        (Cancelled(), Cause.CANCELLED, "Client ann@laptop cancelled it, with the reason 'wrong order'."),
        (
            Errored(value="inference failed: nope"),
            Cause.FAILED,
            "Fix the cause, then `wakeful send t 'Please continue.'` wakes",
        ),
    ],
)
def test_every_end_of_a_run_has_its_cause(termination: Any, cause: Cause, words: str) -> None:
    detail = "wrong order" if isinstance(termination, Cancelled) else None
    ended = Ended(CloseStatus.COMPLETED, NOW - MINUTE, result(termination, detail=detail))
    found = diagnosed(thread(ended=ended, view=None, cancel=CancelRequest(NOW - MINUTE, "client ann@laptop")))
    assert (found.cause, found.since) == (cause, NOW - MINUTE)
    assert words in found.text


def test_a_thread_that_was_closed_says_by_whom_and_that_a_message_wakes_it() -> None:
    closed = CancelRequest(NOW - MINUTE, "client ann@laptop", is_close=True)
    idle = diagnosed(thread(ended=Ended(CloseStatus.COMPLETED, NOW, result(NaturalEnd())), view=None, cancel=closed))
    assert (idle.cause, idle.why) == (Cause.ENDED, "Nothing is left to do. Client ann@laptop closed the thread.")
    assert idle.next.endswith("`wakeful send t 'Please continue.'` wakes the thread and continues its conversation.")
    ended = Ended(CloseStatus.COMPLETED, NOW, result(Cancelled(), detail="enough"))
    running = diagnosed(thread(ended=ended, view=None, cancel=closed))
    assert running.cause is Cause.CANCELLED
    assert running.why == "Client ann@laptop closed the thread, with the reason 'enough'."


def test_a_failed_run_is_reported_although_its_thread_stays_open() -> None:
    view = view_of("t", "agent", RunStatus.DONE, result=result(Errored(value="inference failed: key refused")))
    failure = Failure("inference failed: key refused", "unauthorized")
    found = diagnosed(thread(view=view, last_event_at=NOW - MINUTE, last_failure=failure))
    assert found.cause is Cause.FAILED
    assert found.why == "Inference failed: key refused. The thread is open."
    assert found.next.startswith("Give the worker a valid API key")
    assert diagnosed(thread(view=view_of("t", "agent", RunStatus.DONE))).cause is Cause.IDLE


@pytest.mark.parametrize(
    ("ended", "cause", "words"),
    [
        (Ended(CloseStatus.TIMED_OUT), Cause.TERMINATED, "hit its workflow timeout"),
        (
            Ended(CloseStatus.CANCELLED),
            Cause.CANCELLED,
            "A client or a thread that its newest events do not show cancelled it",
        ),
        (
            Ended(CloseStatus.FAILED, failure=Failure("bad", "malformed_request")),
            Cause.FAILED,
            "`wakeful run AGENT TEXT`",
        ),
        (Ended(CloseStatus.COMPLETED), Cause.FAILED, "Its result could not be read."),
    ],
)
def test_each_end_from_outside_has_its_cause(ended: Ended, cause: Cause, words: str) -> None:
    found = diagnosed(thread(ended=ended, view=None))
    assert (found.cause, words in found.text) == (cause, True)


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (TaskStatus.COMPLETED, Cause.ENDED),
        (TaskStatus.CANCELLED, Cause.CANCELLED),
        (TaskStatus.FAILED, Cause.FAILED),
    ],
)
def test_each_end_of_a_background_tool_has_its_cause(status: Any, cause: Cause) -> None:
    result = ChildResult(work_id="task-1", thread_id="t", status=status)
    assert diagnosed(thread(ended=Ended(CloseStatus.COMPLETED, NOW, result), view=None, is_tool=True)).cause is cause
    assert diagnosed(thread(ended=Ended(CloseStatus.TERMINATED), view=None, is_tool=True)).commands == ()
    assert diagnosed(thread(view=None, is_tool=True, has_answered=True)).cause is Cause.WORKING


def test_an_unknown_cause_says_what_was_read() -> None:
    found = diagnosed(thread(view=None, queues={}, no_status="its status could not be queried: no such codec"))
    assert found.cause is Cause.UNKNOWN
    assert found.text == (
        "t is open. Its status could not be queried: no such codec; its description, its task queue and its newest "
        "events do not show the cause either. Run `wakeful why t` again."
    )


def test_a_diagnosis_lists_every_fact_once() -> None:
    view = view_of("t", "agent", calls=(ToolCallView(call_id="c", tool_name="copy", status=ToolCallStatus.RUNNING),))
    other = child("a", activities=(activity("copy", attempt=2, failure=Failure("lost", "heartbeat timeout")),))
    found = diagnosed(
        thread(view=view, descendants=(other,), reset_at=NOW - MINUTE, unread=("x: unread",), last_event_at=NOW)
    )
    assert found.unread == ("x: unread",)
    assert len(found.facts) == len(set(found.facts))
    assert "t: was reset 1m00s ago (07:59:00 UTC)" in found.facts
    assert any(fact.startswith("t/a: activity a1 (copy) started, attempt 2") for fact in found.facts)
