"""The agents of a tree are counted: every sub-agent is granted by the root before it starts."""

from tests.loop.children import (
    PARALLEL_PARENT,
    PARENT,
    cancel_call,
    child_settled,
    delegate_call,
    idle_with_task,
    make_parent,
    spawn_call,
    start_without_ids,
    with_tasks,
)
from tests.loop.driving import NO_INPUT, REQUEST, Driver, after_continue_as_new, asks, call, ok, says, thread_id_of
from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.budgets import DEFAULT_AGENTS, Budget, Spent
from wakeful.contract.names import SIGNAL_BUDGET_GRANT, SIGNAL_BUDGET_REQUEST
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, NaturalEnd
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, SubagentContext
from wakeful.loop.machine.commands import SendSignal, StartChild
from wakeful.loop.machine.facts import BudgetGranted, BudgetRequested, Delivered, LoopFailed, WorkFailed
from wakeful.loop.machine.revisions import AGENTS_ARE_COUNTED
from wakeful.loop.machine.stages import Done, Idle
from wakeful.loop.subagents.tree import stops_children
from wakeful.loop.thread.views import carryover, doing, status_view

CHILD = REQUEST.model_copy(
    update={
        "parent_thread_id": "t0",
        "parent_run_id": "r0",
        "subagent": SubagentContext(path=("t0",), work_id="bg_7", counted=True),
    }
)
"""The request of a sub-agent whose parent counts."""


def limited(agents: int, request: RunRequest = REQUEST) -> RunRequest:
    return request.model_copy(update={"budget": Budget(agents=agents)})


def sub_agent(*, request: RunRequest = CHILD, agent: ResolvedAgent = PARALLEL_PARENT) -> Driver:
    return Driver(agent, request=request)


def wants(agents: int, work_id: str = "bg_0") -> BudgetRequested:
    """A sub-agent asks for so many agents."""
    request = BudgetRequest(work_id=work_id, thread_id=thread_id_of(work_id), spent=Spent(), agents=agents)
    return BudgetRequested(request)


def granted(agents: int, refused: str | None = None) -> BudgetGranted:
    return BudgetGranted(BudgetGrant(agents=agents, refused=refused))


def asked(driver: Driver) -> list[int]:
    """For how many agents the run has asked its parent, request by request."""
    signals = [each for each in driver.commands_of(SendSignal) if each.signal == SIGNAL_BUDGET_REQUEST]
    assert {each.thread_id for each in signals} <= {"t0"}
    return [each.payload.agents for each in signals if isinstance(each.payload, BudgetRequest)]


def answers(driver: Driver) -> list[tuple[str, int | None, str | None]]:
    """What the run has answered its sub-agents: the thread, the number of agents, and why no more."""
    signals = [each for each in driver.commands_of(SendSignal) if each.signal == SIGNAL_BUDGET_GRANT]
    grants = [(each.thread_id, each.payload) for each in signals]
    return [(id, grant.agents, grant.refused) for id, grant in grants if isinstance(grant, BudgetGrant)]


def started(driver: Driver) -> int:
    return len(driver.commands_of(StartChild))


# The root


def test_the_root_starts_as_many_agents_as_its_limit_allows_and_the_next_call_fails() -> None:
    driver = Driver(PARENT, request=limited(2))
    driver.model(asks(spawn_call("c1"), spawn_call("c2"), spawn_call("c3")))
    assert started(driver) == 2
    assert driver.tool_results[-1] == (
        "c3",
        "Execution failed: no sub-agent was started: the limit of agents is reached: thread t1 and its sub-agents may "
        "start 2 (`agents` of its budget). Continue without it: do the work yourself, or use the results that you "
        "have.",
    )
    assert asked(driver) == []


def test_delegates_count_too_and_an_agent_that_has_ended_still_counts() -> None:
    driver = Driver(PARENT, request=limited(1))
    driver.model(asks(delegate_call("c1")))
    driver.feed(child_settled("delegate-c1"))
    driver.model(asks(delegate_call("c2")))
    assert started(driver) == 1
    assert "the limit of agents is reached" in dict(driver.tool_results)["c2"]


