"""Which of several rules applies (B-800, B-802, B-803)."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.runs import RunIdentity
from wakeful.permissions.parsing import parse_pattern
from wakeful.permissions.rules import (
    MAX_RUN_RULES_COST,
    Ruling,
    evaluate,
    hidden_tools,
    judge,
    merged,
    overlaid,
    overruled,
    read_context,
    rule_problems,
    run_context,
)
from wakeful.permissions.text_matcher import TEXT_LIMIT, PatternError

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY


def rules(**behaviors: str) -> tuple[Rule, ...]:
    """`deny="a b"` are two rules."""
    return tuple(
        Rule(tool=tool, behavior=Behavior(behavior)) for behavior, tools in behaviors.items() for tool in tools.split()
    )


def policy(default: Behavior = ASK, **behaviors: str) -> PermissionPolicy:
    return PermissionPolicy(default_behavior=default, rules=rules(**behaviors))


@pytest.mark.parametrize(
    ("given", "ruling"),
    [
        (policy(), Ruling(ASK)),
        (policy(ALLOW), Ruling(ALLOW)),
        (policy(DENY, allow="other"), Ruling(DENY)),
        (policy(allow="shell"), Ruling(ALLOW, Rule(tool="shell", behavior=ALLOW))),
        (policy(allow="shell", deny="/^s/"), Ruling(DENY, Rule(tool="/^s/", behavior=DENY))),
        (policy(ask="shell(git*)", allow="*"), Ruling(ALLOW, Rule(tool="*", behavior=ALLOW))),
        (policy(ALLOW, ask="sh*"), Ruling(ASK, Rule(tool="sh*", behavior=ASK))),
        (policy(deny="* shell(git*) shell"), Ruling(DENY, Rule(tool="shell(git*)", behavior=DENY))),
        (policy(allow="/shell/ sh* *"), Ruling(ALLOW, Rule(tool="*", behavior=ALLOW))),
    ],
)
def test_deny_wins_then_allow_then_ask_and_the_most_specific_rule_counts(
    given: PermissionPolicy, ruling: Ruling
) -> None:
    assert evaluate(given, (), "shell", {"command": "git push"}) == ruling


def test_a_rule_of_the_thread_or_run_replaces_the_agents_with_the_same_text_except_one_that_denies() -> None:
    """B-803."""
    agent = policy(deny="shell", ask="mail", allow="read")
    over = rules(allow="shell mail", deny="read")
    assert [evaluate(agent, over, name, None).behavior for name in ("shell", "mail", "read", "x")] == [
        *(DENY, ALLOW, DENY),
        ASK,
    ]
    assert evaluate(agent, rules(allow="shell(*)"), "shell", None).behavior is DENY
    deny = Rule(tool="x", behavior=DENY)
    for last in (rules(allow="x", deny="x"), rules(deny="x", ask="x"), rules(deny="x", allow="x")):
        assert overlaid(agent, last).rules == (*agent.rules, deny)
    assert merged(rules(ask="x y", allow="x")) == rules(allow="x", ask="y")


def test_an_agent_without_a_policy_allows_what_no_rule_matches() -> None:
    assert evaluate(None, (), "shell", None) == Ruling(ALLOW)
    assert evaluate(None, rules(ask="shell"), "shell", None).behavior is ASK
    assert evaluate(None, rules(ask="shell"), "mail", None) == Ruling(ALLOW)


def test_exact_denies_without_conditions_hide_their_tools() -> None:
    """B-802."""
    agent = policy(deny="shell mail(*) pay(x*) rm_* /^fly$/", allow="read", ask="write")
    assert hidden_tools(agent, ()) == {"shell", "mail"}
    assert hidden_tools(agent, rules(allow="shell", deny="read")) == {"shell", "mail", "read"}
    assert hidden_tools(None, ()) == frozenset()


CONTEXT: JsonValue = {"tenant": "acme", "user": "ann", "metadata": {"region": "eu-1"}}


@pytest.mark.parametrize(
    ("pattern", "context", "matches"),
    [
        ('t($tenant = "acme")', CONTEXT, True),
        ('t($tenant = "acme")', {"tenant": "beta"}, False),
        ('t($tenant != "acme")', {"tenant": "beta"}, True),
        ('t($user =~ "^a", $metadata.region ~ "eu-*")', CONTEXT, True),
        ('t($metadata.region ~ "us-*")', CONTEXT, False),
        ('t($user = "ann", amount = "5")', CONTEXT, True),
        ('t($user = "ann", amount = "6")', CONTEXT, False),
        ('t(tenant = "acme")', CONTEXT, False),
    ],
)
def test_a_pattern_can_read_whose_run_makes_the_call(pattern: str, context: JsonValue, matches: bool) -> None:
    """B-664"""
    given = (Rule(tool=pattern, behavior=DENY),)
    ruling = evaluate(None, given, "t", {"amount": 5}, context=context)
    assert (ruling.behavior is DENY) is matches
    assert judge(None, given, "t", {"amount": 5}, context=context) == ruling


@pytest.mark.parametrize(
    "condition", ['$user = "ann"', '$user != "ann"', '$tenant ~ "a*"', '$metadata.region = "eu-1"']
)
@pytest.mark.parametrize("context", [{"metadata": {}}, None])
def test_a_condition_on_what_the_run_lacks_applies_in_rules_that_deny_or_ask_and_not_in_those_that_allow(
    condition: str, context: JsonValue
) -> None:
    """B-664"""
    pattern = f't(amount = "5", {condition})'
    for behavior, default in ((DENY, ALLOW), (ASK, ALLOW), (ALLOW, ASK)):
        agent = PermissionPolicy(default_behavior=default, rules=(Rule(tool=pattern, behavior=behavior),))
        applied = ASK if behavior is ALLOW else behavior
        assert evaluate(agent, (), "t", {"amount": 5}, context=context).behavior is applied
        assert evaluate(agent, (), "t", {"amount": 6}, context=context).behavior is default
    whole = (Rule(tool=f"t({condition})", behavior=DENY),)
    assert hidden_tools(None, whole, context=context) == {"t"}


def test_what_patterns_read_of_a_run_is_its_tenant_user_and_metadata() -> None:
    """B-664"""
    identity = RunIdentity(thread_id="t1", run_id="r1", agent_id="a")
    assert run_context(identity, {}) == {"metadata": {}}
    known = identity.model_copy(update={"tenant": "acme", "user": "ann"})
    assert run_context(known, {"region": "eu-1"}) == CONTEXT


def test_a_tool_that_is_denied_to_a_tenant_with_any_arguments_is_hidden_from_it() -> None:
    """B-664"""
    given = tuple(
        Rule(tool=tool, behavior=DENY)
        for tool in (
            'pay($tenant = "acme")',
            'fly($tenant = "beta")',
            'buy($tenant = "acme", x = "1")',
            'r*($user = "ann")',
        )
    )
    assert hidden_tools(None, given, context=CONTEXT) == {"pay"}
    assert hidden_tools(None, given) == {"pay", "fly"}  # it may be either tenant


def test_rules_without_a_dollar_need_not_know_the_run() -> None:
    deny = Rule(tool='t($user = "ann")', behavior=DENY)
    assert not read_context(policy(deny="t"), rules(ask="u"))
    assert read_context(PermissionPolicy(rules=(deny,)), ())
    assert read_context(None, (deny,))


@pytest.mark.parametrize(
    ("given", "behavior"),
    [
        (policy(ALLOW, deny="t(*secret*)"), DENY),
        (policy(ALLOW, ask="t(*secret*)"), ASK),
        (policy(ASK, allow="t(*harmless*)"), ASK),
        (policy(ASK, allow="t"), ALLOW),
    ],
)
def test_an_argument_too_long_to_search_is_never_the_reason_to_allow(
    given: PermissionPolicy, behavior: Behavior
) -> None:
    assert evaluate(given, (), "t", {"x": "harmless" * TEXT_LIMIT}).behavior is behavior


def test_all_malformed_rules_are_reported() -> None:
    assert rule_problems([*rules(deny="ok t() /(/")]) == [
        "permission rule 't()', character 3: there is nothing between the parentheses; write (*) for any arguments",
        "permission rule '/(/', character 1: '(' is not a regular expression: unclosed group",
    ]
    with pytest.raises(PatternError):
        evaluate(policy(deny="t()"), (), "t", None)
    problem = "'t()', character 3: there is nothing between the parentheses; write (*) for any arguments"
    assert judge(policy(deny="t()"), (), "t", None).denial_of("t") == (
        f"Tool 't' denied: its permission rules could not be evaluated: {problem}"
    )


def heavy(count: int) -> list[Rule]:
    return [Rule(tool=rf't(p =~ "\\w{{190}}{number}")', behavior=DENY) for number in range(count)]


@pytest.mark.parametrize(
    ("given", "first"),
    [(heavy(200), 3), (heavy(1) * 2 + [*rules(deny=" ".join(f"t{n}" for n in range(300)))], 16), (heavy(1), None)],
)
def test_rules_that_are_too_large_together_are_refused_before_many_are_compiled(
    given: list[Rule], first: int | None
) -> None:
    began = time.thread_time()
    problems = rule_problems(given)
    assert time.thread_time() - began < 3  # two hundred take ten
    if first is None:
        assert problems == []
    else:
        (problem,) = problems
        assert f"the {len(given)} permission rules are too large together, from number {first} on" in problem


def test_five_hundred_usual_rules_are_not_too_large_and_a_run_may_have_three_times_as_many() -> None:
    usual = [Rule(tool=rf't{n}(command =~ "^git (status|log) -n [0-9]+")', behavior=DENY) for n in range(200)]
    assert rule_problems([*usual, *rules(ask=" ".join(f"t{n}*(*)" for n in range(100)))]) == []
    assert rule_problems([*rules(deny="t") * 500]) == []
    assert rule_problems([*rules(deny="t") * 501]) != []
    assert rule_problems([*rules(deny="t") * 1_500], most=MAX_RUN_RULES_COST) == []


LONG = "ab" * 20_000
MANY: list[JsonValue] = [{"n": "a"} for _ in range(5_000)]
MEMBERS = ", ".join(f'"{number}"' for number in range(999))


@pytest.mark.parametrize(
    ("pattern", "few", "many"),
    [
        ('t(text =~ "[ab]*a[ab]{{60}}!{}")', 3, 60),
        ('t(many[*].n = "b{}")', 100, 400),
        ('t(many[*].n in ["b{}", ' + MEMBERS + "])", 10, 100),
        ("t(*!{}?)", 3, 300),
    ],
    ids=["searched", "found", "listed", "primary"],
)
def test_what_the_rules_of_a_call_search_together_is_limited_and_the_rest_is_not_known(
    pattern: str, few: int, many: int
) -> None:
    arguments: JsonValue = {"text": LONG, "many": MANY}
    denying = [Rule(tool=pattern.format(number), behavior=DENY) for number in range(many)]
    allowing = PermissionPolicy(rules=tuple(rule.model_copy(update={"behavior": ALLOW}) for rule in denying))
    assert judge(None, denying[:few], "t", arguments).behavior is ALLOW
    assert judge(None, denying, "t", arguments).behavior is DENY
    assert judge(allowing, (), "t", arguments).behavior is ASK


def test_a_value_that_many_rules_read_is_written_as_text_once() -> None:
    reading = [Rule(tool=f't(many = "{number}")', behavior=DENY) for number in range(500)]
    began = time.thread_time()
    assert judge(None, reading, "t", {"many": MANY * 4}).behavior is ALLOW
    assert time.thread_time() - began < 3  # more than four, if each rule writes it


def test_hundreds_of_globs_of_stars_are_compared_with_a_long_text() -> None:
    globs = [Rule(tool=f"t(git {number} *)", behavior=DENY) for number in range(400)]
    assert judge(None, globs, "t", {"command": "x" * TEXT_LIMIT}).behavior is ALLOW


def test_the_rules_of_a_run_stay_compiled_together() -> None:
    own, requested = heavy(2), [Rule(tool=rf"/^\w{{100}}{n}/", behavior=DENY) for n in range(9)]
    judge(None, [*own, *requested], "t", {"p": "x"})
    began = time.thread_time()
    for _ in range(20):
        assert judge(None, [*own, *requested], "t", {"p": "x"}).behavior is ALLOW
    assert time.thread_time() - began < 2


tools = st.sampled_from(["t", "u", "t(a*)", "t(b)", 't(x = "a")', 't(x != "a")', "*", "?", "/t|u/", "[!t]", "*(a)"])
some_rules = st.lists(st.builds(Rule, tool=tools, behavior=st.sampled_from(Behavior)), max_size=8).map(tuple)
policies = st.builds(PermissionPolicy, default_behavior=st.sampled_from(Behavior), rules=some_rules)
calls = st.tuples(st.sampled_from("tuv"), st.sampled_from([None, {}, {"x": "a"}, {"x": "b"}, {"x": "a", "y": 1}]))


@given(policies, some_rules, calls)
def test_the_ruling_is_that_of_the_strongest_tier_and_its_most_specific_rule(
    agent: PermissionPolicy, over: tuple[Rule, ...], call: tuple[str, JsonValue]
) -> None:
    ruling = evaluate(agent, over, *call)
    replaced = {rule.tool: rule for rule in over} | {rule.tool: rule for rule in over if rule.behavior is DENY}
    kept = (rule for rule in agent.rules if rule.behavior is DENY or rule.tool not in replaced)
    effective = [*kept, *replaced.values()]
    matching = [rule for rule in effective if parse_pattern(rule.tool).matches(*call)]
    behaviors = {rule.behavior for rule in matching}
    expected = next((tier for tier in (DENY, ALLOW, ASK) if tier in behaviors), agent.default_behavior)
    assert ruling.behavior is expected
    if ruling.rule is None:
        assert not matching
    else:
        tier = [rule for rule in matching if rule.behavior is expected]
        assert ruling.rule in tier
        assert parse_pattern(ruling.rule.tool).specificity == max(parse_pattern(rule.tool).specificity for rule in tier)


@given(policies, some_rules, calls, st.randoms())
def test_the_order_of_different_rules_does_not_matter(
    agent: PermissionPolicy, over: tuple[Rule, ...], call: tuple[str, JsonValue], chance: Random
) -> None:
    effective = overlaid(agent, over)
    shuffled = list(effective.rules)
    chance.shuffle(shuffled)
    again = PermissionPolicy(default_behavior=effective.default_behavior, rules=tuple(shuffled))
    assert evaluate(again, (), *call).behavior is evaluate(agent, over, *call).behavior


@given(policies, some_rules, calls)
def test_no_rule_of_a_request_allows_what_the_agent_denies(
    agent: PermissionPolicy, over: tuple[Rule, ...], call: tuple[str, JsonValue]
) -> None:
    denied = PermissionPolicy(
        default_behavior=ALLOW, rules=tuple(rule for rule in agent.rules if rule.behavior is DENY)
    )
    if evaluate(denied, (), *call).behavior is DENY:
        assert evaluate(agent, over, *call).behavior is DENY


@given(policies, calls)
def test_another_deny_never_allows_more(agent: PermissionPolicy, call: tuple[str, JsonValue]) -> None:
    more = (Rule(tool="t*", behavior=DENY),)
    before, after = evaluate(agent, (), *call).behavior, evaluate(agent, more, *call).behavior
    assert after is before or after is DENY


@pytest.mark.parametrize(
    ("allowing", "asking", "wins"),
    [
        ("*", "pay", True),
        ("*", "pay_*", True),
        ("**", "[pq]ay", True),
        ("*", "/^pay/", True),
        ("*", 'pay(amount = "5")', True),
        ("pay", "pay(*)", True),
        ("pay", 'pay($user = "ann")', True),
        ("pay*", "pay", True),
        ("pay*", "pay_?*", True),
        ("/^pay/", "pay", True),
        ("/^pay/", "/^pay/(x)", True),
        ("p?y", "pay", True),
        ("pay", "payy", False),
        ("pay(x)", "pay", False),
        ("pay(x)", "pay(x)", False),  # the registry refuses two rules with the same text, too
        ('pay($user = "ann")', "pay", False),
        ("pay", "pay*", False),
        ("pay_*", "pay*", False),
        ("pay?", "pay*", False),
        ("*b]y", "[ab]y", False),
        ("*/pay", "**/pay", False),
        ("/pay/", "pay*", False),
        ("pay*", "/pay/", False),
    ],
)
def test_a_rule_that_allows_overrules_one_that_asks_if_it_has_no_conditions_and_matches_all_its_tools(
    allowing: str, asking: str, wins: bool
) -> None:
    allow, ask = Rule(tool=allowing, behavior=ALLOW), Rule(tool=asking, behavior=ASK)
    assert overruled([ask, allow]) == overruled([allow, ask]) == ([(ask, allow)] if wins else [])
    assert overruled([Rule(tool=allowing, behavior=DENY), ask]) == []


GLOBS = st.text("ab*?/", min_size=1, max_size=5)


@given(GLOBS, GLOBS, st.lists(st.text("ab/", max_size=5), min_size=20))
def test_a_rule_that_is_overruled_never_decides(allowing: str, asking: str, tools: list[str]) -> None:
    both = (Rule(tool=f"t{allowing}", behavior=ALLOW), Rule(tool=f"t{asking}", behavior=ASK))
    if overruled(both):
        agent = PermissionPolicy(default_behavior=DENY, rules=both)
        assert all(evaluate(agent, (), f"t{tool}", {}).behavior is not ASK for tool in tools)
