"""Permission rules without an effect: the registry refuses what looks misspelt, and a rule that another overrules."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from wakeful import Agent, ConfigurationError, PermissionPolicy, Plugin, Registry, Rule, tool
from wakeful.authoring.mcp_server import McpServer
from wakeful.contract.permissions import BehaviorName
from wakeful.contract.remote import Endpoint


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
def wire(amount: int) -> str:
    """Wire money."""
    return f"wired {amount}"


@tool
def name(text: str) -> str:
    """Name it."""
    return text


class Bank(Plugin):
    id = "bank"
    tools = (wire,)


GIT = McpServer(name="git", url="http://localhost:1/mcp")


def policy(rules: Mapping[str, BehaviorName], default: BehaviorName = "allow") -> PermissionPolicy:
    return PermissionPolicy(default_behavior=default, rules=[Rule(tool=t, behavior=b) for t, b in rules.items()])


def problems(*agents: Agent) -> tuple[str, ...]:
    try:
        Registry(agents=agents)
    except ConfigurationError as error:
        return error.problems
    return ()


def test_rules_that_are_too_large_together_are_refused() -> None:
    large = policy({rf'pay(amount =~ "\\w{{190}}{number}")': "deny" for number in range(200)})
    (problem,) = problems(Agent(id="clerk", tools=[pay], permissions=large))
    assert problem.startswith("agent 'clerk': the 200 permission rules are too large together, from number 3 on")


@pytest.mark.parametrize("rule", ["payy", "Pay", "payy(*)", 'payy(amount = "5")', "payy*", "[!p]ay"])
@pytest.mark.parametrize("behavior", ["ask", "allow", "deny"])
def test_a_rule_with_a_misspelt_tool_is_refused(rule: str, behavior: BehaviorName) -> None:
    assert problems(Agent(id="clerk", tools=[pay], permissions=policy({rule: behavior}))) == (
        f"agent 'clerk': permission rule {rule!r} matches no tool of the agent; it has: cancel_task, pay; "
        "did you mean 'pay'? If a front end brings the tool, write its name as a regular expression, /^…$/, "
        "which is not checked",
    )


def test_a_misspelt_rule_in_a_file_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '[agent.clerk]\ntools = ["pay"]\n[agent.clerk.permissions]\nrules = [{ tool = "payy", behavior = "ask" }]\n'
    )
    with pytest.raises(ConfigurationError, match=r"a\.toml:4: agent 'clerk': permission rule 'payy' matches no tool"):
        Registry(agent_files=[tmp_path], tools=[pay])


@pytest.mark.parametrize(
    ("rule", "agent"),
    {
        "pay": Agent(id="a", tools=[pay]),
        "p*": Agent(id="a", tools=[pay]),
        "/^p.y$/": Agent(id="a", tools=[pay]),
        "wire": Agent(id="a", plugins=[Bank()]),
        "agent_run_*": Agent(id="a", delegates=["payer"]),
        "send_message": Agent(id="a", messages=True),
        "pay(*)": Agent(id="a", delegates=["payer"]),  # a sub-agent inherits the rule
        "mcp__git__push": Agent(id="a", mcp=[GIT]),
        "mcp__*": Agent(id="a", mcp=[GIT]),
        "*__push": Agent(id="a", mcp=[GIT]),
        "/push/": Agent(id="a", mcp=[GIT]),
    }.items(),
)
def test_rules_that_match_a_tool_or_may_match_one_of_an_mcp_server_are_accepted(
    rule: str, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "wakeful"):
        payer = Agent(id="payer", tools=[pay])
        assert problems(agent.model_copy(update={"permissions": policy({rule: "ask"})}), payer) == ()
    assert caplog.messages == []


def test_a_glob_that_no_mcp_tool_can_match_is_checked_on_agents_with_mcp_servers_too() -> None:
    (problem,) = problems(Agent(id="a", tools=[pay], mcp=[GIT], permissions=policy({"payy*": "ask"})))
    assert "did you mean 'pay'?" in problem


@pytest.mark.parametrize("rule", ["show_map", "/^payy$/", "wire"])
def test_a_rule_that_may_be_meant_for_a_frontend_tool_is_accepted_with_a_warning(
    rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    clerk = Agent(id="clerk", tools=[pay], permissions=policy({rule: "ask"}))
    with caplog.at_level(logging.WARNING, "wakeful"):
        assert problems(clerk, Agent(id="other", tools=[wire])) == ()
    assert caplog.messages == [
        f"agent 'clerk': permission rule {rule!r} matches no tool of the agent or its sub-agents: unless a front end "
        "brings such a tool, the rule has no effect"
    ]


def test_a_rule_that_may_be_meant_for_an_agent_of_another_service_is_said_not_to_reach_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = Agent(id="remote", endpoint=Endpoint(url="http://localhost:1"), description="Elsewhere.")
    boss = Agent(id="boss", tools=[pay], delegates=["remote"], permissions=policy({"wire": "deny"}))
    with caplog.at_level(logging.WARNING, "wakeful"):
        assert problems(boss, remote) == ()
    (warning,) = caplog.messages
    assert warning.endswith("; no rule reaches the tools of agents at other services, here: remote")


def test_what_tools_an_agent_of_another_service_has_is_not_asked() -> None:
    remote = Agent(id="remote", endpoint=Endpoint(url="http://localhost:1"), description="Elsewhere.")
    assert problems(Agent(id="a", tools=[pay], delegates=["remote"], permissions=policy({"pay": "ask"})), remote) == ()


@pytest.mark.parametrize(("allow", "ask"), [("*", "pay"), ("p*", "pay"), ("pay", 'pay(amount = "5")')])
def test_a_rule_that_asks_about_what_another_allows_is_refused(allow: str, ask: str) -> None:
    assert problems(Agent(id="clerk", tools=[pay], permissions=policy({allow: "allow", ask: "ask"}, "ask"))) == (
        f"agent 'clerk': permission rule 'ask {ask}' never applies, because 'allow {allow}' wins over it: remove the "
        'rule that allows; default_behavior="allow" allows what no rule matches',
    )


def test_a_rule_may_allow_some_of_what_another_asks_about_or_denies() -> None:
    for rules in (
        policy({"pay": "ask"}),
        policy({'pay(amount = "5")': "allow", "pay": "ask"}, "ask"),
        policy({"pay": "allow", "p*": "ask"}, "ask"),
        policy({"*": "allow", "pay": "deny"}, "ask"),
    ):
        assert problems(Agent(id="clerk", tools=[pay], permissions=rules)) == ()


@pytest.mark.parametrize("rule", ['pay(amout = "5")', 'p*(amout = "5")', 'pay(amount.cents = "5")'])
@pytest.mark.parametrize("behavior", ["ask", "allow", "deny"])
def test_a_rule_with_a_path_that_its_tool_does_not_have_is_refused(rule: str, behavior: BehaviorName) -> None:
    (problem,) = problems(Agent(id="clerk", tools=[pay], permissions=policy({rule: behavior})))
    assert problem.startswith(
        f"agent 'clerk': permission rule {rule!r} matches no call: tool 'pay' has no argument 'am"
    )


@pytest.mark.parametrize(
    "rule",
    [
        'pay(amount = "5")',
        '*(amount = "5")',
        'spawn_agent(agent = "teller")',
        'wire(amount = "5")',
        '/^pay$/(brought_by_a_front_end = "5")',
        'mcp__git__*(path = "x")',
        '*(known_to_the_mcp_server = "x")',
    ],
)
def test_a_rule_with_a_path_that_a_tool_may_have_is_accepted(rule: str) -> None:
    teller = Agent(id="teller", plugins=[Bank()], mcp=[GIT])
    assert problems(Agent(id="clerk", tools=[pay], spawns=["teller"], permissions=policy({rule: "deny"})), teller) == ()


def test_paths_are_not_checked_for_a_tool_that_is_not_registered() -> None:
    (problem,) = problems(Agent(id="clerk", tools=["pay"], permissions=policy({'pay(amout = "5")': "deny"})))
    assert "pay" in problem
    assert "amout" not in problem


@pytest.mark.parametrize(
    ("rule", "is_idle"),
    [("mcp__git__push", False), ("mcp__git__pull", True), ("mcp__*", False), ("mcp__mail__send", False), ("*", False)],
)
def test_of_the_rules_for_mcp_tools_a_run_has_those_that_match_none_of_them(rule: str, is_idle: bool) -> None:
    mail = Agent(id="mailer", description="Mails.", mcp=[McpServer(name="mail", url="http://localhost:1/mcp")])
    clerk = Agent(id="clerk", tools=[pay], mcp=[GIT], delegates=["mailer"], permissions=policy({rule: "ask"}))
    registry = Registry(agents=[clerk, mail])
    resolved = registry.resolve("clerk")
    push = resolved.tools[0].model_copy(update={"id": "mcp__git__push", "name": "push"})
    listed = resolved.model_copy(update={"tools": (*resolved.tools, push)})
    assert registry.idle_rules(listed) == ((rule,) if is_idle else ())
    assert registry.idle_rules(listed.model_copy(update={"agent_id": "gone"})) == ()
    assert registry.idle_rules(registry.resolve("mailer")) == ()


ASKING = Rule(tool="pay", behavior="ask", message="Pay {amount} to {to}?")


def test_a_message_with_an_argument_that_the_tool_does_not_have_is_refused() -> None:
    """Also of a tool of a sub-agent, whose people would be asked."""
    (problem,) = problems(Agent(id="clerk", tools=[pay], permissions=PermissionPolicy(rules=[ASKING])))
    assert problem == (
        "agent 'clerk': permission rule 'pay': its message has {to}, and tool 'pay' has no argument 'to'; "
        "it has: amount"
    )
    boss = Agent(id="boss", delegates=["clerk"], permissions=PermissionPolicy(default_behavior="allow", rules=[ASKING]))
    (problem,) = problems(boss, Agent(id="clerk", tools=[pay]))
    assert problem.startswith("agent 'boss': permission rule 'pay': its message has {to}")


def test_a_malformed_message_is_refused() -> None:
    rule = ASKING.model_copy(update={"message": "Pay {amount!r}?"})
    (problem,) = problems(Agent(id="clerk", tools=[pay], permissions=PermissionPolicy(rules=[rule])))
    assert problem.startswith(
        "agent 'clerk': permission rule 'pay': message 'Pay {amount!r}?', character 5: '{amount!r}'"
    )


def test_a_number_that_is_compared_with_an_argument_of_another_type_is_refused() -> None:
    (problem,) = problems(Agent(id="clerk", tools=[name], permissions=policy({"name(text > 5)": "deny"})))
    assert problem == (
        "agent 'clerk': permission rule 'name(text > 5)' fits no call: tool 'name' has an argument 'text' of type "
        "string, which is never compared with a number"
    )
    assert problems(Agent(id="clerk", tools=[pay], permissions=policy({"pay(amount > 5)": "ask"}))) == ()


def test_the_question_of_a_rule_is_written_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        """[agent.clerk]
tools = ["pay"]
[[agent.clerk.permissions.rules]]
tool = "pay(amount > 100)"
behavior = "ask"
message = "Pay {amount} EUR?"
expires_after = 3600
on_expiry = "deny"
"""
    )
    registry = Registry(agent_files=[tmp_path], tools=[pay])
    permissions = registry.agents["clerk"].permissions
    assert permissions is not None
    assert permissions.rules == (
        Rule(
            tool="pay(amount > 100)",
            behavior="ask",
            message="Pay {amount} EUR?",
            expires_after=3600,
            on_expiry="deny",
        ),
    )


def warnings(caplog: pytest.LogCaptureFixture, *agents: Agent) -> list[str]:
    with caplog.at_level(logging.WARNING, "wakeful"):
        assert problems(*agents) == ()
    return caplog.messages


@pytest.mark.parametrize("field", ["delegates", "spawns", "handoffs"])
@pytest.mark.parametrize(("default", "remedy"), [("deny", "deny"), ("ask", "ask about")])
def test_a_closed_default_that_a_sub_agent_does_not_have_is_said_not_to_hold_for_it(
    field: str, default: BehaviorName, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-513"""
    boss = Agent(id="boss", permissions=policy({}, default)).model_copy(update={field: ("payer",)})
    (warning,) = warnings(caplog, boss, Agent(id="payer", tools=[pay], mcp=[GIT]))
    assert warning == (
        f"agent 'boss' has default_behavior={default!r}, which does not hold for agent 'payer', one of its {field}: "
        "that may call pay, mcp__git__*. Give agent 'payer' permissions of its own, or agent 'boss' rules that "
        f"{remedy} these tools: rules hold for both"
    )


