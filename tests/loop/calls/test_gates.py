"""Gates: their verdicts on the calls of a step before any of them runs, and when calls are gated again."""

import pytest

from tests.loop.driving import (
    AGENT,
    PARALLEL,
    PICK,
    THREAD,
    Driver,
    after_continue_as_new,
    asks_gated,
    call,
    call_resumed,
    make_ticket,
    ok,
    pending,
    pending_with,
    reject,
    resume,
    says,
    with_digest,
)
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import ResumeMode
from wakeful.contract.events import ToolCallDone, ToolCallOutcome
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import Blocked, Cancelled, RunStatus, ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.stages import AwaitingDecisions, Cancelling, Idle, Inferring

NO = Block(reason="not here")
ASK = Suspend(ticket=make_ticket("s"))
KNOWN = SetResult(result=ToolResult.success("look", "cached"))
MODES = pytest.mark.parametrize("agent", [AGENT, PARALLEL], ids=["sequential", "parallel"])


@MODES
def test_a_blocked_call_ends_the_run_before_anything_of_its_step_runs(agent: ResolvedAgent) -> None:
    """B-017, B-230, B-232"""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), c1=NO))
    assert driver.tool_results == [("c1", "not here"), ("c2", TOOL_INTERRUPTED), ("c3", TOOL_INTERRUPTED)]
    assert (driver.result.termination, driver.result.status_reason) == (Blocked(value="not here"), "blocked:not here")
    assert driver.tool_commands("c2") == []
    (first_event, *_) = driver.events_of("tool_call_done")
    assert first_event == ToolCallDone(
        id="c1", message_id="r1:3", result=ToolResult.rejected("look", "not here"), outcome=ToolCallOutcome.FAILED
    )


@MODES
def test_a_verdict_on_a_tool_of_another_task_queue_is_final_at_once(agent: ResolvedAgent) -> None:
    foreign = tuple(tool.model_copy(update={"task_queue": "elsewhere"}) for tool in agent.tools)
    driver = Driver(agent.model_copy(update={"tools": foreign}))
    driver.model(asks_gated(call("c1"), call("c2"), c2=NO))
    if driver.thread.in_flight:
        driver.tool("c1", ok("sunny"))
    assert driver.tool_commands("c2") == []
    assert driver.result.status_reason == "blocked:not here"


@MODES
def test_a_call_after_a_running_one_is_gated_again_when_that_has_finished(agent: ResolvedAgent) -> None:
    """B-231: an earlier call may unlock a later one."""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), call("c2"), c2=NO))
    assert driver.thread.in_flight == {"tool-c1"}
    driver.tool("c1", ok("unlocked"))
    assert driver.thread.in_flight == {"tool-c2"}
    driver.tool("c2", ok("sunny"))
    assert driver.tool_results == [("c1", "unlocked"), ("c2", "sunny")]
    assert isinstance(driver.thread.stage, Inferring)


@MODES
def test_a_call_that_is_blocked_when_gated_again_ends_the_run_and_earlier_results_are_kept(
    agent: ResolvedAgent,
) -> None:
    """B-231, B-232"""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), c2=NO, c3=NO))
    driver.tool("c1", ok("done"))
    driver.block("c2", "still not here")
    assert driver.tool_results == [("c1", "done"), ("c2", "still not here"), ("c3", TOOL_INTERRUPTED)]
    assert driver.result.termination == Blocked(value="still not here")


REDACTED = ToolResult.error("look", "[card]")


@pytest.mark.parametrize(
    ("made", "read"),
    [(REDACTED, "[card]"), (pending("s1"), "card 8")],
    ids=["replaced", "a blocked call is not suspended"],
)
@pytest.mark.parametrize("with_answer", [True, False], ids=["with the answer", "just before"])
def test_the_model_reads_what_hooks_made_of_the_error_of_a_blocked_call(
    made: ToolResult, read: str, with_answer: bool
) -> None:
    """B-238"""
    driver = Driver(request=THREAD)
    driver.model(asks_gated(call("c1"), **({"c1": Block(reason="card 8", result=made)} if with_answer else {})))
    if not with_answer:
        driver.block("c1", "card 8", result=made)
    assert driver.tool_results == [("c1", read)]
    assert driver.result.termination == Blocked(value="card 8")


def test_a_gate_can_block_a_call_that_it_allowed_before() -> None:
    """B-231: an earlier call may lock a later one."""
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2")))
    driver.tool("c1", ok("locked"))
    driver.block("c2", "locked by c1")
    assert driver.tool_results == [("c1", "locked"), ("c2", "locked by c1")]
    assert driver.result.termination == Blocked(value="locked by c1")


