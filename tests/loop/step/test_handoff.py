"""Handoff: another agent continues the run from its next step, and answers on the thread from then on."""

import pytest

from tests.loop.children import BILLING, PARENT, awaiting_tasks, mail_received, make_parent, spawn_call, tool_settled
from tests.loop.driving import AGENT, THREAD, Driver, after_continue_as_new, asks, call, ok, says
from wakeful.contract.budgets import Budget
from wakeful.contract.events import Handoff, StepEnd
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Blocked, Cancelled, Errored, NaturalEnd, OnBusy, ToolCallStatus
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tools import FrontendTool, ToolOutcome
from wakeful.loop.machine.commands import CancelWork, Infer, ResolveAgent
from wakeful.loop.machine.facts import AgentResolved, InferenceReturned, ToolReturned, WorkCancelled, WorkFailed
from wakeful.loop.machine.stages import AwaitingTasks, HandingOff, Idle
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.views import carryover, doing, status_view

HANDS_OVER = call("c1", "handoff_to_billing")


def handing_over(*, thread: bool = False) -> Driver:
    """A run that resolves the target of its handoff."""
    driver = Driver(PARENT, request=THREAD) if thread else Driver(PARENT)
    driver.model(asks(HANDS_OVER))
    return driver


def handed_over(*, thread: bool = False) -> Driver:
    driver = handing_over(thread=thread)
    driver.resolve(BILLING)
    return driver


def test_a_handoff_resolves_the_target_before_the_next_step() -> None:
    """B-033, B-520, B-522"""
    driver = handing_over()
    assert driver.tool_results == [("c1", "billing takes over from here")]
    assert driver.last.commands == (ResolveAgent("handoff-1", "billing"),)
    assert driver.last.events[-1] == StepEnd()
    assert driver.thread.stage == HandingOff("handoff-1", "billing")
    assert doing(driver.thread) == "handing off to billing"


def test_the_target_continues_the_same_run_with_the_whole_conversation() -> None:
    """B-521, B-522"""
    driver = handed_over()
    assert driver.last.events[0] == Handoff(from_agent="assistant", to_agent="billing")
    command = driver.inference()
    assert (command.agent, command.step, command.transcript.length) == (BILLING, 2, 3)
    driver.model(says("You owe 3."))
    assert (driver.result.run_id, driver.result.agent_id) == ("r1", "assistant")
    assert (driver.result.termination, driver.result.steps) == (NaturalEnd(), 2)
    assert (driver.thread.identity.agent_id, status_view(driver.thread).active_agent) == ("assistant", "billing")
    assert driver.event_types.count("run_start") == 1


def test_the_target_has_the_frontend_tools_of_the_run() -> None:
    """H-23"""
    request = RunRequest(agent_id="assistant", input="Hello", frontend_tools=(FrontendTool(id="pick"),))
    driver = Driver(PARENT, request=request)
    driver.model(asks(HANDS_OVER))
    driver.resolve(BILLING)
    assert driver.inference().frontend_tools == (FrontendTool(id="pick").descriptor(),)
    driver.model(asks(call("c2", "pick")))
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED]


def test_the_target_answers_the_next_run_too() -> None:
    """B-524"""
    driver = handed_over(thread=True)
    driver.model(says("You owe 3."))
    driver.submit("m1")
    assert driver.last.commands == (ResolveAgent("resolve-2", "billing"),)
    assert carryover(driver.thread).agent_id == "billing"
    driver.resolve(BILLING)
    driver.model(says("Still 3."))
    driver.submit("m2")
    assert driver.last.commands == (ResolveAgent("resolve-3", "billing"),)


def test_the_target_answers_a_woken_thread() -> None:
    """B-524"""
    driver = handed_over(thread=True)
    driver.model(says("You owe 3."))
    woken = Driver(None, request=THREAD, carryover=carryover(driver.thread))
    assert woken.commands == [ResolveAgent("resolve-2", "billing")]


def test_the_target_reads_the_mail() -> None:
    driver = handed_over(thread=True)
    driver.model(says("You owe 3."))
    driver.feed(mail_received())
    assert driver.last.commands == (ResolveAgent("resolve-2", "billing"),)


def test_a_target_that_cannot_be_resolved_blocks_the_run_without_a_step() -> None:
    """B-017, B-523"""
    driver = handing_over()
    driver.feed(WorkFailed("handoff-1", "agent not found: 'billing'"))
    assert driver.result.termination == Blocked(
        value="handoff resolve failed: agent not found: 'billing'", code="handoff"
    )
    assert [event.event_type for event in driver.last.events] == ["run_finish"]
    assert len(driver.commands_of(Infer)) == 1


def test_a_cancelled_resolution_of_the_target_blocks_the_run() -> None:
    driver = handing_over(thread=True)
    driver.feed(WorkCancelled("handoff-1"))
    assert driver.result.termination == Blocked(
        value="handoff resolve failed: it was cancelled from outside", code="handoff"
    )
    driver.submit("m1")
    assert driver.last.commands == (ResolveAgent("resolve-2", "assistant"),)


