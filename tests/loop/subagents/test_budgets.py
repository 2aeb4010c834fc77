"""Budgets over a tree of agents: reserve, spend, release; request more, grant and refuse.

`make test` checks 150 random trees and `make faults` 1,000; to check more, set `WAKEFUL_BUDGET_TREES` and run pytest on
this file. A failure names the seed of its tree.
"""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.loop.driving import AGENT
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.names import SIGNAL_BUDGET_GRANT, SIGNAL_BUDGET_REQUEST
from wakeful.contract.runs import RunIdentity, StopDetail, Stopped, Usage
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, SubagentContext
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.facts import AgentResolved
from wakeful.loop.machine.stages import AwaitingBudget, BetweenSteps, Done, Inferring, Resolving, Stage
from wakeful.loop.machine.state import Advance, Ledger, Run, Step, Thread
from wakeful.loop.subagents import budgets, ledger
from wakeful.loop.thread import cancelling
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

TREES = int(os.environ.get("WAKEFUL_BUDGET_TREES", "150"))
NOW = 1_000
INFERRING = Inferring(id="infer-1", message_id="m1", since=0)


def run_with(
    *,
    thread_id: str = "root",
    parent: str | None = None,
    tokens: int = 0,
    cost: float | None = None,
    turns: int = 0,
    calls: int = 0,
    budget: Budget | None = None,
    allowance: Budget | None = None,
    stage: Stage | None = None,
) -> Thread:
    """A run that has spent this much; the work id of one with a parent is `w-<thread>`."""
    run = Run(
        number=1,
        started_at_position=TranscriptPosition(),
        usage=Usage(total_tokens=tokens, cost=cost),
        step=Step(number=turns),
        budget=Ledger(limit=budget or Budget(), allowance=allowance, tool_calls=calls),
    )
    return Thread(
        identity=RunIdentity(thread_id=thread_id, run_id="r1", agent_id="assistant", parent_thread_id=parent),
        seed="r1",
        stage=stage or BetweenSteps(),
        transcript=Transcript(),
        run=run,
        parent=SubagentContext(path=(parent,), work_id=f"w-{thread_id}") if parent else None,
    )


def with_ledger(thread: Thread, **changes: Any) -> Thread:
    return thread.with_budget(replace(thread.current.budget, **changes))


def left(thread: Thread) -> Budget:
    return Budget.model_validate(ledger.room_left(thread.current))


def released(thread: Thread, work_id: str, spent: Spent) -> Thread:
    return thread.with_budget(ledger.release(thread.current.budget, work_id, spent))


def reserving(thread: Thread, work_id: str, allowance: Budget | None) -> Thread:
    return thread.with_budget(ledger.reserve(thread.current.budget, work_id, allowance))


def child_with(*, tokens: int = 0, **given: object) -> Thread:
    return run_with(thread_id="child", parent="root", tokens=tokens, **given)  # type: ignore[arg-type]  # as run_with's


def budget_request(
    tokens: int = 0, *, work_id: str = "w-child", cost: float = 0.0, turns: int = 0, calls: int = 0
) -> BudgetRequest:
    spent = Spent(tokens=tokens, cost=cost, turns=turns, tool_calls=calls)
    return BudgetRequest(work_id=work_id, thread_id=work_id.removeprefix("w-"), spent=spent)


def payloads(moved: Advance) -> list[object]:
    """The payloads of the signals that are sent."""
    return [command.payload for command in moved.commands if isinstance(command, SendSignal)]


def why_stopped(moved: Advance | None) -> str | None:
    assert moved is not None
    assert isinstance(moved.thread.stage, Done)
    termination = moved.thread.stage.result.termination
    assert isinstance(termination, Stopped)
    assert termination.value.code == "budget"
    return termination.value.detail


# What is spent and what is left


def test_a_run_without_a_budget_has_no_limit_and_sends_no_request() -> None:
    state = child_with(tokens=10**9, cost=1e9, turns=10**6, calls=10**6)
    assert left(state) == Budget()
    assert ledger.calls_left(state.current) is None
    assert ledger.share(state.current, 3) is None
    assert reserving(state, "w", ledger.share(state.current, 3)) == state
    assert budgets.before_step(state, now=NOW) is None
    assert ledger.deadline(ledger.tightest(None, Budget()), None, NOW) is None
    assert ledger.tightest() == Budget()


