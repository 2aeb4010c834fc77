"""The tools that the runtime gives: who gets which, what a model is told of them, which agents they may not name."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue, ValidationError

from wakeful import Agent, ConfigurationError, Registry, tool
from wakeful.contract.names import (
    TOOL_CANCEL_TASK,
    TOOL_LIST_TASKS,
    TOOL_RECOVER_MESSAGES,
    TOOL_SEND_MESSAGE,
    TOOL_SPAWN,
    TOOL_TASK_RESULT,
)
from wakeful.contract.tools import Effects, RuntimeKind, RuntimeTool, ToolDescriptor

CLERK = Agent(id="clerk", instructions="\nYou keep the books. " + "Be exact. " * 20)
MUTE = Agent(id="mute")


@tool
def look(where: str) -> str:
    """Look."""
    return where


@tool(background=True)
def render() -> None:
    """Render."""


def resolved(*, in_task: bool = False, **fields: Any) -> dict[str, ToolDescriptor]:
    """The tools of agent `a`, which knows the clerk and the mute."""
    agent = Registry(agents=[Agent(id="a", **fields), CLERK, MUTE], tools=[look]).resolve("a", in_task=in_task)
    return {descriptor.id: descriptor for descriptor in agent.tools}


def problems(**fields: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[Agent(id="a", **fields), CLERK, MUTE, Agent(id="b c"), Agent(id="x" * 60)])
    return error.value.problems


def test_an_agent_that_asks_for_nothing_is_given_nothing() -> None:
    assert list(resolved(tools=["look"])) == ["look"]


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({"delegates": ["clerk", "mute", "a"]}, ["agent_run_a", "agent_run_clerk", "agent_run_mute"]),
        ({"handoffs": ["mute", "clerk"]}, ["handoff_to_clerk", "handoff_to_mute"]),
        ({"spawns": ["a"]}, [TOOL_CANCEL_TASK, TOOL_LIST_TASKS, TOOL_SPAWN, TOOL_TASK_RESULT]),
        ({"tools": [render]}, [TOOL_CANCEL_TASK, TOOL_LIST_TASKS, "render", TOOL_TASK_RESULT]),
        ({"in_task": True}, [TOOL_CANCEL_TASK]),
        ({"messages": True}, [TOOL_RECOVER_MESSAGES, TOOL_SEND_MESSAGE]),
    ],
)
def test_an_agent_is_given_what_it_may_do_in_the_order_of_ids(fields: dict[str, Any], given: list[str]) -> None:
    assert list(resolved(**fields)) == given


def test_what_a_model_is_told_of_a_delegate() -> None:
    """B-500."""
    tools = resolved(delegates=["clerk", "mute"])
    told = (CLERK.instructions.strip()[:100], "Delegate to agent mute.")
    assert (tools["agent_run_clerk"].description, tools["agent_run_mute"].description) == told
    assert tools["agent_run_clerk"].runtime == RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id="clerk")
    assert tools["agent_run_clerk"].effects is Effects.READ_ONLY
    assert tools["agent_run_clerk"].parameters == {
        "type": "object",
        "properties": {"prompt": {"type": "string"}},
        "required": ["prompt"],
        "additionalProperties": False,
    }


def test_what_a_model_is_told_of_a_handoff() -> None:
    tools = resolved(handoffs=["clerk", "mute"])
    told = f"Hand the conversation over to clerk: {CLERK.instructions.strip()[:100]}"
    assert tools["handoff_to_clerk"].description == told
    assert tools["handoff_to_mute"].description == "Hand the conversation over to mute."
    assert tools["handoff_to_clerk"].runtime == RuntimeTool(kind=RuntimeKind.HANDOFF, agent_id="clerk")


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        ("agent_run_clerk", {"prompt": "Add up."}),
        ("handoff_to_clerk", {}),
        ("handoff_to_clerk", {"reason": "books"}),
        (TOOL_SPAWN, {"agent": "mute", "prompt": "Go."}),
        (TOOL_SPAWN, {"agent": "clerk", "prompt": "Go.", "name": "books"}),
        (TOOL_CANCEL_TASK, {"target": {"relation": "self"}}),
        (TOOL_CANCEL_TASK, {"target": {"relation": "child", "name": "bg_0"}}),
        (TOOL_LIST_TASKS, {}),
        (TOOL_TASK_RESULT, {"task": "bg_0"}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "parent"}, "message": ""}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "child", "name": "books"}, "message": "Hurry."}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "agent", "thread_id": "t"}, "message": "Hello."}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "agent", "thread_id": "t", "agent_id": "clerk"}, "message": "Hello."}),
        (TOOL_RECOVER_MESSAGES, {}),
        (TOOL_RECOVER_MESSAGES, {"action": "replay"}),
    ],
)
def test_calls_that_the_schemas_take(tool_id: str, arguments: JsonValue) -> None:
    """B-550, B-560, B-570."""
    assert complaints(tool_id, arguments) == 0


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        ("agent_run_clerk", {}),
        ("agent_run_clerk", {"prompt": "Add up.", "to": "clerk"}),
        (TOOL_SPAWN, {"agent": "nobody", "prompt": "Go."}),
        (TOOL_SPAWN, {"agent": "clerk"}),
        (TOOL_CANCEL_TASK, {"target": {"relation": "child"}}),
        (TOOL_CANCEL_TASK, {"target": {"relation": "parent"}}),
        (TOOL_CANCEL_TASK, {}),
        (TOOL_LIST_TASKS, {"all": True}),
        (TOOL_TASK_RESULT, {}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "child"}, "message": "Hurry."}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "agent"}, "message": "Hello."}),
        (TOOL_SEND_MESSAGE, {"to": {"relation": "parent"}}),
        (TOOL_RECOVER_MESSAGES, {"action": "burn"}),
    ],
)
def test_calls_that_the_schemas_do_not_take(tool_id: str, arguments: JsonValue) -> None:
    assert complaints(tool_id, arguments) > 0


def complaints(tool_id: str, arguments: JsonValue) -> int:
    tools = resolved(delegates=["clerk"], handoffs=["clerk"], spawns=["clerk", "mute"], messages=True)
    Draft202012Validator.check_schema(tools[tool_id].parameters)
    return len(list(Draft202012Validator(tools[tool_id].parameters).iter_errors(arguments)))


def test_the_runtime_knows_which_agents_may_be_spawned() -> None:
    assert resolved(spawns=["mute", "clerk"])[TOOL_SPAWN].runtime == RuntimeTool(
        kind=RuntimeKind.SPAWN, agent_ids=("mute", "clerk")
    )


def test_a_tool_of_the_agents_own_takes_the_place_of_the_runtimes() -> None:
    """B-511."""

    @tool(name=TOOL_CANCEL_TASK)
    def mine() -> None:
        """Cancel it my way."""

    assert resolved(tools=[mine], in_task=True) == {TOOL_CANCEL_TASK: mine.descriptor}
    assert resolved(tools=[mine], spawns=["clerk"])[TOOL_CANCEL_TASK] == mine.descriptor


def test_unknown_and_repeated_agents_are_all_named() -> None:
    assert problems(delegates=["nobody", "clerk", "clerk"], spawns=["noone"], handoffs=["a", "nil"]) == (
        f"agent 'a' names unknown agent 'nobody' in delegates; registered: a, b c, clerk, mute, {'x' * 60}",
        "agent 'a' lists agents twice in delegates: clerk",
        f"agent 'a' names unknown agent 'noone' in spawns; registered: a, b c, clerk, mute, {'x' * 60}",
        f"agent 'a' names unknown agent 'nil' in handoffs; registered: a, b c, clerk, mute, {'x' * 60}",
        "agent 'a' hands off to itself; take it out of its handoffs",
    )


def test_agents_whose_tools_no_model_could_call_are_named() -> None:
    rule = "models take names of at most 64 letters, digits, '_' and '-'"
    assert problems(delegates=["b c", "x" * 60], handoffs=["b c"], spawns=["b c", "x" * 60]) == (
        f"agent 'a' delegates to 'b c', whose tool would be called 'agent_run_b c'; {rule}: rename agent 'b c'",
        f"agent 'a' delegates to '{'x' * 60}', whose tool would be called 'agent_run_{'x' * 60}'; {rule}: "
        f"rename agent '{'x' * 60}'",
        f"agent 'a' hands off to 'b c', whose tool would be called 'handoff_to_b c'; {rule}: rename agent 'b c'",
    )


def test_one_agent_is_not_a_list_of_agents() -> None:
    with pytest.raises(ValidationError, match="delegates"):
        Agent(id="a", delegates="clerk")
