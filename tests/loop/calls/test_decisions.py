"""Decisions: what each does to its call; a batch is applied or refused as a whole."""

import pytest
from pydantic import JsonValue

from tests.loop.driving import (
    LOOK,
    PARALLEL,
    Driver,
    asks,
    awaiting_decisions,
    call,
    call_resumed,
    ok,
    pending,
    reject,
    resume,
    two_suspended,
    with_digest,
)
from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode, ToolCallResume
from wakeful.contract.events import RunStart, SignalRefused, ToolCallResumed
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.calls.batch import FinishedCall
from wakeful.loop.machine.commands import CallTool
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools, Inferring
from wakeful.loop.machine.state import Advance


@pytest.mark.parametrize("target", ["c1", "s1"], ids=["call id", "suspension id"])
def test_a_resumed_call_runs_again_with_its_own_arguments_and_the_decision_in_its_context(target: str) -> None:
    """B-321, B-322, B-331"""
    driver = Driver()
    driver.model(asks(call("c1", arguments={"at": "Paris"})))
    result = pending("s1")
    driver.tool("c1", result)
    driver.decide(resume(target, {"approved": True}, id="d1", actor="ann"))
    resumed = ToolCallResume(
        decision_id="d1", action=DecisionAction.RESUME, result={"approved": True}, actor="ann", updated_at=driver.now
    )
    assert driver.last.commands == (
        CallTool(
            id=driver.work_id_of("c1"),
            tool=LOOK,
            call=call("c1", arguments={"at": "Paris"}),
            resume=resumed,
            ticket=with_digest(result.suspension),
        ),
    )


def test_a_decision_can_become_the_arguments_of_the_call() -> None:
    """B-311"""
    driver = Driver()
    driver.model(asks(call("c1", arguments={"at": "?"})))
    driver.tool("c1", pending("s1", mode=ResumeMode.PASS_DECISION_TO_TOOL))
    driver.decide(resume("c1", {"at": "Paris"}))
    assert [command.call for command in driver.tool_commands("c1")] == [
        call("c1", arguments={"at": "?"}),
        call("c1", arguments={"at": "Paris"}),
    ]
    driver.tool("c1", ok("sunny"))
    assert driver.thread.transcript.messages[1].tool_calls == (call("c1", arguments={"at": "?"}),)


@pytest.mark.parametrize("frontend", [True, False])
def test_a_decision_can_be_the_result_of_the_call_without_running_it(frontend: bool) -> None:
    """B-240, B-311"""
    driver = Driver()
    driver.model(asks(call("c1", "pick" if frontend else "look")))
    if not frontend:
        driver.tool("c1", pending("s1", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT))
    executions = len(driver.tool_commands("c1"))
    driver.decide(resume("c1", {"colour": "red"}))
    assert driver.tool_results == [("c1", '{"colour":"red"}')]
    assert driver.events_of("tool_call_resumed") == [call_resumed("c1", {"colour": "red"})]
    assert len(driver.tool_commands("c1")) == executions
    as_the_model_reads_it = driver.thread.transcript.messages[-1].model_copy(update={"decisions": ()})
    assert driver.inference().appended == ("infer-1", as_the_model_reads_it)


@pytest.mark.parametrize(
    ("result", "payload", "text"),
    [
        (ok({"sky": "sunny"}), {"sky": "sunny"}, None),
        (ToolResult.success("look", {"sky": "sunny"}, "It is sunny."), {"sky": "sunny"}, "It is sunny."),
        (
            ok({"sky": "sunny"}).model_copy(update={"metadata": {"cached": True}}),
            {"data": {"sky": "sunny"}, "metadata": {"cached": True}},
            '{"sky":"sunny"}',
        ),
        (ToolResult.error("look", "no such city"), {"error": "no such city"}, "no such city"),
        (ToolResult.error("look", "x").model_copy(update={"message": None, "data": {"code": 7}}), {"code": 7}, None),
    ],
    ids=["success", "with a message", "with metadata", "error", "error without message"],
)
def test_a_replayed_call_that_finishes_emits_tool_call_resumed(
    result: ToolResult, payload: JsonValue, text: str | None
) -> None:
    """B-208, B-333"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.tool("c1", result)
    assert driver.events_of("tool_call_resumed") == [
        call_resumed("c1", payload, text, has_failed=result.status is ToolStatus.ERROR)
    ]
    assert driver.tool_results == [("c1", result.text)]


def test_a_replayed_call_without_a_result_reads_outcome_unknown() -> None:
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.tool_failed("c1", "its worker was lost")
    expected = (
        "outcome unknown: its worker was lost. It is not known whether 'look' took effect. "
        "Check before you call it again."
    )
    assert driver.tool_results == [("c1", expected)]
    assert driver.events_of("tool_call_resumed") == [call_resumed("c1", {"error": expected}, expected, has_failed=True)]


@pytest.mark.parametrize(
    ("decision", "text", "payload"),
    [
        (reject("c1"), "cancelled by decision", None),
        (reject("s1", "too dear"), "cancelled by decision: too dear", None),
        (reject("c1", result={"approved": False}), "cancelled by decision", {"approved": False}),
    ],
    ids=["plain", "with a reason", "with a result"],
)
def test_a_cancelled_call_is_an_error_the_model_reads_and_the_run_continues(
    decision: Decision, text: str, payload: JsonValue
) -> None:
    """B-330"""
    driver = awaiting_decisions()
    driver.decide(decision)
    started, _, resumed = driver.last.events[:3]
    assert (started, resumed) == (
        RunStart(thread_id="t1", run_id="r1", identity=driver.thread.identity),
        call_resumed("c1", payload, text, has_failed=True),
    )
    assert driver.tool_results == [("c1", text)]
    assert isinstance(driver.thread.stage, Inferring)
    assert len(driver.tool_commands("c1")) == 1


def test_a_cancelled_call_has_the_result_of_the_decision_as_its_data() -> None:
    driver = two_suspended()
    driver.decide(reject("c1", "no", result={"approved": False}))
    assert driver.thread.batch is not None
    result = ToolResult.error("look", "cancelled by decision: no").model_copy(update={"data": {"approved": False}})
    assert driver.thread.batch.find("c1") == FinishedCall(call("c1"), ToolCallStatus.CANCELLED, result)


def test_a_batch_cancels_first_and_then_resumes_each_in_call_order() -> None:
    """B-330, B-331; awaken: cancelled_resume_is_emitted_once_even_when_other_calls_replay"""
    driver = Driver(PARALLEL)
    driver.model(asks(*(call(id) for id in ("c4", "c3", "c2", "c1"))))
    for id in ("c1", "c2", "c3", "c4"):
        driver.tool(id, pending(f"s{id}", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT))
    driver.decide(resume("c1"), reject("c2"), resume("c3"), reject("c4"))
    resumed = [event.target_id for event in driver.last.events if isinstance(event, ToolCallResumed)]
    assert resumed == ["c4", "c2", "c3", "c1"]


def test_resumed_calls_start_in_call_order() -> None:
    """B-331"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c2"), call("c1")))
    driver.tool("c1", pending())
    driver.tool("c2", pending())
    driver.decide(resume("c1"), resume("c2"))
    assert driver.last.commands == (driver.tool_commands("c2")[-1], driver.tool_commands("c1")[-1])