def test_a_run_that_has_spent_nothing_reports_nothing() -> None:
    assert ledger.spent_or_none(run_with().current) is None
    assert ledger.spent(run_with(turns=1).current) == Spent(turns=1)


def test_spent_is_the_runs_own_plus_what_ended_sub_agents_spent() -> None:
    state = with_ledger(
        run_with(tokens=5, cost=0.1, turns=2, calls=3), descendants=Spent(tokens=7, cost=0.2, turns=1, tool_calls=1)
    )
    assert ledger.spent(state.current) == Spent(tokens=12, cost=0.3, turns=3, tool_calls=4)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (Usage(), 0),
        (Usage(prompt_tokens=3, completion_tokens=4), 7),
        (Usage(completion_tokens=4), 4),
        (Usage(prompt_tokens=3, completion_tokens=4, total_tokens=9), 9),
        (Usage(prompt_tokens=30, completion_tokens=4, total_tokens=9), 34),
    ],
)
def test_tokens_are_the_total_or_the_sum_of_the_parts_if_a_provider_reports_no_total(usage: Usage, tokens: int) -> None:
    assert ledger.spent(replace(run_with().current, usage=usage)).tokens == tokens


def test_the_tightest_of_several_budgets_has_the_smallest_of_each_limit() -> None:
    first, second = Budget(tokens=5, cost=1.0, seconds=9), Budget(tokens=7, cost=0.5, turns=0)
    assert ledger.tightest(first, None, second) == Budget(tokens=5, cost=0.5, turns=0, seconds=9)


def test_what_is_left_is_the_smaller_of_budget_and_allowance_minus_spent_and_reserved() -> None:
    state = child_with(
        tokens=10,
        cost=0.1,
        turns=1,
        budget=Budget(tokens=100, cost=0.4, tool_calls=3, seconds=60),
        allowance=Budget(tokens=60, cost=9.0, turns=4),
    )
    state = reserving(state, "w1", Budget(tokens=20, turns=1))
    assert left(state) == Budget(tokens=30, cost=0.3, turns=2, tool_calls=3)
    assert ledger.calls_left(state.current) == 3


def test_what_is_left_is_never_negative() -> None:
    state = run_with(tokens=150, budget=Budget(tokens=100, cost=0.0))
    assert left(state) == Budget(tokens=0, cost=0.0)
    assert budgets.before_step(state, now=NOW) is not None


def test_costs_are_added_without_floating_point_error() -> None:
    state = with_ledger(run_with(cost=0.1, budget=Budget(cost=0.3)), descendants=Spent(cost=0.2))
    assert left(state) == Budget(cost=0.0)


def test_a_run_without_tool_calls_left_may_take_a_step() -> None:
    state = run_with(calls=2, budget=Budget(tool_calls=2))
    assert ledger.calls_left(state.current) == 0
    assert budgets.before_step(state, now=NOW) is None


@pytest.mark.parametrize(
    ("seconds", "inherited", "expected"),
    [(None, None, None), (1.5, None, 2_500), (None, 7_000, 7_000), (1.5, 7_000, 2_500), (60, 7_000, 7_000)],
)
def test_the_deadline_is_the_earlier_of_the_runs_own_and_the_trees(
    seconds: float | None, inherited: int | None, expected: int | None
) -> None:
    assert ledger.deadline(Budget(seconds=seconds), inherited, NOW) == expected


# Reserve and release


def test_sub_agents_and_the_run_have_equal_shares() -> None:
    state = run_with(budget=Budget(tokens=100, cost=1.0, turns=2, tool_calls=0, seconds=60))
    assert ledger.share(state.current, 3) == Budget(tokens=25, cost=0.25, turns=1, tool_calls=0)
    assert ledger.share(state.current, 2) == Budget(tokens=33, cost=0.333333333, turns=1, tool_calls=0)


def test_the_last_billionth_of_a_cost_is_not_rounded_away() -> None:
    assert ledger.share(run_with(budget=Budget(cost=1e-9)).current, 3) == Budget(cost=1e-9)