def test_a_tree_has_a_limit_by_default() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.feed(wants(DEFAULT_AGENTS))
    assert answers(driver) == [
        (
            "t1/bg_0",
            DEFAULT_AGENTS - 1,
            f"the limit of agents is reached: thread t1 and its sub-agents may start {DEFAULT_AGENTS} (`agents` of its "
            "budget)",
        )
    ]
    driver.model(asks(spawn_call("c9")))
    assert started(driver) == 1


def test_a_limit_of_none_allows_no_agents() -> None:
    driver = Driver(PARENT, request=limited(0))
    driver.model(asks(spawn_call("c1")))
    assert started(driver) == 0
    assert "may start 0" in driver.tool_results[-1][1]


def test_the_root_grants_what_its_limit_allows() -> None:
    driver = with_tasks(spawn_call("c1"), driver=Driver(PARENT, request=limited(4)))
    driver.feed(wants(2), wants(2), wants(1))
    why = "the limit of agents is reached: thread t1 and its sub-agents may start 4 (`agents` of its budget)"
    assert answers(driver) == [("t1/bg_0", 2, None), ("t1/bg_0", 1, why), ("t1/bg_0", 0, why)]
    sent = [each.id for each in driver.commands_of(SendSignal)]
    assert len(set(sent[:2])) == 2  # answers in flight have ids of their own


def test_runs_of_an_older_revision_count_nothing() -> None:
    driver = Driver(PARENT, request=limited(0), revision=AGENTS_ARE_COUNTED - 1)
    driver.model(asks(spawn_call("c1")))
    assert [each.counted for each in driver.commands_of(StartChild)] == [False]
    driver.cancel()
    assert not stops_children(driver.thread)


# A sub-agent


def test_a_sub_agent_asks_before_it_starts_agents_and_for_all_of_a_step_at_once() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1"), spawn_call("c2"), call("c3")))
    assert (started(driver), asked(driver)) == (0, [2])
    assert doing(driver.thread) == "running look"
    driver.tool("c3", ok("seen"))
    assert doing(driver.thread) == "asking its parent for more agents"
    driver.feed(granted(2))
    assert (started(driver), asked(driver)) == (2, [2])


def test_calls_that_start_nothing_do_not_wait_in_a_step_that_is_executed_in_order() -> None:
    driver = sub_agent(agent=PARENT)
    driver.model(asks(call("c1"), spawn_call("c2")))
    driver.tool("c1", ok("seen"))
    assert (started(driver), asked(driver)) == (0, [1])
    driver.feed(granted(1))
    assert started(driver) == 1


def test_a_request_survives_continue_as_new() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    thread = after_continue_as_new(driver.thread)
    driver.last = driver.last.__class__(thread)
    driver.feed(granted(1))
    assert started(driver) == 1


def test_what_is_refused_fails_and_the_run_never_asks_again() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1"), spawn_call("c2")))
    driver.feed(granted(1, "thread t0 may start 7"))
    assert started(driver) == 1
    refused = "Execution failed: no sub-agent was started: thread t0 may start 7. Continue without it"
    assert dict(driver.tool_results)["c2"].startswith(refused)
    driver.model(asks(delegate_call("c3")))
    assert dict(driver.tool_results)["c3"].startswith(refused)
    assert asked(driver) == [2]


def test_a_parent_that_cannot_be_reached_counts_as_a_refusal() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    id = ids.work_id(ids.RequestBudget("agents", 0))
    driver.feed(Delivered(id))
    assert driver.tool_results == []
    driver.feed(WorkFailed(id, "gone"))
    assert "the thread that started this one has ended" in dict(driver.tool_results)["c1"]


def test_a_sub_agent_has_a_limit_of_its_own_if_its_budget_says_so() -> None:
    driver = sub_agent(request=limited(1, CHILD))
    driver.model(asks(spawn_call("c1"), spawn_call("c2")))
    assert asked(driver) == [1]
    driver.feed(granted(1))
    assert started(driver) == 1
    assert "thread t1 and its sub-agents may start 1" in dict(driver.tool_results)["c2"]
    driver.model(asks(spawn_call("c3")))
    assert asked(driver) == [1]