def test_a_decision_for_one_of_two_calls_runs_it_and_suspends_the_run_again() -> None:
    """B-335, H-18"""
    driver = two_suspended()
    driver.decide(resume("c1"))
    assert isinstance(driver.thread.stage, CallingTools)
    driver.tool("c1", ok("sunny"))
    assert isinstance(driver.thread.stage, AwaitingDecisions)
    assert driver.event_types.count("run_finish") == 2
    driver.decide(reject("c2"))
    assert driver.tool_results == [("c1", "sunny"), ("c2", "cancelled by decision")]
    assert driver.event_types.count("run_start") == 3


def test_a_cancel_of_one_of_two_calls_suspends_the_run_again_at_once() -> None:
    """B-335, I-06"""
    driver = two_suspended()
    driver.decide(reject("c1"))
    assert [event.event_type for event in driver.last.events] == [
        *("run_start", "tool_call_decided", "tool_call_resumed", "run_finish")
    ]
    assert driver.call_statuses == [ToolCallStatus.CANCELLED, ToolCallStatus.SUSPENDED]


def test_a_completed_sibling_is_never_run_again() -> None:
    """I-04"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", pending("s2"))
    driver.decide(resume("c2"))
    driver.tool("c2", ok("rainy"))
    assert (len(driver.tool_commands("c1")), len(driver.tool_commands("c2"))) == (1, 2)
    assert driver.tool_results == [("c1", "sunny"), ("c2", "rainy")]


def test_a_decision_is_applied_while_another_call_is_running() -> None:
    """B-225; awaken: resumed_calls_do_not_serialize_neighboring_fresh_batches"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.decide(resume("c1"))
    assert driver.thread.in_flight == {driver.work_id_of("c1"), driver.work_id_of("c2")}
    assert driver.events_of("run_finish") == []


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ((resume("c9"),), "unknown key: tool call or suspension 'c9' not found"),
        ((resume("c1"), resume("c9")), "unknown key: tool call or suspension 'c9' not found"),
        ((resume("c1"), reject("c1")), "two decisions for call 'c1' in one batch"),
        ((resume("c1"), resume("s1")), "two decisions for call 'c1' in one batch"),
    ],
    ids=["unknown", "one of two unknown", "contradiction", "named in two ways"],
)
def test_a_batch_with_one_invalid_decision_is_refused_as_a_whole(batch: tuple[Decision, ...], reason: str) -> None:
    """B-323, H-02"""
    driver = two_suspended()
    before = driver.thread
    driver.decide(*batch)
    assert driver.last.events == (SignalRefused(signal="decide", reason=reason),)
    assert driver.last.commands == ()
    assert (driver.thread.stage, driver.refusal_reasons) == (before.stage, [reason])


def test_a_decision_for_a_finished_call_is_refused_with_its_whole_batch() -> None:
    """B-326, H-02"""
    driver = two_suspended()
    driver.decide(reject("c1"))
    before = driver.thread
    driver.decide(resume("c1"), resume("c2"))
    assert driver.refusal_reasons == ["call 'c1' was already denied"]
    assert driver.thread.stage == before.stage


def test_an_empty_batch_is_a_no_op() -> None:
    """B-328"""
    driver = awaiting_decisions()
    before = driver.thread
    assert driver.decide() == Advance(before)


@pytest.mark.parametrize("runs", [True, False])
def test_a_denied_call_runs_again_only_if_its_ticket_says_that_the_tool_passes_the_refusal_on(runs: bool) -> None:
    """B-830"""
    driver = Driver()
    driver.model(asks(call("c1")))
    asked = pending("s1")
    assert asked.suspension is not None
    ticket = asked.suspension.model_copy(update={"runs_if_denied": runs, "state": {"request_state": "opaque"}})
    driver.tool("c1", asked.model_copy(update={"suspension": ticket}))
    driver.decide(reject("c1", id="d1"))
    commands = [command for command in driver.last.commands if isinstance(command, CallTool)]
    assert [(each.resume and each.resume.action, each.ticket and each.ticket.state) for each in commands] == (
        [(DecisionAction.CANCEL, {"request_state": "opaque"})] if runs else []
    )
