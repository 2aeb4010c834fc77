"""The list filter of `client.threads`, and the lines of `wakeful list`. Pure."""

from datetime import UTC, datetime

import pytest

from wakeful import CallerError, RunStatus, ThreadSummary
from wakeful.cli.terminal.thread_lines import thread_lines
from wakeful.client.threads import ThreadFilter

THREADS = "WorkflowType = 'AgentRun' AND ExecutionStatus != 'ContinuedAsNew'"


def test_a_filter_has_every_condition_that_is_given() -> None:
    assert ThreadFilter(subagents=True).condition() == THREADS
    wanted = ThreadFilter(
        agent_id="o'neil",
        status="done",
        outcome="error",
        is_open=False,
        started_after=datetime(2026, 1, 2, tzinfo=UTC),
        query="A = 1 OR B = 2",
    )
    assert wanted.condition() == (
        f"{THREADS} AND WakefulAgent = 'o\\'neil' AND WakefulStatus = 'done' AND WakefulOutcome = 'error' "
        "AND ExecutionStatus != 'Running' AND StartTime > '2026-01-02T00:00:00.000Z' AND WakefulParent IS NULL "
        "AND (A = 1 OR B = 2)"
    )


def test_a_status_or_an_outcome_that_no_run_has_is_refused() -> None:
    with pytest.raises(CallerError, match="no run has the status 'idle': use one of created, running, waiting, done"):
        ThreadFilter(status="idle").condition()  # type: ignore[arg-type]
    with pytest.raises(CallerError, match="no run has the outcome 'failed': use one of natural, stopped"):
        ThreadFilter(outcome="failed").condition()  # type: ignore[arg-type]


def test_a_row_says_what_the_newest_run_does_or_how_it_ended() -> None:
    start: dict[str, object] = {"thread_id": "t1", "agent_id": "a", "title": "Hello", "started_at": 0}
    cases: dict[str, dict[str, object]] = {
        "waiting": {"status": RunStatus.WAITING},
        "done, closed": {"status": RunStatus.DONE, "outcome": "natural", "closed_as": "completed"},
        "error:resolve": {"status": RunStatus.DONE, "outcome": "error", "reason": "resolve"},
        "cancelled": {"status": RunStatus.DONE, "outcome": "cancelled", "reason": "cancelled"},
        "terminated": {"status": RunStatus.RUNNING, "closed_as": "terminated"},
        "?": {},
    }
    for word, fields in cases.items():
        head, row = thread_lines([ThreadSummary.model_validate(start | fields)])
        assert head.startswith("STATUS")
        assert row.startswith(f"{word} ")
        assert row.endswith("a      t1      Hello")


def test_under_a_row_is_what_else_is_known() -> None:
    thread = ThreadSummary(thread_id="t", started_at=0, pending=("1-1",), user="ada", runs=2, last_line="Bye.\x1b[2J")
    assert thread_lines([thread])[2:] == ["      2 runs · waits for 1 decision · user ada", "      Bye.\\u001b[2J"]