def test_calls_that_are_gated_again_run_one_after_another() -> None:
    """B-231"""
    driver = Driver(PARALLEL)
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), call("c4"), c2=NO, c3=ASK))
    assert driver.thread.in_flight == {"tool-c1", "tool-c4"}
    driver.tool("c1", ok("sunny"))
    assert driver.thread.in_flight == {"tool-c2", "tool-c4"}
    driver.tool("c2", ok("sunny"))
    assert driver.thread.in_flight == {"tool-c3", "tool-c4"}


def test_calls_running_beside_a_blocked_call_are_cancelled_before_the_run_ends() -> None:
    """B-232"""
    driver = Driver(PARALLEL)
    driver.model(asks_gated(call("c1"), call("c2"), call("c3")))
    driver.block("c2", "not here")
    assert isinstance(driver.thread.stage, Cancelling)
    assert [command.id for command in driver.last.commands] == ["tool-c1", "tool-c3"]
    driver.tool("c1", ok("just done"))
    driver.block("c3", "nor here")
    assert driver.tool_results == [("c1", "just done"), ("c2", "not here"), ("c3", "nor here")]
    assert driver.result.termination == Blocked(value="not here")


def test_a_call_that_is_blocked_during_a_cancel_has_that_result_and_the_run_is_cancelled() -> None:
    driver = Driver()
    driver.model(asks_gated(call("c1")))
    driver.cancel()
    driver.block("c1", "not here", result=REDACTED)
    assert (driver.tool_results, driver.result.termination) == ([("c1", "[card]")], Cancelled())


def test_a_thread_whose_run_was_blocked_accepts_the_next_message() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks_gated(call("c1"), c1=NO))
    assert isinstance(driver.thread.stage, Idle)
    driver.submit("m1")
    driver.resolve()
    assert driver.inference().appended[-2] == driver.thread.transcript.messages[-2], "nothing else tells of the block"
    driver.model(says("Hello!"))
    assert driver.result.status_reason == "natural"


def test_queued_messages_start_the_next_run_after_a_blocked_one() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1")
    driver.model(asks_gated(call("c1"), c1=NO))
    assert (driver.thread.status, driver.thread.counters.runs) == (RunStatus.CREATED, 2)


@MODES
def test_a_call_that_a_gate_suspends_waits_and_the_others_run(agent: ResolvedAgent) -> None:
    """B-233"""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), call("c2"), c1=ASK))
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED, ToolCallStatus.RUNNING]
    assert driver.events_of("tool_call_done") == [
        ToolCallDone(
            id="c1",
            message_id="r1:3",
            result=ToolResult.suspended("look", with_digest(ASK.ticket)),
            outcome=ToolCallOutcome.SUSPENDED,
            gated=True,
        )
    ]
    driver.tool("c2", ok("sunny"))
    assert isinstance(driver.thread.stage, AwaitingDecisions)
    driver.decide(resume("c1", id="d1"))
    (run,) = driver.tool_commands("c1")
    assert run.resume is not None
    driver.tool("c1", ok("rainy"))
    assert driver.tool_results == [("c1", "rainy"), ("c2", "sunny")]
    assert driver.events_of("tool_call_resumed") == [call_resumed("c1", "rainy")]


def test_tool_gate_flush_suspension_backfills_rechecked_and_later_calls() -> None:
    """B-220, B-231: if the tool of the call before it suspends, a call to be gated again is interrupted unasked."""
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), c2=ASK))
    driver.tool("c1", pending("s1"))
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED, ToolCallStatus.FAILED, ToolCallStatus.FAILED]
    driver.decide(reject("c1"))
    assert driver.tool_results[1:] == [("c2", TOOL_INTERRUPTED), ("c3", TOOL_INTERRUPTED)]


@pytest.mark.parametrize("first", [True, False], ids=["both times", "only the second time"])
def test_a_call_that_is_suspended_when_gated_again_does_not_stop_the_others(first: bool) -> None:
    """B-231, B-233"""
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), **({"c2": ASK} if first else {})))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", pending("s2"), gated=True)
    assert driver.call_statuses == [ToolCallStatus.SUCCEEDED, ToolCallStatus.SUSPENDED, ToolCallStatus.RUNNING]


