"""The runtime's tools: which agent gets which, what their prompts contain, and checks of the agents they name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from wakeful import Agent, ConfigurationError, Registry, tool
from wakeful.contract.errors import InvalidValue
from wakeful.contract.mail import Recipients
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
    """The tools of agent `a`, beside which the clerk and the mute are registered."""
    agent = Registry(agents=[Agent(id="a", **fields), CLERK, MUTE], tools=[look]).resolve("a", in_task=in_task)
    return {descriptor.id: descriptor for descriptor in agent.tools}


ALL_TOOLS = resolved(delegates=["clerk"], handoffs=["clerk"], spawns=["clerk", "mute"], messages=["any"])


def problems(**fields: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as error:
        Registry(agents=[Agent(id="a", **fields), CLERK, MUTE, Agent(id="b c"), Agent(id="x" * 60)])
    return error.value.problems


def test_an_agent_without_subagents_gets_no_runtime_tools() -> None:
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
        ({"messages": ["parent"]}, [TOOL_RECOVER_MESSAGES, TOOL_SEND_MESSAGE]),
        ({"messages": []}, []),
    ],
)
def test_an_agent_gets_the_tools_that_its_fields_ask_for_sorted_by_id(fields: dict[str, Any], given: list[str]) -> None:
    assert list(resolved(**fields)) == given


def test_delegates_and_handoffs_are_described_by_the_beginning_of_their_instructions() -> None:
    """B-500."""
    excerpt = f'Its instructions begin: "{CLERK.written_instructions.strip()[:100]}…"'
    tools = resolved(delegates=["clerk", "mute"], handoffs=["clerk", "mute"], spawns=["clerk", "mute"])
    for id in ("agent_run_", "handoff_to_"):
        assert excerpt in tools[f"{id}clerk"].description
        assert "'clerk'" in tools[f"{id}clerk"].description
        assert "'mute'" in tools[f"{id}mute"].description
        assert "instructions" not in tools[f"{id}mute"].description
    assert excerpt.replace("Its", "clerk's") in next(parameters(tools[TOOL_SPAWN].parameters))["description"]
    assert tools["agent_run_clerk"].runtime == RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id="clerk")
    assert tools["agent_run_clerk"].effects is Effects.READ_ONLY
    assert tools["handoff_to_clerk"].runtime == RuntimeTool(kind=RuntimeKind.HANDOFF, agent_id="clerk")


def test_an_agent_with_a_description_is_described_by_it() -> None:
    """B-500."""
    poet = Agent(id="poet", instructions="Write in verse.", description="Writes  poems" + " and poems" * 200)
    registry = Registry(agents=[poet, Agent(id="boss", delegates=["poet"])])
    (tool,) = registry.resolve("boss").tools
    assert 'Its description: "Writes  poems and poems' in tool.description
    assert '…"' in tool.description
    assert "verse" not in tool.description
    assert len(tool.description) < 1300


@pytest.mark.parametrize(
    ("tool_id", "parts"),
    [
        ("agent_run_clerk", ["wait for its answer", "sees nothing of this conversation", "`response`", "an error"]),
        ("handoff_to_clerk", ["rather than yours", "sees the whole conversation", "takes over from the next step"]),
        (TOOL_SPAWN, ["without waiting", "in parallel", "task's id at once", "<background-task-event>", "do not poll"]),
        (TOOL_CANCEL_TASK, ["everything it has started", "when the task has stopped", "`accepted`", "`failed`"]),
        (TOOL_LIST_TASKS, ["`running`", "returns at once", "<background-task-event> when one ends"]),
        (TOOL_TASK_RESULT, ["its result or error", "does not wait", "shortened", "has the whole result"]),
        (TOOL_SEND_MESSAGE, ["`accepted`", "`failed`", "does not wait for a reply", TOOL_RECOVER_MESSAGES]),
        (TOOL_RECOVER_MESSAGES, ["could not be delivered", "`list`", "`replay`", "`clear`", "before you replay"]),
    ],
)
def test_a_description_says_when_to_use_a_tool_and_what_comes_back(tool_id: str, parts: list[str]) -> None:
    description = ALL_TOOLS[tool_id].description
    assert [part for part in parts if part not in description] == []


@pytest.mark.parametrize(
    ("tool_id", "parts"),
    [
        ("agent_run_clerk", ["everything the agent needs to know", "Say what you want back"]),
        ("handoff_to_clerk", ["in one sentence"]),
        (TOOL_SPAWN, ["everything the agent needs to know", "instead of the task's id", "other running tasks"]),
        (TOOL_CANCEL_TASK, ["A task you started", "name or id", "It ends, and so do you"]),
        (TOOL_TASK_RESULT, ["name or id"]),
        (TOOL_SEND_MESSAGE, ["that started you", "still running", "thread id", "does not exist yet", "what it needs"]),
        (TOOL_RECOVER_MESSAGES, ["`list` by default"]),
    ],
)
def test_parameters_say_what_they_mean(tool_id: str, parts: list[str]) -> None:
    schema = json.dumps(ALL_TOOLS[tool_id].parameters)
    assert [part for part in parts if part not in schema] == []
    assert all("description" in parameter for parameter in parameters(ALL_TOOLS[tool_id].parameters))


def parameters(schema: Any) -> Iterator[dict[str, Any]]:
    """Every parameter that a model has to choose a value for."""
    for parameter in schema.get("properties", {}).values():
        if "oneOf" in parameter:
            for option in parameter["oneOf"]:
                yield option
                yield from parameters(option)
        elif "const" not in parameter:
            yield parameter


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
def test_valid_arguments(tool_id: str, arguments: JsonValue) -> None:
    """B-550, B-560, B-570."""
    assert schema_errors(tool_id, arguments) == 0


@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        ("agent_run_clerk", {}),
        ("agent_run_clerk", {"prompt": "Add up.", "to": "clerk"}),
        (TOOL_SPAWN, {"agent": "unknown", "prompt": "Go."}),
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
def test_invalid_arguments(tool_id: str, arguments: JsonValue) -> None:
    assert schema_errors(tool_id, arguments) > 0


def schema_errors(tool_id: str, arguments: JsonValue) -> int:
    schema = ALL_TOOLS[tool_id].parameters
    Draft202012Validator.check_schema(schema)
    return len(list(Draft202012Validator(schema).iter_errors(arguments)))


def test_spawn_agent_has_the_ids_that_it_may_start() -> None:
    assert resolved(spawns=["mute", "clerk"])[TOOL_SPAWN].runtime == RuntimeTool(
        kind=RuntimeKind.SPAWN, agent_ids=("mute", "clerk")
    )


@pytest.mark.parametrize(
    ("messages", "relations", "recipients"),
    [
        (True, ["parent", "child", "agent"], ("tree",)),
        (["parent", "parent"], ["parent"], ("parent",)),
        (["children"], ["child"], ("children",)),
        (["siblings", "parent"], ["parent", "agent"], ("siblings", "parent")),
        (["any"], ["parent", "child", "agent"], ("any",)),
    ],
)
def test_send_message_offers_the_recipients_that_the_agent_may_write_to(
    messages: Any, relations: list[str], recipients: tuple[Recipients, ...]
) -> None:
    sends = resolved(messages=messages)[TOOL_SEND_MESSAGE]
    (to, _) = parameters_of(sends)
    assert [option["properties"]["relation"]["const"] for option in to["oneOf"]] == relations
    assert ("agent_id" in json.dumps(sends.parameters)) == ("any" in recipients)
    assert sends.runtime == RuntimeTool(kind=RuntimeKind.SEND_MESSAGE, recipients=recipients)


def parameters_of(descriptor: ToolDescriptor) -> list[Any]:
    properties: Any = descriptor.parameters["properties"]
    return list(properties.values())


def test_an_agents_own_tool_replaces_the_runtimes() -> None:
    """B-511."""

    @tool(name=TOOL_CANCEL_TASK)
    def mine() -> None:
        """Cancel it my way."""

    assert resolved(tools=[mine], in_task=True) == {TOOL_CANCEL_TASK: mine.descriptor}
    assert resolved(tools=[mine], spawns=["clerk"])[TOOL_CANCEL_TASK] == mine.descriptor


def test_all_unknown_and_repeated_agents_are_reported() -> None:
    assert problems(delegates=["typo", "clerk", "clerk"], spawns=["nil"], handoffs=["a", "nil"]) == (
        f"agent 'a' names unknown agent 'typo' in delegates; registered: a, b c, clerk, mute, {'x' * 60}",
        "agent 'a' lists agents twice in delegates: clerk",
        f"agent 'a' names unknown agent 'nil' in spawns; registered: a, b c, clerk, mute, {'x' * 60}",
        f"agent 'a' names unknown agent 'nil' in handoffs; registered: a, b c, clerk, mute, {'x' * 60}",
        "agent 'a' hands off to itself; remove it from its handoffs",
    )


def test_agents_whose_tool_names_providers_reject_are_reported() -> None:
    rule = "providers accept names of at most 64 letters, digits, '_' and '-'"
    assert problems(delegates=["b c", "x" * 60], handoffs=["b c"], spawns=["b c", "x" * 60]) == (
        f"agent 'a' delegates to 'b c', whose tool would be called 'agent_run_b c'; {rule}: rename agent 'b c'",
        f"agent 'a' delegates to '{'x' * 60}', whose tool would be called 'agent_run_{'x' * 60}'; {rule}: "
        f"rename agent '{'x' * 60}'",
        f"agent 'a' hands off to 'b c', whose tool would be called 'handoff_to_b c'; {rule}: rename agent 'b c'",
    )


def test_one_agent_is_not_a_list_of_agents() -> None:
    with pytest.raises(InvalidValue, match="delegates"):
        Agent(id="a", delegates="clerk")
