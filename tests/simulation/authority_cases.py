"""Ways in which a run could escape the rules or the budget that bind it: each as a directed schedule."""

from tests.simulation.cases import LATER, LOOK, PAY, SPAWN, Case
from tests.simulation.scenario import FAIL, Call, scenario_of
from wakeful.contract.budgets import Budget
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import ThreadMode
from wakeful.contract.settings import RunSettings

DELEGATE: Call = ("agent_run_helper", {"prompt": "do"})
HAND_OFF: Call = ("handoff_to_lead", {})
COUNT: Call = ("count", {})
LATER_FOR_A_SECOND: Call = ("later", {"number": 1})
SPAWN_AIDE: Call = ("spawn_agent", {"agent": "aide", "prompt": "do", "name": "task"})
WRITE: Call = ("send_message", {"to": {"relation": "parent"}, "message": "look!"})
ALLOW_LOOK, ASK_LOOK, DENY_LOOK = (Rule(tool="look", behavior=behavior) for behavior in Behavior)


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


def denied_after_mail_of_a_task() -> None:
    """A request denies a tool, and its run fails: then its background agent writes to the thread, which calls it."""
    settings = ruled("look", Behavior.DENY)
    answers = [SPAWN_AIDE], FAIL, [LOOK]
    with scenario_of("lead", *answers, helper=[WRITE], mode=ThreadMode.THREAD, settings=settings) as scenario:
        scenario.go_without(children=False)
        scenario.go()
        scenario.end()


def mail_of_a_task_of_a_budget() -> None:
    """A run with a budget of four turns takes two, and its background agent writes to the thread, which takes more."""
    answers = [SPAWN_AIDE], FAIL, [LOOK], [LOOK], [LOOK]
    settings = RunSettings(budget=Budget(turns=4))
    with scenario_of("lead", *answers, helper=[WRITE], mode=ThreadMode.THREAD, settings=settings) as scenario:
        scenario.go_without(children=False)
        scenario.go()
        scenario.end()


def denied_after_a_wake() -> None:
    """The end of a task waits unread when its thread is closed, and the thread is woken by mail of a stranger."""
    settings = ruled("look", Behavior.DENY)
    with scenario_of("lead", [SPAWN], FAIL, [LOOK], mode=ThreadMode.THREAD, settings=settings) as scenario:
        scenario.go_without(children=False)
        scenario.move("close t1", "stray t1 mail 1")
        scenario.go()
        scenario.end()


def denied_after_the_end_of_a_second_task() -> None:
    """Between two tasks of a run a tool adds a rule that denies a call: the end of the second begins a run with it."""
    answers = [LATER], [COUNT], [LATER_FOR_A_SECOND], FAIL, [LOOK]
    with scenario_of("lead", *answers, mode=ThreadMode.THREAD, added={"2-1": DENY_LOOK}) as scenario:
        scenario.go()
        scenario.move("wait 1000")
        scenario.go()
        scenario.end()


def asked_although_a_tool_allows_it() -> None:
    """A request asks about a tool that another tool allows."""
    settings = ruled("look", Behavior.ASK)
    with scenario_of("second", [COUNT], [LOOK], settings=settings, added={"1-1": ALLOW_LOOK}) as scenario:
        scenario.go()
        assert len(scenario.world.people.questions()) == 1
        scenario.end()


def denied_to_a_delegate() -> None:
    """A request denies a tool that the policy of a delegate allows."""
    with scenario_of("lead", [DELEGATE], helper=[LOOK], settings=ruled("look", Behavior.DENY)) as scenario:
        scenario.go()
        assert scenario.world.people.questions() == []
        scenario.end()


def denied_background_tool_of_a_sub_agent() -> None:
    """A request denies a background tool that the policy of a background agent allows."""
    with scenario_of("lead", [SPAWN_AIDE], helper=[LATER], settings=ruled("later", Behavior.DENY)) as scenario:
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
    Case(
        denied_after_mail_of_a_task,
        "The run had no rules: it called the tool.",
        "rules lost by mail",
        "Violated: t1: look",
    ),
    Case(
        mail_of_a_task_of_a_budget,
        "The run had no budget.",
        "budget lost by mail",
        "Violated: t1: a run with a budget of 4 turns",
    ),
    Case(
        denied_after_a_wake,
        "The run had no rules: it called the tool.",
        "unread mail unbound",
        "Violated: t1: look",
    ),
    Case(
        denied_after_the_end_of_a_second_task,
        "The run had the rules of the time when the first task was started: it called the tool.",
        "rules of hooks lost by a task",
        "Violated: t1: look",
    ),
    Case(
        asked_although_a_tool_allows_it,
        "The tool was called without a question.",
        "hooks decide",
        "AssertionError",
    ),
    Case(
        denied_to_a_delegate,
        "The delegate asked, and called the tool.",
        "denials asked",
        "AssertionError",
    ),
    Case(
        denied_background_tool_of_a_sub_agent,
        "The tool was started.",
        "denied tasks start",
        "Violated: t1/aide",
    ),
)
