"""What a run is bound to of the tools that a server lists. Pure: no server is needed."""

from typing import Any

import pytest
from mcp_types import Tool, ToolAnnotations
from pydantic import ValidationError

from wakeful import Behavior, McpServer, PermissionPolicy, Rule
from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.tools import Effects, McpToolRef, ToolDescriptor
from wakeful_activities.mcp.tool_list import with_mcp_tools

MODEL = ModelBinding(id="default", provider="default", name="default")


def server(**settings: Any) -> McpServer:
    return McpServer.model_validate({"name": "my git", "command": ["git-server"], **settings})


def tool(name: str, **hints: bool) -> Tool:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    annotations = ToolAnnotations.model_validate(hints)
    return Tool(name=name, description=f"Does {name}.", input_schema=schema, annotations=annotations)


def bound(*tools: Tool, settings: McpServer | None = None, **agent: Any) -> ResolvedAgent:
    before = ResolvedAgent(agent_id="a", model=MODEL, **agent)
    used = settings or server()
    return with_mcp_tools(before, {used.name: (used, tools)}, lambda id: not id.endswith("unwanted"))


def test_a_tool_is_described_as_the_server_describes_it() -> None:
    """B-830"""
    [descriptor] = bound(tool("git-log.all")).tools
    assert descriptor == ToolDescriptor(
        id="mcp__my_git__git_log_all",
        name="git-log.all",
        description="Does git-log.all.",
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
        metadata={"mcp.server": "my git", "mcp.tool": "git-log.all"},
        timeout_seconds=150.0,
        mcp=McpToolRef(server="my git", tool="git-log.all"),
    )


@pytest.mark.parametrize(
    ("hints", "effects", "asks"),
    [
        ({}, Effects.ONCE, False),
        ({"read_only_hint": True}, Effects.READ_ONLY, False),
        ({"idempotent_hint": True}, Effects.IDEMPOTENT, False),
        ({"destructive_hint": True}, Effects.ONCE, True),
        ({"destructive_hint": True, "idempotent_hint": True}, Effects.IDEMPOTENT, True),
        ({"destructive_hint": True, "read_only_hint": True}, Effects.READ_ONLY, False),
        ({"destructive_hint": False}, Effects.ONCE, False),
    ],
)
def test_hints_say_whether_a_call_may_be_repeated_and_whether_people_are_asked(
    hints: dict[str, bool], effects: Effects, asks: bool
) -> None:
    """B-830"""
    agent = bound(tool("x", **hints))
    rules = (Rule(tool="mcp__my_git__x", behavior=Behavior.ASK),)
    assert agent.tools[0].effects is effects
    assert agent.permissions == (PermissionPolicy(default_behavior=Behavior.ALLOW, rules=rules) if asks else None)


def test_settings_of_the_server_and_rules_of_the_agent_win_over_hints() -> None:
    """B-830"""
    settings = server(effects={"del*": "once"}, permissions={"push": "deny", "del*": "allow"})
    own = PermissionPolicy(rules=(Rule(tool="mcp__my_git__push", behavior=Behavior.ALLOW),))
    tools = (tool("delete", destructive_hint=True, idempotent_hint=True), tool("push"))
    agent = bound(*tools, settings=settings, permissions=own)
    assert [each.effects for each in agent.tools] == [Effects.ONCE, Effects.ONCE]
    assert agent.permissions == PermissionPolicy(
        rules=(*own.rules, Rule(tool="mcp__my_git__delete", behavior=Behavior.ALLOW))
    )


def test_an_agent_gets_the_tools_that_the_settings_and_its_own_choice_include() -> None:
    """B-830"""
    settings = server(tools=["log*", "diff", "unwanted"], excluded_tools=["log_secret"])
    names = ("log", "log_all", "log_secret", "diff", "push", "unwanted")
    agent = bound(*map(tool, names), settings=settings, tools=(ToolDescriptor(id="zoom", name="zoom"),))
    assert [each.id for each in agent.tools] == [
        "mcp__my_git__diff",
        "mcp__my_git__log",
        "mcp__my_git__log_all",
        "zoom",
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "give command, a program to start, or url"),
        ({"command": ["x"], "url": "http://x/mcp"}, "give command, a program to start, or url"),
        ({"url": "ftp://x"}, "must start with http"),
        ({"url": "https://ann:pw@example.com/mcp"}, "a user name or a password"),
        ({"url": "https://example.com/mcp", "env": {"A": "b"}}, "env and cwd are of a command"),
        ({"command": ["x"], "token": {"env": "T"}}, "token and headers are of a url"),
        ({"command": ["x"], "name": "--"}, "needs a letter or a digit"),
        ({"command": ["x"], "tols": []}, "Extra inputs are not permitted"),
    ],
)
def test_settings_that_contradict_each_other_are_rejected(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        McpServer.model_validate({"name": "git", **settings})