def test_the_last_of_several_handoffs_in_one_step_counts() -> None:
    driver = Driver(PARENT)
    driver.model(asks(HANDS_OVER, call("c2", "handoff_to_assistant")))
    assert driver.inference().agent == PARENT
    other = Driver(PARENT)
    other.model(asks(call("c2", "handoff_to_assistant"), HANDS_OVER))
    assert other.thread.stage == HandingOff("handoff-1", "billing")


def test_a_tool_can_hand_off() -> None:
    """B-524"""
    driver = Driver(PARENT)
    driver.model(asks(call("c1")))
    driver.feed(ToolReturned("tool-c1", ToolOutcome(result=ok("sunny"), handoff="billing")))
    assert driver.last.commands == (ResolveAgent("handoff-1", "billing"),)


def test_the_target_can_hand_back() -> None:
    driver = handed_over()
    driver.model(asks(call("c2", "handoff_to_assistant")))
    assert driver.last.commands == (ResolveAgent("handoff-2", "assistant"),)
    driver.resolve(PARENT)
    driver.model(says("Back again."))
    handoffs = [event for event in driver.events if isinstance(event, Handoff)]
    assert [event.to_agent for event in handoffs] == ["billing", "assistant"]


def test_a_handoff_of_a_run_that_stops_at_a_limit_applies_to_the_next_run() -> None:
    """H-24"""
    driver = Driver(make_parent(max_rounds=1), request=THREAD)
    driver.model(asks(HANDS_OVER))
    assert (driver.result.status_reason, driver.commands_of(ResolveAgent)[1:]) == ("stopped:max_rounds", [])
    assert carryover(driver.thread).agent_id == "billing"
    driver.submit("m1")
    assert driver.last.commands == (ResolveAgent("resolve-2", "billing"),)
    driver.resolve(BILLING)
    driver.model(says("You owe 3."))
    assert (driver.result.agent_id, driver.thread.active_agent) == ("billing", "billing")


def test_the_targets_budget_holds_for_the_rest_of_the_run() -> None:
    driver = handing_over()
    driver.resolve(BILLING.model_copy(update={"budget": Budget(turns=1)}))
    assert driver.result.status_reason == "stopped:budget"


def test_a_handoff_within_a_task_is_resolved_as_part_of_the_task() -> None:
    context = SubagentContext(path=("t0",), work_id="bg_0", task_id="bg_0")
    request = RunRequest(agent_id="assistant", input="Hello", parent_thread_id="t0", subagent=context)
    driver = Driver(PARENT, request=request)
    driver.model(asks(HANDS_OVER))
    assert [command.in_task for command in driver.commands_of(ResolveAgent)] == [True, True]


def test_a_run_that_is_cancelled_during_a_handoff_ends() -> None:
    driver = handing_over()
    driver.cancel()
    assert driver.last.commands == (CancelWork("handoff-1"),)
    driver.feed(AgentResolved("handoff-1", BILLING))
    assert (driver.result.termination, len(driver.commands_of(Infer))) == (Cancelled(), 1)


def test_a_handoff_in_flight_is_resolved_again_after_continue_as_new() -> None:
    driver = handing_over()
    driver.last = Advance(after_continue_as_new(driver.thread))
    assert pending_commands(driver.thread) == (ResolveAgent("handoff-1", "billing"),)
    driver.resolve(BILLING)
    driver.last = Advance(after_continue_as_new(driver.thread))
    driver.model(says("You owe 3."))
    assert driver.result.response == "You owe 3."


def test_a_message_that_arrives_during_a_handoff_is_read_by_the_target() -> None:
    driver = handing_over()
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.resolve(BILLING)
    assert (driver.texts[-1], driver.inference().agent.agent_id) == ("And then?", "billing")


def test_a_run_that_waits_for_tasks_hands_off_when_it_resumes() -> None:
    driver = awaiting_tasks(spawn_call("c1"))
    driver.feed(tool_settled("bg_0"))
    driver.model(asks(call("c2", "handoff_to_billing"), spawn_call("c3")))
    driver.resolve(BILLING)
    driver.model(says("I wait."))
    assert driver.thread.stage == AwaitingTasks()
    assert driver.thread.children.tasks[-1].parent_context.agent_id == "assistant"
    driver.feed(tool_settled("bg_1"))
    assert driver.inference().agent == BILLING


def test_a_resolution_that_ends_with_the_wrong_fact_blocks_the_run() -> None:
    driver = handing_over()
    driver.feed(InferenceReturned("handoff-1", says("?")))
    assert isinstance(driver.result.termination, Blocked)


@pytest.mark.parametrize("fact", [WorkFailed("resolve-1", "no such agent"), WorkCancelled("resolve-1")])
def test_an_agent_that_cannot_be_resolved_at_the_start_is_an_error(fact: WorkFailed) -> None:
    driver = Driver(None, request=THREAD)
    driver.feed(fact)
    assert isinstance(driver.result.termination, Errored)
    assert isinstance(driver.thread.stage, Idle)
    driver.submit("m1")
    driver.resolve(AGENT)
    driver.model(says("Here."))
    assert driver.result.response == "Here."
