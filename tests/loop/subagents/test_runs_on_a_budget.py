"""A run with a budget, driven through `advance`: calls that do not run, budget requests, and waiting."""

import pytest

from tests.loop.children import BILLING, PARENT, child_settled, delegate_call, spawn_call
from tests.loop.driving import Driver, after_continue_as_new, asks, call, ok, says, without_run
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.names import SIGNAL_BUDGET_GRANT, SIGNAL_BUDGET_REQUEST
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Blocked, Errored
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, SubagentContext
from wakeful.contract.views import WaitingFor
from wakeful.loop.machine.commands import Infer, SendSignal
from wakeful.loop.machine.facts import AgentResolved, BudgetGranted, BudgetRequested, Delivered, WorkFailed
from wakeful.loop.machine.stages import AwaitingBudget
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.views import doing, status_view


def with_budget(budget: Budget) -> Driver:
    return Driver(PARENT, request=RunRequest(agent_id="assistant", input="Hello", budget=budget))


def subagent_with(turns: int) -> Driver:
    """A delegate of `t0` with an allowance of this many turns."""
    context = SubagentContext(path=("t0",), work_id="delegate-c9", allowance=Budget(turns=turns))
    return Driver(PARENT, request=RunRequest(agent_id="assistant", input="Hi", parent_thread_id="t0", subagent=context))


def short_of_turns() -> Driver:
    driver = subagent_with(turns=1)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    return driver


NO_PRICE = (
    "the run has a cost budget, which cannot limit agent {!r}: these models have no price: 'main', 'backup'; set "
    "prices in the registry, or limit tokens instead"
).format
UNPRICED = ("main", "backup")


@pytest.mark.parametrize(
    "request_",
    [
        RunRequest(agent_id="assistant", input="Hello", budget=Budget(cost=1)),
        RunRequest(
            agent_id="assistant",
            input="Hello",
            parent_thread_id="t0",
            subagent=SubagentContext(path=("t0",), work_id="delegate-c9", allowance=Budget(cost=1)),
        ),
    ],
    ids=["of the run", "of its parent"],
)
def test_a_cost_budget_ends_a_run_whose_models_have_no_price(request_: RunRequest) -> None:
    """It would not limit it, and the person who set it would not know."""
    driver = Driver(None, request=request_)
    driver.feed(AgentResolved("resolve-1", PARENT, unpriced=UNPRICED))
    assert driver.result.termination == Errored(value=NO_PRICE("assistant"), code="no_price")
    assert driver.result.steps == 0


@pytest.mark.parametrize(
    ("budget", "unpriced"), [(Budget(tokens=100), UNPRICED), (Budget(cost=1), ()), (None, UNPRICED)]
)
def test_a_run_starts_whose_budget_can_be_kept(budget: Budget | None, unpriced: tuple[str, ...]) -> None:
    driver = Driver(None, request=RunRequest(agent_id="assistant", input="Hello", budget=budget))
    driver.feed(AgentResolved("resolve-1", PARENT, unpriced=unpriced))
    driver.model(says("Hello!"))
    assert driver.result.status_reason == "natural"


def test_a_run_with_a_cost_budget_is_not_handed_off_to_an_agent_whose_models_have_no_price() -> None:
    driver = with_budget(Budget(cost=1))
    driver.model(asks(call("c1", "handoff_to_billing")))
    driver.feed(AgentResolved("handoff-1", BILLING, unpriced=UNPRICED))
    assert driver.result.termination == Blocked(value=f"handoff resolve failed: {NO_PRICE('billing')}", code="handoff")


def test_calls_beyond_the_budget_do_not_run_and_the_run_stops() -> None:
    driver = with_budget(Budget(tool_calls=1))
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok("sunny"))
    assert driver.tool_results == [
        ("c1", "sunny"),
        ("c2", "the call was not executed: the run's budget of tool calls is spent"),
    ]
    assert (driver.result.status_reason, driver.tool_commands("c2")) == ("stopped:budget", [])
    assert driver.result.spent == Spent(turns=1, tool_calls=1)


def test_a_run_that_needs_no_more_calls_ends_naturally() -> None:
    driver = with_budget(Budget(tool_calls=1))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.model(says("Sunny."))
    assert driver.result.status_reason == "natural"


def test_a_sub_agent_that_has_spent_its_allowance_requests_more_from_its_parent_and_waits() -> None:
    driver = short_of_turns()
    assert isinstance(driver.thread.stage, AwaitingBudget)
    (request,) = driver.last.commands
    assert isinstance(request, SendSignal)
    assert (request.thread_id, request.signal) == ("t0", SIGNAL_BUDGET_REQUEST)
    assert doing(driver.thread) == "asking its parent for more turns"
    assert status_view(driver.thread).waiting_for is WaitingFor.BUDGET
    assert pending_commands(after_continue_as_new(driver.thread)) == ()
    driver.feed(Delivered(request.id))
    driver.feed(BudgetGranted(BudgetGrant(allowance=Budget(turns=2))))
    driver.model(says("Done."))
    assert (driver.result.response, driver.result.steps) == ("Done.", 2)


def test_a_sub_agent_whose_parent_refuses_or_cannot_be_reached_stops() -> None:
    refused = short_of_turns()
    refused.feed(BudgetGranted(BudgetGrant(refused="turns")))
    lost = short_of_turns()
    lost.feed(WorkFailed(lost.last.commands[0].id, "recipient_unavailable"))
    assert [driver.result.status_reason for driver in (refused, lost)] == ["stopped:budget", "stopped:budget"]
    assert len(lost.commands_of(Infer)) == 1


def test_a_grant_that_arrives_while_the_run_is_busy_changes_only_its_allowance() -> None:
    driver = subagent_with(turns=5)
    stage = driver.thread.stage
    driver.feed(BudgetGranted(BudgetGrant(allowance=Budget(turns=9))))
    assert (driver.thread.stage, driver.thread.current.budget.allowance, driver.last.commands) == (
        stage,
        Budget(turns=9),
        (),
    )


def test_a_grant_that_arrives_before_the_first_run_of_a_woken_thread_is_a_no_op() -> None:
    driver = without_run()
    before = driver.thread
    assert driver.feed(BudgetGranted(BudgetGrant(allowance=Budget(turns=9)))) == Advance(before)


def test_a_parent_grants_more_while_it_waits_for_its_delegate() -> None:
    driver = with_budget(Budget(turns=9))
    driver.model(asks(delegate_call("c1")))
    driver.feed(BudgetRequested(BudgetRequest(work_id="delegate-c1", thread_id="t1/delegate-c1", spent=Spent(turns=4))))
    (answer,) = driver.last.commands
    assert isinstance(answer, SendSignal)
    assert (answer.thread_id, answer.signal) == ("t1/delegate-c1", SIGNAL_BUDGET_GRANT)
    driver.feed(child_settled("delegate-c1", spent=Spent(turns=5)))
    assert driver.thread.current.budget.descendants == Spent(turns=5)


def test_a_run_waits_for_its_tasks_to_release_budget() -> None:
    driver = with_budget(Budget(turns=2))
    driver.model(asks(spawn_call("c1")))
    assert driver.thread.stage == AwaitingBudget("turns", asked_parent=False)
    assert doing(driver.thread) == "waiting for its tasks to release turns"
    driver.feed(child_settled("bg_0", spent=Spent(turns=0)))
    assert driver.inference().id == "infer-2"
    driver.model(says("Done."))
    assert driver.result.status_reason == "natural"
