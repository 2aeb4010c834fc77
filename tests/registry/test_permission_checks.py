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