def test_a_share_is_reserved_until_it_is_released_and_then_counts_as_what_was_spent() -> None:
    state = reserving(run_with(tokens=10, budget=Budget(tokens=100)), "w1", Budget(tokens=40))
    state = reserving(state, "w2", Budget(tokens=20))
    assert left(state) == Budget(tokens=30)
    state = released(state, "w1", Spent(tokens=5, turns=1))
    assert state.current.budget.reserved == (("w2", Budget(tokens=20)),)
    assert left(state) == Budget(tokens=65)
    assert ledger.spent(state.current) == Spent(tokens=15, turns=1)


def test_spending_of_a_sub_agent_without_an_allowance_counts() -> None:
    assert released(run_with(), "w1", Spent(tokens=5)).current.budget.descendants == Spent(tokens=5)


# Before a step


def test_a_step_is_allowed_while_budget_is_left() -> None:
    assert budgets.before_step(child_with(tokens=9, allowance=Budget(tokens=10)), now=NOW) is None


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (run_with(tokens=120, budget=Budget(tokens=100)), "tokens budget is spent: 120 of 100 tokens"),
        (run_with(cost=1.25, budget=Budget(cost=1)), "cost budget is spent: 1.25 of 1.0"),
        (run_with(turns=3, budget=Budget(turns=3)), "turns budget is spent: 3 of 3 turns"),
        (run_with(turns=3, tokens=1, budget=Budget(turns=3, tokens=1)), "tokens budget is spent: 1 of 1 tokens"),
        (run_with(tokens=50, allowance=Budget(tokens=50)), "tokens budget is spent: 50 of 50 tokens"),
        (
            reserving(run_with(tokens=60, budget=Budget(tokens=100)), "w1", Budget(tokens=40)),
            "tokens budget is spent: 100 of 100 tokens, of which sub-agents hold 40",
        ),
    ],
    ids=["tokens", "cost", "turns", "the first of two", "an allowance without a parent", "reserved"],
)
def test_a_spent_budget_stops_the_run_before_the_model_is_called(state: Thread, why: str) -> None:
    assert why_stopped(budgets.before_step(state, now=NOW)) == why


def test_refused_tool_calls_can_stop_a_run() -> None:
    state = run_with(calls=2, budget=Budget(tool_calls=2))
    stopped = budgets.stop_for(state, ledger.TOOL_CALLS, now=NOW)
    assert why_stopped(stopped) == "tool_calls budget is spent: 2 of 2 tool calls"


def test_a_run_that_has_spent_its_allowance_requests_more_from_its_parent_and_waits() -> None:
    state = child_with(tokens=50, turns=2, allowance=Budget(tokens=50), budget=Budget(tokens=80))
    request = BudgetRequest(work_id="w-child", thread_id="child", spent=Spent(tokens=50, turns=2))
    assert budgets.before_step(state, now=NOW) == Advance(
        replace(state, stage=AwaitingBudget("tokens")),
        (SendSignal(id="budget_request-tokens-50", thread_id="root", signal=SIGNAL_BUDGET_REQUEST, payload=request),),
    )


def test_a_run_with_an_allowance_of_zero_requests_more_before_its_first_step() -> None:
    state = child_with(allowance=Budget(turns=0), stage=Resolving("resolve-1"))
    moved = budgets.before_step(state, now=NOW)
    assert moved is not None
    assert moved.thread.stage == AwaitingBudget("turns")


def test_a_sub_agent_without_a_budget_stops_at_once_when_its_agent_is_resolved() -> None:
    """The lookup of the agent has ended: the run does not wait for it to stop."""
    state = child_with(allowance=Budget(turns=0), budget=Budget(turns=0), stage=Resolving("resolve-1"))
    moved = advance(state, AgentResolved("resolve-1", AGENT), now=NOW)
    assert why_stopped(moved) == "turns budget is spent: 0 of 0 turns"


def test_a_run_whose_own_budget_is_spent_too_sends_no_request() -> None:
    state = child_with(tokens=50, allowance=Budget(tokens=50), budget=Budget(tokens=50))
    assert why_stopped(budgets.before_step(state, now=NOW)) == "tokens budget is spent: 50 of 50 tokens"


