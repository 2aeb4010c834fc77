"""Cancel: the run cancels its commands in flight, ends when they have ended, and keeps their results."""

import pytest

from tests.loop.driving import (
    AGENT,
    LIVE_STAGES,
    PARALLEL,
    THREAD,
    Driver,
    asks,
    awaiting_decisions,
    call,
    call_resumed,
    calling_tools,
    cancelling,
    inferring,
    ok,
    pending,
    resolving,
    resume,
    says,
    with_hooks,
)
from wakeful.contract.events import (
    InferenceComplete,
    ReasoningDelta,
    RunStart,
    StepEnd,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
)
from wakeful.contract.hooks import LifecyclePhase
from wakeful.contract.inference import Interruption, RecoveryPlan
from wakeful.contract.names import OUTCOME_UNKNOWN, TOOL_INTERRUPTED
from wakeful.contract.runs import Cancelled, RunStatus, Usage
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.machine.commands import CancelWork
from wakeful.loop.machine.facts import AgentResolved, Fact, InferenceReturned, ToolReturned, WorkCancelled, WorkFailed
from wakeful.loop.machine.stages import Cancelling
from wakeful.loop.machine.state import Advance


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_cancelled_run_always_ends_as_cancelled(stage: str) -> None:
    """B-018, H-06, H-12, I-02"""
    driver = LIVE_STAGES[stage]()
    driver.cancel("enough")
    for id in sorted(driver.thread.in_flight):
        driver.feed(WorkCancelled(id))
    assert (driver.result.termination, driver.result.status_reason) == (Cancelled(), "cancelled")
    assert driver.result.detail == "enough"
    assert driver.event_types[-1] == "run_finish"
    assert driver.event_types.count("step_start") == driver.event_types.count("step_end")


@pytest.mark.parametrize("stage", ["resolving", "inferring", "calling tools"])
def test_a_cancelled_run_waits_until_the_commands_in_flight_have_ended(stage: str) -> None:
    """H-10"""
    driver = LIVE_STAGES[stage]()
    (id,) = driver.thread.in_flight
    assert driver.cancel().commands == (CancelWork(id),)
    assert (driver.thread.status, driver.last.events) == (RunStatus.RUNNING, ())
    assert driver.thread.in_flight == {id}
    driver.feed(WorkCancelled(id))
    assert driver.thread.status is RunStatus.DONE