def test_a_sub_agent_of_an_older_parent_is_the_root_of_its_own_count() -> None:
    request = CHILD.model_copy(update={"subagent": SubagentContext(path=("t0",), work_id="bg_7")})
    driver = sub_agent(request=request)
    driver.model(asks(spawn_call("c1")))
    assert (started(driver), asked(driver)) == (1, [])


def test_a_grant_that_was_not_asked_for_changes_nothing() -> None:
    driver = sub_agent()
    driver.feed(granted(5))
    driver.model(asks(spawn_call("c1")))
    assert (started(driver), asked(driver)) == (0, [1])


def test_a_grant_between_two_steps_is_for_the_sub_agents_that_wait() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    driver.feed(granted(1), wants(2), wants(3))  # the newest request of a sub-agent replaces its last one
    assert (asked(driver), answers(driver)) == ([1, 2], [])
    driver.feed(granted(2))
    assert (asked(driver), answers(driver)) == ([1, 2, 1], [])
    driver.feed(granted(1))
    assert answers(driver) == [("t1/bg_0", 3, None)]


def test_the_runs_own_calls_are_served_before_its_sub_agents() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    driver.feed(granted(1))
    driver.model(asks(spawn_call("c2")))
    driver.feed(wants(1), granted(1))
    assert (started(driver), asked(driver), answers(driver)) == (2, [1, 1, 1], [])
    driver.feed(granted(0, "no more"))
    assert answers(driver) == [("t1/bg_0", 0, "no more")]


def test_a_sub_agent_that_ends_while_it_waits_wants_nothing_any_more() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    driver.feed(granted(1), wants(2), child_settled("bg_0"), granted(2))
    assert answers(driver) == []
    driver.model(asks(spawn_call("c2")))
    assert (started(driver), asked(driver)) == (2, [1, 2])  # what it did not need is left for the run itself


# Stopping


def test_a_cancelled_run_grants_nothing_to_those_that_it_stops() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.cancel()
    assert stops_children(driver.thread)
    driver.feed(wants(1))
    assert answers(driver) == []  # its cancel is on its way
    driver.cancel_in_flight()
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert not stops_children(driver.thread)


def test_a_grant_that_reaches_a_cancelled_run_starts_nothing() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1"), call("c2")))
    driver.cancel()
    driver.feed(granted(1))
    driver.tool_cancelled("c2")
    assert started(driver) == 0
    assert isinstance(driver.thread.stage, Done)


def test_a_grant_that_reaches_a_cancelled_run_is_not_passed_on() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    driver.feed(granted(1), wants(2))
    driver.cancel()
    driver.feed(granted(2))
    assert answers(driver) == []


def test_a_task_that_the_model_cancels_is_granted_nothing() -> None:
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.model(asks(cancel_call("c2", "scout")))
    driver.feed(wants(1))
    assert answers(driver) == []


def test_a_delegate_that_has_timed_out_is_granted_nothing() -> None:
    driver = Driver(make_parent(delegate_timeout_seconds=60))
    driver.model(asks(delegate_call("c1")))
    driver.wait(60_000)
    driver.feed(wants(1, "delegate-c1"))
    assert answers(driver) == []


def test_a_thread_that_cancels_only_some_of_its_tasks_does_not_stop_all_descendants() -> None:
    driver = idle_with_task(spawn_call("c1"))
    driver.submit("m1")
    driver.resolve(PARENT)
    driver.model(asks(spawn_call("c2")))
    driver.cancel()
    assert not stops_children(driver.thread)  # the task of the first run works on
    driver.feed(wants(1), wants(1, "bg_1"))
    assert answers(driver) == [("t1/bg_0", 1, None)]


def test_an_idle_thread_that_is_cancelled_stops_all_of_its_tasks() -> None:
    driver = idle_with_task(spawn_call("c1"))
    assert isinstance(driver.thread.stage, Idle)
    assert not stops_children(driver.thread)
    driver.cancel()
    assert stops_children(driver.thread)