def test_a_run_without_tool_calls_left_requests_more_and_continues_without_them_when_refused() -> None:
    state = child_with(calls=2, allowance=Budget(tool_calls=2, tokens=9))
    moved = budgets.before_step(state, now=NOW)
    assert moved is not None
    assert moved.thread.stage == AwaitingBudget("tool_calls")
    refused = budgets.on_budget_granted(moved.thread, BudgetGrant(refused="tool_calls"), now=NOW)
    assert refused == Advance(with_ledger(state, limit=Budget(tool_calls=2)))
    assert budgets.before_step(refused.thread, now=NOW) is None
    assert ledger.calls_left(refused.thread.current) == 0


def test_a_run_that_requests_budget_for_a_sub_agent_sends_no_second_request_for_itself() -> None:
    state = reserving(child_with(tokens=10, allowance=Budget(tokens=20)), "w-grandchild", Budget(tokens=10))
    waiting = budgets.on_budget_requested(state, budget_request(10, work_id="w-grandchild"), now=NOW)
    assert len(waiting.commands) == 1
    moved = budgets.before_step(waiting.thread, now=NOW)
    assert moved == Advance(replace(waiting.thread, stage=AwaitingBudget("tokens")))


# A sub-agent requests more


def run_reserving(*reservations: tuple[str, Budget], **given: object) -> Thread:
    state = run_with(**given)  # type: ignore[arg-type]  # as run_with's
    for work_id, allowance in reservations:
        state = reserving(state, work_id, allowance)
    return state


def test_a_sub_agent_is_granted_half_of_what_is_left_on_top_of_what_it_has_spent() -> None:
    state = run_reserving(("w-child", Budget(tokens=40)), tokens=10, budget=Budget(tokens=100), stage=INFERRING)
    allowance = Budget(tokens=44 + 23)
    grant = SendSignal("budget_grant-w-child:tokens-67", "child", SIGNAL_BUDGET_GRANT, BudgetGrant(allowance=allowance))
    assert budgets.on_budget_requested(state, budget_request(44), now=NOW) == Advance(
        with_ledger(state, reserved=(("w-child", allowance),)), (grant,)
    )


def test_the_last_token_is_granted_too() -> None:
    state = run_reserving(("w-child", Budget(tokens=40)), tokens=59, budget=Budget(tokens=100))
    moved = budgets.on_budget_requested(state, budget_request(40), now=NOW)
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=41))]
    assert payloads(budgets.on_budget_requested(moved.thread, budget_request(41), now=NOW)) == [
        BudgetGrant(refused="tokens")
    ]


def test_only_what_a_sub_agent_is_short_of_is_granted() -> None:
    reserved = Budget(tokens=40, cost=0.5, turns=3)
    state = run_reserving(("w-child", reserved), budget=Budget(tokens=100, cost=1.0, turns=10))
    moved = budgets.on_budget_requested(state, budget_request(40, cost=0.6, turns=2), now=NOW)
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=70, cost=0.8, turns=3))]


def test_overspending_of_a_sub_agent_counts_even_if_its_request_is_refused() -> None:
    state = run_reserving(("w-child", Budget(tokens=40, turns=1)), budget=Budget(tokens=100, turns=1))
    moved = budgets.on_budget_requested(state, budget_request(70, turns=1), now=NOW)
    assert payloads(moved) == [BudgetGrant(refused="turns")]
    assert left(moved.thread) == Budget(tokens=30, turns=0)


def test_the_request_of_an_unknown_sub_agent_is_refused_and_recorded() -> None:
    moved = budgets.on_budget_requested(run_with(budget=Budget(tokens=100)), budget_request(40), now=NOW)
    assert payloads(moved) == [BudgetGrant(refused="the parent has no sub-agent 'w-child'")]
    assert [(refusal.signal, refusal.reason) for refusal in moved.thread.refusals] == [
        (SIGNAL_BUDGET_REQUEST, "the parent has no sub-agent 'w-child'")
    ]


def test_a_sub_agent_that_missed_its_grant_receives_it_again() -> None:
    state = run_reserving(("w-child", Budget(tokens=40)), budget=Budget(tokens=100))
    moved = budgets.on_budget_requested(state, budget_request(10), now=NOW)
    assert moved.thread == state
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=40))]


