"""Reminders: after which tool calls the model reads which message."""

from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from tests.plugins.conftest import Serving
from tests.plugins.world import World
from tests.support.app import Recording
from wakeful import (
    Agent,
    ConfigurationError,
    ContextMessage,
    ContextTarget,
    Registry,
    Reminder,
    ReminderCondition,
    ReminderMessage,
    ReminderOutput,
    ReminderRule,
    TextBlock,
    ToolError,
    call,
    say,
    tool,
)


@tool
def shell(command: str) -> dict[str, JsonValue]:
    """Run a command."""
    if command == "boom":
        raise ToolError("it exploded")
    return {"out": {"lines": ["one", command]}, "code": 0}


def rule(tool: str = "shell", output: Any = "any", *, text: str = "mind", **more: Any) -> ReminderRule:
    message = ReminderMessage(content=text, **{key: more.pop(key) for key in ("cooldown_turns",) if key in more})
    return ReminderRule(tool=tool, output=output, message=message, **more)


async def reminders(*rules: ReminderRule, command: str = "git push", settings: Any = None) -> list[str]:
    agent = Agent(id="a", model="m", tools=[shell], plugins=[Reminder(rules)], plugin_settings=settings or {})
    world = World(agent)
    await world.call_tool("shell", {"command": command})
    assert world.failures == []
    return [block.text for message in world.context for block in message.content if isinstance(block, TextBlock)]


@pytest.mark.parametrize(
    ("made", "command", "matches"),
    [
        (rule("shell"), "ls", True),
        (rule("sh*(git *)"), "git push", True),
        (rule("sh*(git *)"), "ls", False),
        (rule('/^sh/(command =~ "push$")'), "git push", True),
        (rule("other"), "ls", False),
        (rule(output=ReminderOutput(status="success")), "ls", True),
        (rule(output=ReminderOutput(status="error")), "ls", False),
        (rule(output=ReminderOutput(status="error", content="*exploded*")), "boom", True),
        (rule(output=ReminderOutput(content='*"ls"*')), "ls", True),
        (rule(output=ReminderOutput(content="nothing")), "ls", False),
        (
            rule(output=ReminderOutput(content=(ReminderCondition(path="out.lines[*]", op="=", value="ls"),))),
            "ls",
            True,
        ),
        (rule(output=ReminderOutput(content=(ReminderCondition(path="code", op="!=", value="0"),))), "ls", False),
        (
            rule(
                output=ReminderOutput(
                    content=(ReminderCondition(path="code", value="0"), ReminderCondition(path="no.such", value="*"))
                )
            ),
            "ls",
            False,
        ),
    ],
)
async def test_a_rule_matches_a_call_and_its_result(made: ReminderRule, command: str, *, matches: bool) -> None:
    """B-810."""
    assert await reminders(made, command=command) == (["mind"] if matches else [])


async def test_an_agents_rules_come_after_the_plugins_own() -> None:
    """B-810."""
    mine = {"tool": "shell", "output": {"status": "success"}, "message": {"content": "mine"}}
    assert await reminders(rule(text="first"), settings={"reminder": {"rules": [mine]}}) == ["first", "mine"]


async def test_a_message_has_its_target_and_cooldown() -> None:
    agent = Agent(id="a", model="m", tools=[shell], plugins=[Reminder([rule(name="care", cooldown_turns=3)])])
    world = World(agent)
    await world.call_tool("shell", {"command": "ls"})
    assert world.context == (
        ContextMessage(
            key="reminder:care",
            content=(TextBlock(text="mind"),),
            target=ContextTarget.SUFFIX_SYSTEM,
            cooldown_turns=3,
        ),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool": "shell(", "message": {"content": "x"}},
        {"tool": "shell", "output": {"content": "[a"}, "message": {"content": "x"}},
        {"tool": "shell", "output": {"content": [{"path": "a b", "value": "x"}]}, "message": {"content": "x"}},
        {"tool": "shell", "output": {"status": "pending"}, "message": {"content": "x"}},
        {"tool": "shell", "mesage": {"content": "x"}, "message": {"content": "x"}},
    ],
)
def test_an_invalid_rule_is_rejected_by_the_registry(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="the settings of plugin 'reminder' are invalid"):
        Registry(agents=[Agent(id="a", plugins=[Reminder()], plugin_settings={"reminder": {"rules": [wrong]}})])


def test_an_invalid_rule_of_the_plugin_is_rejected_when_it_is_constructed() -> None:
    with pytest.raises(ValidationError, match="is never closed"):
        rule("shell(")


async def test_the_model_is_reminded_with_its_next_request(serving: Serving, thread_id: str) -> None:
    model = Recording([call("shell", command="git push"), call("shell", command="ls"), say("done")])
    agent = Agent(id="a", model="m", tools=[shell], plugins=[Reminder([rule("shell(git *)", text="mind the tests")])])
    async with serving(Registry(agents=[agent], models={"m": model})) as client:
        result = await client.run("a", "go", thread_id=thread_id)
    assert result.response == "done"
    reminded = [["mind the tests" in message.text for message in request.messages] for request in model.requests]
    assert [any(each) for each in reminded] == [False, True, False]
