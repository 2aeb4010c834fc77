"""Ways in which a run could escape the rules or the budget that bind it: each as a directed schedule."""

from tests.simulation.cases import LATER, LOOK, PAY, Case
from tests.simulation.scenario import FAIL, Call, scenario_of
from wakeful.contract.budgets import Budget
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import ThreadMode
from wakeful.contract.settings import RunSettings

DELEGATE: Call = ("agent_run_helper", {"prompt": "do"})
HAND_OFF: Call = ("handoff_to_lead", {})


def ruled(tool: str, behavior: Behavior) -> RunSettings:
    return RunSettings(permissions=(Rule(tool=tool, behavior=behavior),))


def denied_after_the_end_of_a_task() -> None:
    """A request denies a tool, and its run fails while a task runs: the end of the task begins a run that calls it."""
    settings = ruled("look", Behavior.DENY)
    with scenario_of("lead", [LATER], FAIL, [LOOK], mode=ThreadMode.THREAD, settings=settings) as scenario:
        scenario.go()
        scenario.move("wait 3000")
        scenario.go()
        scenario.end()


def two_tasks_of_one_budget() -> None:
    """A run with a budget leaves two turns and two tasks, whose ends begin two runs, one after the other."""
    answers = [LATER, LATER], FAIL, [LOOK], FAIL, [LOOK], [LOOK]
    settings = RunSettings(budget=Budget(turns=4))
    with scenario_of("lead", *answers, mode=ThreadMode.THREAD, settings=settings) as scenario:
        for _ in range(6):
            scenario.go()
            scenario.move("wait 1000")
        scenario.go()
        scenario.end()


def asked_of_a_delegate_that_allows_it() -> None:
    """A request asks about a tool that the policy of a delegate allows."""
    with scenario_of("lead", [DELEGATE], helper=[LOOK], settings=ruled("look", Behavior.ASK)) as scenario:
        scenario.go()
        assert [topic for _, _, topic in scenario.world.people.questions()] == [None]
        scenario.end()


def asked_after_a_handoff() -> None:
    """An agent that asks before it pays hands its thread off to one that does not."""
    with scenario_of("second", [HAND_OFF], [PAY], mode=ThreadMode.THREAD) as scenario:
        scenario.go()
        assert len(scenario.world.people.questions()) == 1
        scenario.end()


def delegate_of_a_small_budget() -> None:
    """A run with a budget of two turns delegates to an agent that would take more."""
    settings = RunSettings(budget=Budget(turns=2))
    with scenario_of("lead", [DELEGATE], helper=[LOOK], settings=settings) as scenario:
        scenario.go()
        scenario.end()


AUTHORITY_CASES = (
    Case(
        denied_after_the_end_of_a_task,
        "The run had no rules: it called the tool.",
        "rules lost by a task",
        "Violated: t1: look",
    ),
    Case(
        two_tasks_of_one_budget,
        "Each of the two runs had both turns that were left.",
        "budget spent again",
        "Violated: t1: a run with a budget of 4 turns",
    ),
    Case(
        asked_of_a_delegate_that_allows_it,
        "The delegate called the tool without a question.",
        "questions void",
        "AssertionError",
    ),
    Case(
        asked_after_a_handoff,
        "The agent that took over paid without a question.",
        "rules lost by a handoff",
        "AssertionError",
    ),
    Case(
        delegate_of_a_small_budget,
        "The tree took more turns than its budget has.",
        "no allowance",
        "Violated: t1: a run with a budget of 2 turns",
    ),
)