def test_a_limit_that_the_parent_does_not_have_is_lifted() -> None:
    state = run_reserving(("w-child", Budget(tokens=40, turns=1)), budget=Budget(turns=9))
    assert payloads(budgets.on_budget_requested(state, budget_request(40), now=NOW)) == [
        BudgetGrant(allowance=Budget(turns=1))
    ]


def test_a_sub_agent_is_granted_tokens_although_no_tool_calls_are_left() -> None:
    state = run_reserving(("w-child", Budget(tokens=40, tool_calls=1)), budget=Budget(tokens=100, tool_calls=1))
    moved = budgets.on_budget_requested(state, budget_request(40, calls=1), now=NOW)
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=70, tool_calls=1), refused="tool_calls")]


def test_a_request_for_tool_calls_alone_is_refused_when_none_are_left() -> None:
    state = run_reserving(("w-child", Budget(tokens=40, tool_calls=1)), budget=Budget(tokens=100, tool_calls=1))
    assert payloads(budgets.on_budget_requested(state, budget_request(calls=1), now=NOW)) == [
        BudgetGrant(refused="tool_calls")
    ]


def middle_with(*reservations: tuple[str, Budget], budget: Budget | None = None, stage: Stage = INFERRING) -> Thread:
    """A sub-agent with an allowance of 100 tokens that has spent 20 and reserved the rest."""
    return run_reserving(
        *reservations,
        thread_id="middle",
        parent="root",
        tokens=20,
        allowance=Budget(tokens=100),
        budget=budget,
        stage=stage,
    )


def test_a_parent_with_no_budget_left_requests_from_its_own_parent() -> None:
    state = middle_with(("w-a", Budget(tokens=40)), ("w-b", Budget(tokens=40)))
    first, second = budget_request(45, work_id="w-a"), budget_request(40, work_id="w-b")
    moved = budgets.on_budget_requested(state, first, now=NOW)
    request = BudgetRequest(work_id="w-middle", thread_id="middle", spent=Spent(tokens=20 + 45 + 40))
    assert moved.commands == (SendSignal("budget_request-tokens-100", "root", SIGNAL_BUDGET_REQUEST, request),)
    assert moved.thread.current.budget.requests == (first,)
    again = moved.then(budgets.on_budget_requested, second, now=NOW).then(budgets.on_budget_requested, first, now=NOW)
    assert again.commands == moved.commands
    assert again.thread.current.budget.requests == (second, first)


def test_a_parent_whose_own_budget_is_spent_refuses() -> None:
    state = middle_with(("w-a", Budget(tokens=80)), budget=Budget(tokens=100))
    assert payloads(budgets.on_budget_requested(state, budget_request(80, work_id="w-a"), now=NOW)) == [
        BudgetGrant(refused="tokens")
    ]


# The parent answers


def test_a_grant_resumes_a_waiting_run() -> None:
    state = child_with(tokens=50, allowance=Budget(tokens=50), stage=AwaitingBudget("tokens"))
    moved = budgets.on_budget_granted(state, BudgetGrant(allowance=Budget(tokens=60)), now=NOW)
    assert moved == Advance(with_ledger(replace(state, stage=BetweenSteps()), allowance=Budget(tokens=60)))
    assert budgets.before_step(moved.thread, now=NOW) is None


def test_a_refusal_stops_a_waiting_run_and_names_the_budget() -> None:
    state = child_with(
        tokens=50,
        turns=2,
        allowance=Budget(tokens=50, turns=2),
        budget=Budget(seconds=9),
        stage=AwaitingBudget("tokens"),
    )
    moved = budgets.on_budget_granted(state, BudgetGrant(refused="turns"), now=NOW)
    assert why_stopped(moved) == "turns budget is spent: 2 of 2 turns"
    assert moved.thread.current.budget.limit == Budget(tokens=50, turns=2, seconds=9)


def test_an_unreachable_parent_counts_as_a_refusal() -> None:
    state = child_with(tokens=50, allowance=Budget(tokens=50, turns=2), stage=AwaitingBudget("tokens"))
    moved = budgets.on_parent_unreachable(state, now=NOW)
    assert why_stopped(moved) == "tokens budget is spent: 50 of 50 tokens"
    assert moved.thread.current.budget.limit == Budget(tokens=50, turns=2)


