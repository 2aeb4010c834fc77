"""What ancestors, requests and agents that hand a run off deny or ask about: nothing that allows voids it."""

import pytest

from tests.loop.driving import AGENT
from wakeful.contract.carryover import AgentRules
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.permissions.authority import RunRules, binding_on, handing_on, narrowing, policy_rules, questions
from wakeful.permissions.rules import Ruling, evaluate

ALLOW_ALL = PermissionPolicy(default_behavior=Behavior.ASK, rules=(Rule(tool="*", behavior=Behavior.ALLOW),))
ALLOW, ASK, DENY = (Rule(tool="pay", behavior=behavior) for behavior in Behavior)
SMALL = Rule(tool='pay(amount = "5")', behavior=Behavior.ALLOW)


def test_rules_that_allow_are_not_passed_on_and_one_that_denies_wins() -> None:
    other = Rule(tool="look", behavior=Behavior.ASK)
    assert narrowing((ALLOW, ASK), (DENY,), (ASK, other)) == (DENY, other)


@pytest.mark.parametrize("agent", [None, AGENT], ids=["no agent", "an agent without a policy"])
def test_without_a_policy_there_are_no_rules_to_pass_on(agent: None) -> None:
    assert policy_rules(agent) == ()


def test_a_group_without_a_question_is_left_out_and_rules_that_deny_are_no_questions() -> None:
    assert questions((ALLOW, DENY), (SMALL, ASK), (DENY,)) == ((SMALL, ASK),)


@pytest.mark.parametrize(
    ("groups", "amount", "ruling"),
    [
        ((), "9", Ruling(Behavior.ALLOW, ALLOW_ALL.rules[0])),
        (((ASK,),), "9", Ruling(Behavior.ASK, ASK)),
        (((SMALL, ASK),), "9", Ruling(Behavior.ASK, ASK)),
        (((SMALL, ASK),), "5", Ruling(Behavior.ALLOW, ALLOW_ALL.rules[0])),
        (((SMALL, ASK), (ASK,)), "5", Ruling(Behavior.ASK, ASK)),
        (((Rule(tool="look", behavior=Behavior.ASK),),), "9", Ruling(Behavior.ALLOW, ALLOW_ALL.rules[0])),
    ],
)
def test_what_a_group_asks_about_only_a_rule_of_the_same_group_allows(
    groups: tuple[tuple[Rule, ...], ...], amount: str, ruling: Ruling
) -> None:
    """B-513"""
    assert evaluate(ALLOW_ALL, (), "pay", {"amount": amount}, questions=groups) == ruling


def test_a_question_does_not_soften_a_denial() -> None:
    assert evaluate(ALLOW_ALL, (DENY,), "pay", {}, questions=((ASK,),)) == Ruling(Behavior.DENY, DENY)


def test_an_agent_that_takes_over_again_is_not_bound_by_its_own_rules() -> None:
    writer = AGENT.model_copy(update={"agent_id": "writer", "permissions": PermissionPolicy(rules=(SMALL, ASK))})
    once = handing_on((), writer)
    assert once == (AgentRules(agent_id="writer", rules=(ASK,)),)
    assert handing_on(handing_on(once, AGENT), writer) == once
    assert (binding_on("reviewer", once), binding_on("writer", once)) == ((ASK,), ())


def test_the_rules_of_a_run_have_an_order_and_a_decision_of_the_run_itself_answers_its_own() -> None:
    other = Rule(tool="look", behavior=Behavior.ALLOW)
    earlier = RunRules(thread=(ALLOW, other), requested=(ASK,))
    assert (earlier.ordered, earlier.questions) == ((ALLOW, other, ASK), ((ASK, other),))
    answered = RunRules(thread=(ALLOW, other), requested=(ASK,), always=("pay", "revoked"))
    assert (answered.ordered, answered.questions) == ((ALLOW, other, ASK, ALLOW), ())
    inherited = RunRules(ancestors=(ASK,), thread=(other,))
    assert (inherited.ordered, inherited.questions) == ((ASK, other), ((ASK, other),))


def test_a_hook_answers_nothing_that_the_request_asks_and_the_request_answers_what_a_hook_asks() -> None:
    everything = Rule(tool="*", behavior=Behavior.ALLOW)
    allowed = RunRules(requested=(ASK,), added=(ALLOW, everything))
    assert (allowed.ordered, allowed.questions) == ((ASK, ALLOW, everything, ASK), ((ASK,),))
    asked = RunRules(requested=(SMALL,), added=(ASK,))
    assert (asked.ordered, asked.questions) == ((SMALL, ASK), ((SMALL, ASK),))