def test_every_parallel_call_is_cancelled_and_waited_for() -> None:
    """H-10"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c2", ok("sunny"))
    driver.cancel()
    assert driver.last.commands == (CancelWork(driver.work_id_of("c1")), CancelWork(driver.work_id_of("c3")))
    driver.tool_cancelled("c3")
    assert isinstance(driver.thread.stage, Cancelling)
    driver.tool_cancelled("c1")
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED), ("c2", "sunny"), ("c3", TOOL_INTERRUPTED)]


@pytest.mark.parametrize("stage", ["resolving", "inferring", "calling tools"])
def test_a_second_cancel_is_a_no_op(stage: str) -> None:
    driver = LIVE_STAGES[stage]()
    driver.cancel("first")
    before = driver.thread
    assert driver.cancel("second") == Advance(before)
    for id in driver.thread.in_flight:
        driver.feed(WorkCancelled(id))
    assert driver.result.detail == "first"


@pytest.mark.parametrize(
    ("first", "second", "close", "detail"),
    [
        (None, "second", False, "second"),
        (None, "second", True, "second"),
        ("first", None, True, "first"),
        ("first", "second", True, "first; second"),
        ("same", "same", True, "same"),
        (None, None, True, None),
    ],
)
def test_a_run_that_is_cancelled_twice_keeps_the_reasons(
    first: str | None, second: str | None, close: bool, detail: str | None
) -> None:
    driver = inferring()
    driver.cancel(first)
    driver.cancel(second, close=close)
    driver.cancel_in_flight()
    assert driver.result.detail == detail


def test_a_second_reason_to_close_a_thread_that_is_closing_is_kept_if_there_was_none() -> None:
    driver = inferring()
    driver.cancel(close=True)
    driver.cancel("second", close=True)
    driver.cancel_in_flight()
    assert driver.result.detail == "second"


def test_a_thread_that_is_closed_while_the_last_hooks_run_keeps_the_reason() -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_END), request=THREAD)
    driver.model(says("Hello!"))
    driver.cancel("not kept")  # the run is ending already, and is not cancelled
    driver.cancel("shutting down", close=True)
    driver.hooks()
    assert (driver.result.status_reason, driver.result.detail) == ("natural", "shutting down")


def test_a_run_that_waits_for_a_decision_is_cancelled_at_once() -> None:
    """B-339, H-06"""
    driver = awaiting_decisions()
    driver.cancel("enough")
    assert [event.event_type for event in driver.last.events] == ["run_start", "tool_call_cancel", "run_finish"]
    assert driver.last.events[:2] == (
        RunStart(thread_id="t1", run_id="r1", identity=driver.thread.identity),
        ToolCallCancel(id="c1", name="look", reason="the run ended"),
    )
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED)]
    assert (driver.thread.batch, driver.last.commands) == (None, ())


def test_an_agent_that_is_resolved_while_cancelling_starts_nothing() -> None:
    """B-032"""
    driver = resolving()
    driver.cancel()
    driver.feed(AgentResolved("resolve-1", AGENT))
    assert (driver.last.commands, driver.event_types) == ((), ["message_received", "run_start", "run_finish"])
    assert driver.result.steps == 0


def test_an_answer_during_a_cancel_is_counted_and_emitted_but_not_kept() -> None:
    """B-116"""
    driver = inferring()
    driver.cancel()
    in_vain = asks(call("c1"), text="In vain", usage=Usage(total_tokens=9))
    driver.model(in_vain.model_copy(update={"reasoning": "Hm."}))
    assert (driver.result.usage, driver.result.response) == (Usage(total_tokens=9), "")
    assert driver.texts == ["Hello"]
    assert driver.last.events[:-1] == (
        ReasoningDelta(delta="Hm."),
        TextDelta(delta="In vain"),
        InferenceComplete(model="model-1", usage=Usage(total_tokens=9), duration_ms=20),
        StepEnd(discarded=True),
    )
    assert driver.event_types[-1] == "run_finish"


def test_an_interrupted_answer_during_a_cancel_is_emitted_as_far_as_it_came() -> None:
    """B-116, B-136"""
    driver = inferring()
    driver.cancel()
    broken = Interruption(cause="idle stall", plan=RecoveryPlan.RESTART)
    driver.model(says("Hel").model_copy(update={"interruptions": (broken,)}))
    assert driver.last.events[:2] == (StreamReset(reason="idle stall"), TextDelta(delta="Hel"))


def test_a_wrong_fact_during_a_cancel_is_not_the_result_of_the_tool() -> None:
    driver = calling_tools()
    driver.cancel()
    driver.feed(InferenceReturned(driver.work_id_of("c1"), says("?")))
    assert (driver.result.termination, driver.tool_results[0]) == (Cancelled(), ("c1", TOOL_INTERRUPTED))


def test_a_tool_that_finishes_while_cancelling_keeps_its_result() -> None:
    """I-04"""
    driver = calling_tools()
    driver.cancel()
    driver.tool("c1", ok("sunny"))
    assert driver.events_of("tool_call_done", "tool_call_cancel") == [
        ToolCallDone(id="c1", message_id="r1:3", result=ok("sunny"), outcome=ToolCallOutcome.SUCCEEDED),
        ToolCallCancel(id="c2", name="pay", reason="the run ended"),
    ]
    assert driver.tool_results == [("c1", "sunny"), ("c2", TOOL_INTERRUPTED)]


def test_a_tool_that_fails_while_cancelling_keeps_its_error() -> None:
    driver = calling_tools()
    driver.cancel()
    driver.tool("c1", ToolResult.error("look", "no such city"))
    assert driver.tool_results == [("c1", "no such city"), ("c2", TOOL_INTERRUPTED)]


def test_a_tool_whose_worker_is_lost_while_cancelling_has_an_unknown_outcome() -> None:
    """H-10"""
    driver = calling_tools()
    driver.cancel()
    driver.tool_failed("c1", "its worker was lost")
    assert driver.tool_results[0][1].startswith(f"{OUTCOME_UNKNOWN}: its worker was lost")


def test_a_tool_that_raises_while_cancelling_keeps_its_error() -> None:
    driver = calling_tools()
    driver.cancel()
    driver.tool_failed("c1", "Execution failed: no such city", is_result=True)
    assert driver.tool_results == [("c1", "Execution failed: no such city"), ("c2", TOOL_INTERRUPTED)]


def test_a_resumed_tool_that_finishes_while_cancelling_emits_tool_call_resumed() -> None:
    """H-11"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.cancel()
    assert driver.last.commands == (CancelWork(driver.work_id_of("c1")),)
    driver.tool("c1", ok("sunny"))
    assert driver.events_of("tool_call_resumed") == [call_resumed("c1", "sunny")]
    assert driver.tool_results == [("c1", "sunny")]


def test_a_tool_that_suspends_while_cancelling_is_interrupted() -> None:
    driver = cancelling()
    driver.tool("c1", pending("s1"))
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED), ("c2", TOOL_INTERRUPTED)]
    assert driver.events_of("tool_call_done") == []


def test_a_suspended_call_is_cancelled_with_its_running_sibling() -> None:
    """H-06"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.cancel()
    assert driver.last.commands == (CancelWork(driver.work_id_of("c2")),)
    driver.tool("c2", ok("sunny"))
    assert driver.tool_results == [("c1", TOOL_INTERRUPTED), ("c2", "sunny")]


def test_a_repeated_result_of_cancelled_work_is_a_no_op() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.cancel()
    driver.tool_cancelled("c1")
    before = driver.thread
    assert driver.tool_cancelled("c1") == Advance(before)


@pytest.mark.parametrize(
    "fact",
    [
        WorkFailed("infer-1", "503"),
        AgentResolved("infer-1", AGENT),
        ToolReturned("infer-1", ToolOutcome(result=ok("sunny"))),
    ],
    ids=["failed", "wrong fact", "wrong fact of a tool"],
)
def test_any_result_of_cancelled_work_ends_the_cancelled_run(fact: Fact) -> None:
    driver = inferring()
    driver.cancel()
    driver.feed(fact)
    assert driver.result.termination == Cancelled()


def test_an_answer_after_the_cancel_is_ignored() -> None:
    driver = inferring()
    driver.cancel()
    ended = driver.feed(WorkCancelled("infer-1")).thread
    assert driver.feed(InferenceReturned("infer-1", says("Late"))) == Advance(ended)