def test_a_request_of_a_stranger_is_refused() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.feed(wants(1, "bg_8"))
    assert answers(driver) == [("t1/bg_8", 0, "the parent has no sub-agent 'bg_8'")]
    assert driver.refusal_reasons == ["the parent has no sub-agent 'bg_8'"]


def test_those_that_wait_when_the_run_fails_are_refused() -> None:
    driver = sub_agent()
    driver.model(asks(spawn_call("c1")))
    driver.feed(granted(1), wants(1), LoopFailed("broken", None))
    assert answers(driver) == [("t1/bg_0", 0, "its parent has ended")]
    driver.feed(wants(1))
    assert answers(driver)[1:] == [("t1/bg_0", 0, "its parent has ended")]


def test_a_thread_without_a_run_grants_nothing_and_needs_no_grant() -> None:
    woken = Driver(None, request=NO_INPUT, carryover=carryover(idle_with_task(spawn_call("c1")).thread))
    woken.feed(wants(1), granted(1))
    assert answers(woken) == [("t1/bg_0", 0, "the thread that started this one has ended")]


# Across runs


def test_a_run_that_a_task_begins_continues_the_count_and_one_that_a_person_begins_counts_anew() -> None:
    driver = idle_with_task(spawn_call("c1"))
    driver.feed(wants(5), child_settled("bg_0", termination=NaturalEnd()))
    driver.resolve(PARENT)
    assert driver.thread.current.budget.agents.started == 6
    driver.model(says("So that is done."))
    assert carryover(driver.thread).agents == 6
    driver.submit("m1")
    driver.resolve(PARENT)
    assert driver.thread.current.budget.agents.started == 0


def test_a_wake_continues_the_count() -> None:
    driver = idle_with_task(spawn_call("c1"))
    driver.feed(wants(5))
    woken = Driver(None, request=NO_INPUT, carryover=carryover(driver.thread))
    assert carryover(woken.thread).agents == 6
    woken.feed(child_settled("bg_0"))
    woken.resolve(PARENT)
    assert woken.thread.current.budget.agents.started == 6


def test_continue_as_new_keeps_the_count() -> None:
    driver = with_tasks(spawn_call("c1"), driver=Driver(PARENT, request=limited(2)))
    driver.feed(wants(1))
    driver.last = driver.last.__class__(after_continue_as_new(driver.thread))
    driver.model(asks(spawn_call("c2")))
    assert started(driver) == 1
    assert "the limit of agents is reached" in dict(driver.tool_results)["c2"]


def test_a_fork_is_a_tree_of_its_own_and_counts_anew() -> None:
    driver = idle_with_task(spawn_call("c1"))
    driver.feed(wants(5))
    assert carryover(driver.thread).for_fork().agents == 0


# What people see


def test_the_status_says_that_no_more_agents_may_start_and_why() -> None:
    driver = with_tasks(spawn_call("c1"), driver=Driver(PARENT, request=limited(2)))
    assert status_view(driver.thread).no_more_agents is None
    driver.feed(wants(1))
    limit = "the limit of agents is reached: thread t1 and its sub-agents may start 2 (`agents` of its budget)"
    assert status_view(driver.thread).no_more_agents == limit


def test_the_status_of_a_sub_agent_repeats_what_its_parent_said() -> None:
    driver = sub_agent()
    assert status_view(driver.thread).no_more_agents is None
    driver.model(asks(spawn_call("c1")))
    assert status_view(driver.thread).no_more_agents is None
    driver.feed(granted(0, "thread t0 may start 7"))
    assert status_view(driver.thread).no_more_agents == "thread t0 may start 7"


def test_a_call_that_waits_for_the_thread_of_a_task_asks_no_parent() -> None:
    driver = Driver(PARENT)
    start_without_ids(driver, spawn_call("c1", "scout"), cancel_call("c2", "scout"))
    assert doing(driver.thread) == "running cancel_task"