def test_a_refused_run_continues_with_what_a_sub_agent_released_and_requests_no_more() -> None:
    state = middle_with(("w-a", Budget(tokens=80)), stage=AwaitingBudget("tokens"))
    state = released(state, "w-a", Spent(tokens=70))
    moved = budgets.on_budget_granted(state, BudgetGrant(refused="tokens"), now=NOW)
    assert moved.thread.stage == BetweenSteps()
    assert left(moved.thread) == Budget(tokens=10)
    later = moved.thread.with_run(replace(moved.thread.current, usage=Usage(total_tokens=31)))
    assert why_stopped(budgets.before_step(later, now=NOW)) == "tokens budget is spent: 101 of 100 tokens"


def test_a_run_that_was_refused_one_budget_refuses_its_sub_agents_the_others_and_requests_no_more() -> None:
    """Its parent would refuse with the same budget again, whatever it requests: the requests would never end."""
    state = child_with(cost=1.0, turns=2, allowance=Budget(cost=1.0, turns=4), stage=INFERRING)
    state = reserving(state, "w-a", Budget(cost=0.0, turns=2))
    waiting = budgets.on_budget_requested(state, budget_request(turns=2, work_id="w-a"), now=NOW)
    moved = budgets.on_budget_granted(waiting.thread, BudgetGrant(refused="cost"), now=NOW)
    assert payloads(moved) == [BudgetGrant(refused="cost")]
    assert payloads(budgets.on_budget_requested(moved.thread, budget_request(turns=2, work_id="w-a"), now=NOW)) == [
        BudgetGrant(refused="cost")
    ]


def waiting_middle(stage: Stage = INFERRING) -> Thread:
    """Two sub-agents wait for a grant of the parent's parent."""
    state = middle_with(("w-a", Budget(tokens=40)), ("w-b", Budget(tokens=40)), stage=stage)
    moved = budgets.on_budget_requested(state, budget_request(40, work_id="w-a"), now=NOW)
    return moved.then(budgets.on_budget_requested, budget_request(40, work_id="w-b"), now=NOW).thread


def test_a_grant_is_passed_on_to_every_sub_agent_that_waits() -> None:
    moved = budgets.on_budget_granted(waiting_middle(), BudgetGrant(allowance=Budget(tokens=120)), now=NOW)
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=50)), BudgetGrant(allowance=Budget(tokens=45))]
    assert moved.thread.current.budget.requests == ()
    assert moved.thread.stage == INFERRING


def test_a_grant_too_small_for_all_makes_the_parent_request_the_rest() -> None:
    moved = budgets.on_budget_granted(
        waiting_middle(AwaitingBudget("tokens")), BudgetGrant(allowance=Budget(tokens=101)), now=NOW
    )
    rest = BudgetRequest(work_id="w-middle", thread_id="middle", spent=Spent(tokens=101))
    assert payloads(moved) == [BudgetGrant(allowance=Budget(tokens=41)), rest]
    assert [request.work_id for request in moved.thread.current.budget.requests] == ["w-b"]
    assert moved.thread.stage == BetweenSteps()
    own = budgets.before_step(moved.thread, now=NOW)
    assert own == Advance(replace(moved.thread, stage=AwaitingBudget("tokens")))


def test_a_refusal_is_passed_on_to_every_sub_agent_that_waits() -> None:
    moved = budgets.on_budget_granted(waiting_middle(), BudgetGrant(refused="tokens"), now=NOW)
    assert payloads(moved) == [BudgetGrant(refused="tokens"), BudgetGrant(refused="tokens")]
    assert moved.thread.stage == INFERRING


def test_a_sub_agent_that_ended_while_it_waited_receives_no_grant_and_releases_its_reservation() -> None:
    state = released(waiting_middle(), "w-a", Spent(tokens=40))
    moved = budgets.on_budget_granted(state, BudgetGrant(refused="tokens"), now=NOW)
    assert payloads(moved) == [BudgetGrant(refused="tokens")]
    freed = released(waiting_middle(), "w-a", Spent(tokens=10))
    assert payloads(budgets.on_budget_granted(freed, BudgetGrant(refused="tokens"), now=NOW)) == [
        BudgetGrant(allowance=Budget(tokens=55))
    ]