def test_a_warning_of_a_closed_default_names_the_first_of_many_tools(caplog: pytest.LogCaptureFixture) -> None:
    servers = [McpServer(name=f"s{number}", url="http://localhost:1/mcp") for number in range(6)]
    boss = Agent(id="boss", delegates=["payer"], permissions=policy({}, "deny"))
    (warning,) = warnings(caplog, boss, Agent(id="payer", tools=[pay], mcp=servers))
    assert "that may call pay, mcp__s0__*, mcp__s1__*, mcp__s2__*, mcp__s3__* and 2 more. Give" in warning


@pytest.mark.parametrize(
    ("boss", "payer"),
    [
        (policy({}, "deny"), Agent(id="payer")),  # it has no tools
        (policy({}, "deny"), Agent(id="payer", tools=[pay], permissions=policy({}, "ask"))),
        (policy({"*": "ask"}, "ask"), Agent(id="payer", tools=[pay], mcp=[GIT])),
        (policy({"pay": "deny"}, "deny"), Agent(id="payer", tools=[pay])),
        (policy({}, "allow"), Agent(id="payer", tools=[pay])),
        (policy({}, "deny"), Agent(id="payer", description="Elsewhere.", endpoint=Endpoint(url="http://localhost:1"))),
    ],
)
def test_sub_agents_that_may_call_nothing_that_a_closed_default_would_stop_need_no_warning(
    boss: PermissionPolicy, payer: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings(caplog, Agent(id="boss", delegates=["payer"], permissions=boss), payer) == []


def test_an_agent_that_starts_itself_has_its_own_default(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, Agent(id="boss", tools=[pay], spawns=["boss"], permissions=policy({}, "deny"))) == []


def test_a_rule_that_allows_does_not_close_a_sub_agent(caplog: pytest.LogCaptureFixture) -> None:
    boss = Agent(id="boss", delegates=["payer"], permissions=policy({"*": "allow"}, "deny"))
    assert len(warnings(caplog, boss, Agent(id="payer", tools=[pay]))) == 1