def test_a_tool_that_suspends_by_itself_stops_the_batch_whatever_the_gates_decided() -> None:
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2"), call("c3"), c2=ASK))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", pending("s2"))
    assert driver.call_statuses == [ToolCallStatus.SUCCEEDED, ToolCallStatus.SUSPENDED, ToolCallStatus.FAILED]


def test_calls_of_a_sequential_agent_that_are_resumed_together_run_one_by_one() -> None:
    """B-331"""
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2"), c1=ASK, c2=ASK))
    driver.decide(resume("c1"), resume("c2"))
    assert driver.call_statuses == [ToolCallStatus.RUNNING, ToolCallStatus.RESUMING]
    assert after_continue_as_new(driver.thread) == driver.thread
    driver.tool("c1", ok("sunny"))
    assert driver.call_statuses == [ToolCallStatus.SUCCEEDED, ToolCallStatus.RUNNING]
    driver.tool("c2", ok("rainy"))
    assert driver.tool_results == [("c1", "sunny"), ("c2", "rainy")]


def test_a_denied_call_stays_blocked_even_when_it_is_resumed() -> None:
    """B-337"""
    driver = Driver()
    driver.model(asks_gated(call("c1"), c1=ASK))
    driver.decide(resume("c1"))
    driver.block("c1", "denied")
    assert driver.events_of("tool_call_resumed") == [call_resumed("c1", {"error": "denied"}, "denied", has_failed=True)]
    assert driver.result.termination == Blocked(value="denied")


@MODES
@pytest.mark.parametrize(
    "result", [ToolResult.success("look", "cached"), ToolResult.error("look", "closed")], ids=["success", "error"]
)
def test_a_call_whose_result_is_set_does_not_run(agent: ResolvedAgent, result: ToolResult) -> None:
    """B-234"""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), c1=SetResult(result=result)))
    assert (driver.tool_results, driver.tool_commands("c1")) == ([("c1", result.text)], [])
    assert driver.event_types.count("tool_call_done") == 1
    assert driver.inference().appended[-1] == driver.thread.transcript.messages[-1]


def test_a_call_whose_result_is_set_to_pending_is_suspended() -> None:
    """B-310"""
    driver = Driver()
    driver.model(asks_gated(call("c1"), call("c2"), c1=SetResult(result=pending_with(make_ticket("s1")))))
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED, ToolCallStatus.RUNNING]


@MODES
def test_a_verdict_on_a_call_without_an_activity_is_final_at_once(agent: ResolvedAgent) -> None:
    """B-240: no worker could gate the call again."""
    driver = Driver(agent)
    driver.model(asks_gated(call("c1"), call("c2", "pick"), c2=KNOWN))
    driver.tool("c1", ok("sunny"))
    assert driver.tool_results == [("c1", "sunny"), ("c2", "cached")]


def test_a_blocked_frontend_call_ends_the_run_before_other_calls_start() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks_gated(call("c1"), call("c2", "pick"), c2=NO))
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED), ("c2", "not here")]
    assert driver.tool_commands("c1") == []


@pytest.mark.parametrize(
    ("mode", "shown"),
    [(ResumeMode.REPLAY_TOOL_CALL, {"of": 2}), (ResumeMode.PASS_DECISION_TO_TOOL, {"of": 3})],
)
def test_a_frontend_call_that_a_gate_suspended_is_then_performed_by_the_frontend(
    mode: ResumeMode, shown: dict[str, int]
) -> None:
    driver = Driver()
    gate = Suspend(ticket=make_ticket("may-i", mode=mode))
    driver.model(asks_gated(call("c1", PICK.id, {"of": 2}), c1=gate))
    driver.decide(resume("may-i", {"of": 3}))
    assert driver.thread.batch is not None
    (waiting,) = driver.thread.batch.suspended
    assert (waiting.ticket.suspension.id, waiting.ticket.pending.arguments) == ("suspend_c1", shown)
    driver.decide(resume("c1", "red"))
    assert (driver.tool_results, driver.tool_commands("c1")) == ([("c1", "red")], [])


def test_a_verdict_on_an_unknown_call_or_tool_is_ignored() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks_gated(call("c1", "fly"), call("c2"), c1=NO, c9=NO))
    driver.tool("c2", ok("sunny"))
    assert driver.tool_results == [("c1", "tool 'fly' not found"), ("c2", "sunny")]


def test_a_call_that_is_gated_again_does_not_wait_for_a_suspended_one() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks_gated(call("c1"), call("c2"), c2=NO))
    driver.tool("c1", pending("s1"))
    assert driver.thread.in_flight == {"tool-c2"}