@pytest.mark.parametrize("module", ["subagents.budgets", "thread.ending", "step.steps", "machine.advance"])
def test_the_modules_that_need_each_other_can_be_imported_in_any_order(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import wakeful.loop.{module}"], check=True)


# Random trees


CALL = {"tokens": 20, "cost": 0.05, "turns": 1, "tool_calls": 1}
"""The most that one model call can spend."""
BY_PARENT = Stopped(value=StopDetail(code="budget"))


@dataclass
class Node:
    thread: Thread
    budget: Budget
    """Its own, before any refusal."""
    children: list[str] = field(default_factory=list)
    is_calling: bool = False
    waiting_for: set[str] = field(default_factory=set)
    """Sub-agents that it waits for."""

    @property
    def has_ended(self) -> bool:
        return isinstance(self.thread.stage, Done)


class Tree:
    """Agents that spend at random. Signals between two threads arrive in order, others in any order."""

    def __init__(self, chance: Random, budget: Budget, *, own: float = 0.3) -> None:
        self.chance, self.own, self.largest = chance, own, chance.randint(1, 14)
        self.nodes = {"root": Node(run_with(budget=budget), budget)}
        self.signals: list[tuple[str, str, BudgetRequest | BudgetGrant | Spent]] = []
        self.peak = 1
        """How many agents were active at once."""
        self.sent_ids: set[tuple[str, str]] = set()

    def run_to_end(self) -> None:
        for _ in range(5_000):
            moves = [*self._deliveries(), *(("act", id) for id, node in self.nodes.items() if self._can_act(node))]
            if not moves:
                return
            kind, what = self.chance.choice(moves)
            if kind == "act":
                self._act(what)
            else:
                self._deliver(next(entry for entry in self.signals if f"{entry[0]}>{entry[1]}" == what))
            self.peak = max(self.peak, sum(not node.has_ended for node in self.nodes.values()))
        raise AssertionError("the tree does not come to an end")

    def _deliveries(self) -> list[tuple[str, str]]:
        return [("deliver", name) for name in dict.fromkeys(f"{source}>{target}" for source, target, _ in self.signals)]

    def _can_act(self, node: Node) -> bool:
        return node.is_calling or (isinstance(node.thread.stage, BetweenSteps) and not node.waiting_for)

    def _deliver(self, entry: tuple[str, str, BudgetRequest | BudgetGrant | Spent]) -> None:
        self.signals.remove(entry)
        source, target, payload = entry
        node = self.nodes[target]
        if node.has_ended:
            return
        match payload:
            case BudgetRequest():
                self._apply(target, budgets.on_budget_requested(node.thread, payload, now=NOW))
            case BudgetGrant() if self.chance.random() < 0.02:
                self._apply(target, budgets.on_parent_unreachable(node.thread, now=NOW))
            case BudgetGrant():
                self._apply(target, budgets.on_budget_granted(node.thread, payload, now=NOW))
            case Spent():
                node.thread = released(node.thread, f"w-{source}", payload)
                node.waiting_for.discard(source)

    def _act(self, id: str) -> None:
        node = self.nodes[id]
        if node.is_calling:
            self._answered(id, node)
        elif (moved := budgets.before_step(node.thread, now=NOW)) is not None:
            self._apply(id, moved)
        else:
            step = node.thread.current.step
            node.thread = replace(node.thread.with_step(Step(number=step.number + 1)), stage=INFERRING)
            node.is_calling = True

    def _answered(self, id: str, node: Node) -> None:
        """The model has answered: with calls, with sub-agents or, sometimes, without any."""
        self._pay(node)
        free = ledger.calls_left(node.thread.current)
        calls = self.chance.randint(0, 3) if free is None else min(free, self.chance.randint(0, 3))
        made = node.thread.current.budget.tool_calls + calls
        node.thread = replace(with_ledger(node.thread, tool_calls=made), stage=BetweenSteps())
        if self.chance.random() < (0.01 if id == "root" else 0.05) and not self._running_children(node):
            self._end(id)
        elif self.chance.random() < 0.3:
            self._start(id, node)

    def _pay(self, node: Node) -> None:
        cost = self.chance.choice([0.0, round(self.chance.uniform(0, CALL["cost"]), 9)])
        usage = Usage(total_tokens=self.chance.randint(0, 20), cost=cost)
        run = node.thread.current
        node.thread = node.thread.with_run(replace(run, usage=run.usage.plus(usage)))
        node.is_calling = False

    def _start(self, id: str, node: Node) -> None:
        among = min(self.chance.randint(1, 3), self.largest - len(self.nodes))
        allowance = ledger.share(node.thread.current, among) if among > 0 else None
        for _ in range(among):
            child = f"t{len(self.nodes)}"
            own = self._own_budget() if self.chance.random() < self.own else Budget()
            state = run_with(thread_id=child, parent=id, budget=own, allowance=allowance)
            node.thread = reserving(node.thread, f"w-{child}", allowance)
            node.children.append(child)
            self.nodes[child] = Node(state, own)
            if self.chance.random() < 0.6:
                node.waiting_for.add(child)

    def _own_budget(self) -> Budget:
        return Budget(tokens=self.chance.randint(0, 200), turns=self.chance.randint(0, 30))

    def _apply(self, id: str, moved: Advance) -> None:
        """What `next_step` and the workflow do with the advance."""
        node, before = self.nodes[id], self.nodes[id].thread.stage
        node.thread = moved.thread
        for command in moved.commands:
            if isinstance(command, SendSignal):
                assert (id, command.id) not in self.sent_ids, "two commands of one run have the same id"
                self.sent_ids.add((id, command.id))
                assert isinstance(command.payload, BudgetRequest | BudgetGrant)
                self.signals.append((id, command.thread_id, command.payload))
        if node.has_ended and not isinstance(before, Done):
            self._end(id)

    def _running_children(self, node: Node) -> list[str]:
        return [child for child in node.children if not self.nodes[child].has_ended]

    def _end(self, id: str) -> None:
        """Its descendants stop first, with their calls in flight; then it reports to its parent."""
        node = self.nodes[id]
        for child in self._running_children(node):
            self._end(child)
        if node.is_calling:
            self._pay(node)
        for entry in [entry for entry in self.signals if entry[1] == id]:
            self.signals.remove(entry)
            if isinstance(entry[2], Spent):
                node.thread = released(node.thread, f"w-{entry[0]}", entry[2])
        parent = node.thread.identity.parent_thread_id
        if not node.has_ended:
            node.thread = cancelling.stop(replace(node.thread, stage=BetweenSteps()), BY_PARENT, now=NOW).thread
        if parent is not None:
            self.signals.append((id, parent, ledger.spent(node.thread.current) or Spent()))

    def subtree(self, id: str) -> Spent:
        total = ledger.spent(with_ledger(self.nodes[id].thread, descendants=Spent()).current)
        for child in self.nodes[id].children:
            total = total.plus(self.subtree(child))
        return total


def random_budget(chance: Random) -> Budget:
    limits = {
        "tokens": chance.randint(0, 600),
        "cost": round(chance.uniform(0, 1.5), 9),
        "turns": chance.randint(0, 60),
        "tool_calls": chance.randint(0, 40),
    }
    return Budget.model_validate({name: limits[name] for name in chance.sample(sorted(limits), chance.randint(1, 4))})


@pytest.mark.no_cover  # the tests above reach every line; counting them here would take most of the time
@pytest.mark.parametrize("part", range(10))
def test_no_tree_spends_more_than_its_limit_plus_one_call_per_active_agent(part: int) -> None:
    for seed in range(part, TREES, 10):
        chance = Random(seed)
        tree = Tree(chance, random_budget(chance))
        tree.run_to_end()
        for id, node in tree.nodes.items():
            taken = tree.subtree(id)
            assert node.has_ended, f"seed {seed}: {id} never ends"
            assert (ledger.spent(node.thread.current), node.thread.current.budget.reserved) == (taken, ()), (
                f"seed {seed}: {id} lost count"
            )
            for name, limit in node.budget:
                bound = math.inf if limit is None else limit + tree.peak * CALL[name] + 1e-6
                assert getattr(taken, name, 0) <= bound, f"seed {seed}: {id} spent {taken} of {node.budget}"


@pytest.mark.no_cover
def test_a_tree_without_a_budget_sends_no_requests() -> None:
    for seed in range(30):
        tree = Tree(Random(seed), Budget(), own=0)
        tree.run_to_end()
        assert all(node.has_ended for node in tree.nodes.values())
        assert tree.sent_ids == set()
