"""Rules whose argument paths none of a run's tools has are logged."""

import logging

import pytest

from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.tools import FrontendTool, ToolDescriptor
from wakeful_activities.inference.rule_warnings import RuleWarnings

SEARCH = ToolDescriptor(
    id="mcp_search", name="mcp_search", description="", parameters={"properties": {"query": {"type": "string"}}}
)
PICK = FrontendTool(id="pick", description="", parameters={"properties": {"colour": {"type": "string"}}}).descriptor()


def deny(tool: str) -> Rule:
    return Rule(tool=tool, behavior=Behavior.DENY)


def causes(
    caplog: pytest.LogCaptureFixture, of_agent: str, of_request: str, *, times: int = 1, idle: tuple[str, ...] = ()
) -> list[str]:
    agent = ResolvedAgent(
        agent_id="a",
        model=ModelBinding(id="m", provider="m", name="m"),
        tools=(SEARCH,),
        permissions=PermissionPolicy(rules=(deny(of_agent),)),
        idle_rules=idle,
    )
    input = InferInput(
        agent=agent.digest(),
        transcript=TranscriptRef(length=0, digest=""),
        frontend_tools=(PICK,),
        permissions=(deny(of_request),),
    )
    warnings = RuleWarnings()
    caplog.set_level(logging.WARNING)
    for _ in range(times):
        warnings.warn(agent, input)
    return [str(record.__dict__["cause"]) for record in caplog.records]


def test_a_rule_of_the_agent_and_one_of_the_request_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    searched, picked = causes(caplog, 'mcp_*(qery = "x")', 'pick(color.name = "red")', times=3)
    assert searched.endswith("tool 'mcp_search' has no argument 'qery'; it has: query; did you mean 'query'?")
    assert picked.endswith("tool 'pick' has no argument 'color.name'; it has: colour; did you mean 'colour'?")


def test_rules_whose_paths_exist_and_those_for_other_tools_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert causes(caplog, 'mcp_*(query = "x")', 'of_a_sub_agent(zzz = "x")') == []


def test_a_rule_that_matches_no_tool_of_the_run_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    assert causes(caplog, "mcp_search", "pick", times=3, idle=("mcp_serch", "p?ck")) == [
        "permission rule 'mcp_serch' of agent 'a' matches no tool of its runs"
    ]
