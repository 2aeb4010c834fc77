"""Suspended calls: their tickets, the suspended run, and the events of both."""

import pytest
from pydantic import JsonValue

from tests.loop.driving import (
    AGENT,
    PARALLEL,
    Driver,
    asks,
    awaiting_decisions,
    call,
    ok,
    pending,
    resume,
    says,
    with_digest,
)
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.events import FinishSummary, RunFinish, RunStart, ToolCallDone, ToolCallOutcome
from wakeful.contract.runs import RunStatus, Suspended
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools
from wakeful.registry.remote_agents import remote_tools


def tickets(driver: Driver) -> list[SuspensionTicket]:
    assert driver.thread.batch is not None
    return [suspended.ticket for suspended in driver.thread.batch.suspended]


def test_a_pending_result_with_a_ticket_suspends_its_call_and_the_run() -> None:
    """B-310, B-313"""
    driver = Driver()
    driver.model(asks(call("c1")))
    result = pending("s1", mode=ResumeMode.PASS_DECISION_TO_TOOL)
    driver.tool("c1", result)
    ticket = with_digest(result.suspension)
    published = result.model_copy(update={"suspension": ticket})
    assert tickets(driver) == [ticket]
    assert driver.events_of("tool_call_done") == [
        ToolCallDone(id="c1", message_id="r1:3", result=published, outcome=ToolCallOutcome.SUSPENDED)
    ]
    assert (driver.thread.status, driver.last.commands) == (RunStatus.WAITING, ())


def test_a_pending_result_without_a_ticket_gets_a_default_one() -> None:
    """B-312; awaken: waiting_ticket_falls_back_to_tool_call_id_without_suspension_id"""
    driver = Driver()
    driver.model(asks(call("c1", arguments={"at": "Paris"})))
    driver.tool("c1", pending(message="May I?"))
    ticket = SuspensionTicket(
        suspension=Suspension(id="suspend_c1", action="tool:look", message="May I?"),
        pending=call("c1", arguments={"at": "Paris"}),
        resume_mode=ResumeMode.REPLAY_TOOL_CALL,
    )
    assert tickets(driver) == [with_digest(ticket)]


def test_a_frontend_tool_suspends_at_once_and_its_decision_will_be_its_result() -> None:
    """B-240"""
    driver = Driver()
    driver.model(asks(call("c1", "pick", {"of": ["red", "blue"]})))
    ticket = SuspensionTicket(
        suspension=Suspension(id="suspend_c1", action="tool:pick", parameters={"of": ["red", "blue"]}),
        pending=call("c1", "pick", {"of": ["red", "blue"]}),
        resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )
    ticket = with_digest(ticket)
    assert tickets(driver) == [ticket]
    assert driver.events_of("tool_call_done") == [
        ToolCallDone(
            id="c1",
            message_id="r1:3",
            result=ToolResult.suspended("pick", ticket),
            outcome=ToolCallOutcome.SUSPENDED,
        )
    ]
    assert driver.last.commands == ()


def test_a_suspension_ends_its_step_and_emits_run_finish_once() -> None:
    """B-313, H-18"""
    driver = awaiting_decisions()
    summary = FinishSummary(response="", status=RunStatus.WAITING, status_reason="suspended")
    identity = driver.thread.identity
    assert driver.events[-1] == RunFinish(
        thread_id="t1", run_id="r1", identity=identity, result=summary, termination=Suspended()
    )
    assert driver.event_types[-3:] == ["tool_call_done", "step_end", "run_finish"]
    assert driver.event_types.count("run_finish") == 1


def test_a_suspended_run_resumes_with_the_first_decision() -> None:
    """B-335"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    assert driver.last.events[0] == RunStart(thread_id="t1", run_id="r1", identity=driver.thread.identity)
    assert [event.event_type for event in driver.last.events] == ["run_start", "tool_call_decided"]
    assert driver.thread.status is RunStatus.RUNNING


def test_a_run_is_suspended_only_when_no_call_is_running() -> None:
    """I-06"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    assert isinstance(driver.thread.stage, CallingTools)
    driver.tool("c2", ok("sunny"))
    assert isinstance(driver.thread.stage, AwaitingDecisions)
    assert driver.event_types.count("run_finish") == 1


@pytest.mark.parametrize("chosen", ["same", "c1", "c2"], ids=["suspended twice", "own call id", "another call's id"])
def test_a_suspension_id_names_one_call_of_the_step(chosen: str) -> None:
    """B-321, I-05"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending(chosen))
    driver.tool("c2", pending(chosen))
    batch = driver.thread.batch
    assert batch is not None
    first, second = (batch.find(ticket.suspension.id) for ticket in tickets(driver))
    assert (first, second) == batch.suspended


@pytest.mark.parametrize("ids", [("a", "suspend_a"), ("suspend_a", "a")])
def test_the_suspension_id_of_a_frontend_call_is_unique_whatever_ids_the_model_chose(ids: tuple[str, str]) -> None:
    """B-240, B-321, I-05"""
    driver = Driver(PARALLEL)
    driver.model(asks(*(call(id, "pick") for id in ids)))
    batch = driver.thread.batch
    assert batch is not None
    assert tuple(batch.find(ticket.suspension.id) for ticket in tickets(driver)) == batch.suspended


def test_a_suspension_id_that_is_in_use_twice_still_names_one_call() -> None:
    """B-321, I-05"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    for id, chosen in (("c1", "s:c3"), ("c2", "s"), ("c3", "s")):
        driver.tool(id, pending(chosen))
    batch = driver.thread.batch
    assert batch is not None
    assert tuple(batch.find(ticket.suspension.id) for ticket in tickets(driver)) == batch.suspended


def test_watchers_see_the_suspension_id_that_decisions_use() -> None:
    """B-321, I-05: a decision with the id that an event has applies to the call of that event."""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("same"))
    driver.tool("c2", pending("same"))
    published = [event.result.suspension for event in driver.events if isinstance(event, ToolCallDone)]
    assert published == tickets(driver)


def test_a_call_can_suspend_any_number_of_times() -> None:
    """B-333"""
    driver = Driver()
    driver.model(asks(call("c1")))
    for number in range(3):
        driver.tool("c1", pending(f"s{number}"))
        assert [ticket.suspension.id for ticket in tickets(driver)] == [f"s{number}"]
        driver.decide(resume(f"s{number}"))
    driver.tool("c1", ok("sunny"))
    done = [event.outcome for event in driver.events if isinstance(event, ToolCallDone)]
    assert done == [ToolCallOutcome.SUSPENDED] * 3
    assert driver.event_types.count("tool_call_resumed") == 1
    assert len({command.id for command in driver.tool_commands("c1")}) == 4
    assert driver.tool_results == [("c1", "sunny")]


def test_a_resumed_step_is_followed_by_the_next_step() -> None:
    """B-335"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.tool("c1", ok("sunny"))
    driver.model(says("Sunny."))
    assert driver.event_types.count("step_start") == driver.event_types.count("step_end") == 2
    assert driver.event_types[-1] == "run_finish"
    assert driver.result.steps == 2


def test_the_question_of_a_remote_agent_is_the_message_of_its_suspension() -> None:
    asked: list[tuple[JsonValue, str | None]] = [({"question": "Which city?"}, "Which city?"), ({"question": 7}, None)]
    for arguments, message in (*asked, (None, None)):
        driver = Driver(AGENT.model_copy(update={"tools": remote_tools()}))
        driver.model(asks(call("c1", "remote_input", arguments)))
        [ticket] = tickets(driver)
        assert (ticket.suspension.message, ticket.suspension.parameters) == (message, arguments)
