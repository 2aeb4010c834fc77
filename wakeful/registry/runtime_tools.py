"""The tools that the runtime gives to agents: their descriptors, and what is wrong with the agents they name.

What they do when a model calls them is the loop's business; none of them ever runs as an activity.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from pydantic import JsonValue

from wakeful.authoring.agent import Agent
from wakeful.contract.names import (
    TOOL_CANCEL_TASK,
    TOOL_DELEGATE,
    TOOL_HANDOFF,
    TOOL_LIST_TASKS,
    TOOL_RECOVER_MESSAGES,
    TOOL_SEND_MESSAGE,
    TOOL_SPAWN,
    TOOL_TASK_RESULT,
)
from wakeful.contract.tools import Effects, RuntimeKind, RuntimeTool, ToolDescriptor

EXCERPT = 100
"""Characters of an agent's instructions that tell another agent what it is for."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes for a tool's name."""

_TEXT: JsonValue = {"type": "string"}


def runtime_tools(
    agent: Agent, instructions: Mapping[str, str], *, has_background: bool, in_task: bool
) -> tuple[ToolDescriptor, ...]:
    """What the runtime gives to the agent, in no particular order.

    Args:
        instructions: of every agent there is, by id.
        has_background: one of the agent's own tools runs in the background.
        in_task: the run is, or is a part of, a background task.
    """
    return tuple(_given(agent, instructions, has_tasks=bool(agent.spawns) or has_background, in_task=in_task))


def _given(
    agent: Agent, instructions: Mapping[str, str], *, has_tasks: bool, in_task: bool
) -> Iterator[ToolDescriptor]:
    for id in agent.delegates:
        yield delegate_tool(id, instructions[id])
    for id in agent.handoffs:
        yield handoff_tool(id, instructions[id])
    if agent.spawns:
        yield spawn_tool(agent.spawns)
    if has_tasks or in_task:
        yield cancel_task_tool()
    if has_tasks:
        yield list_tasks_tool()
        yield task_result_tool()
    if agent.messages:
        yield send_message_tool()
        yield recover_messages_tool()


def delegate_tool(agent_id: str, instructions: str) -> ToolDescriptor:
    description = _excerpt(instructions) or f"Delegate to agent {agent_id}."
    runtime = RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id=agent_id)
    return _tool(f"{TOOL_DELEGATE}{agent_id}", description, runtime, _object({"prompt": _TEXT}))


def handoff_tool(agent_id: str, instructions: str) -> ToolDescriptor:
    excerpt = _excerpt(instructions)
    description = f"Hand the conversation over to {agent_id}" + (f": {excerpt}" if excerpt else ".")
    runtime = RuntimeTool(kind=RuntimeKind.HANDOFF, agent_id=agent_id)
    return _tool(f"{TOOL_HANDOFF}{agent_id}", description, runtime, _object({"reason": _TEXT}, optional=("reason",)))


def spawn_tool(agent_ids: Sequence[str]) -> ToolDescriptor:
    description = (
        "Start an agent in the background. You are given the id of its task at once and go on meanwhile; "
        "when it has ended, you are told its result."
    )
    name: JsonValue = {"type": "string", "description": "How to call the task while it runs, instead of by its id."}
    properties: dict[str, JsonValue] = {
        "agent": {"type": "string", "enum": list(agent_ids)},
        "prompt": {"type": "string", "description": "All that the agent is told; it does not see this conversation."},
        "name": name,
    }
    runtime = RuntimeTool(kind=RuntimeKind.SPAWN, agent_ids=tuple(agent_ids))
    return _tool(TOOL_SPAWN, description, runtime, _object(properties, optional=("name",)))


def cancel_task_tool() -> ToolDescriptor:
    """B-550."""
    description = "Cancel a background task with everything below it: one you have started, or the one you are part of."
    child: dict[str, JsonValue] = {
        "relation": {"const": "child"},
        "name": {"type": "string", "description": "Task name or ID"},
    }
    target: JsonValue = {"oneOf": [_object({"relation": {"const": "self"}}), _object(child)]}
    return _tool(TOOL_CANCEL_TASK, description, RuntimeTool(kind=RuntimeKind.CANCEL_TASK), _object({"target": target}))


def list_tasks_tool() -> ToolDescriptor:
    description = "List the background tasks of this conversation, and where each of them stands."
    return _tool(TOOL_LIST_TASKS, description, RuntimeTool(kind=RuntimeKind.LIST_TASKS), _object({}))


def task_result_tool() -> ToolDescriptor:
    description = "Read how a background task is doing, and its result once it has ended."
    task: JsonValue = {"type": "string", "description": "Task name or ID"}
    return _tool(TOOL_TASK_RESULT, description, RuntimeTool(kind=RuntimeKind.TASK_RESULT), _object({"task": task}))


def send_message_tool() -> ToolDescriptor:
    """B-560."""
    child: dict[str, JsonValue] = {
        "relation": {"const": "child"},
        "name": {"type": "string", "description": "Task name or ID"},
    }
    agent: dict[str, JsonValue] = {"relation": {"const": "agent"}, "thread_id": _TEXT, "agent_id": _TEXT}
    to: list[JsonValue] = [
        _object({"relation": {"const": "parent"}}),
        _object(child),
        _object(agent, optional=("agent_id",)),
    ]
    description = "Send a message to a child task, parent agent, or team member."
    parameters = _object({"to": {"oneOf": to}, "message": _TEXT})
    return _tool(TOOL_SEND_MESSAGE, description, RuntimeTool(kind=RuntimeKind.SEND_MESSAGE), parameters)


def recover_messages_tool() -> ToolDescriptor:
    """B-570."""
    description = "List the messages of yours that could not be delivered, send them again (replay), or forget them."
    action: JsonValue = {"type": "string", "enum": ["list", "replay", "clear"], "default": "list"}
    parameters = _object({"action": action}, optional=("action",))
    return _tool(TOOL_RECOVER_MESSAGES, description, RuntimeTool(kind=RuntimeKind.RECOVER_MESSAGES), parameters)


def family_problems(agent: Agent, known: Collection[str]) -> list[str]:
    """What is wrong with the other agents that an agent names."""
    named = {"delegates": agent.delegates, "spawns": agent.spawns, "handoffs": agent.handoffs}
    problems = []
    for field, ids in named.items():
        problems += [
            f"agent {agent.id!r} names unknown agent {id!r} in {field}; registered: {', '.join(sorted(known))}"
            for id in ids
            if id not in known
        ]
        if repeated := sorted({id for id in ids if ids.count(id) > 1}):
            problems.append(f"agent {agent.id!r} lists agents twice in {field}: {', '.join(repeated)}")
    if agent.id in agent.handoffs:
        problems.append(f"agent {agent.id!r} hands off to itself; take it out of its handoffs")
    return [*problems, *_name_problems(agent)]


def _name_problems(agent: Agent) -> list[str]:
    tools = [
        *(("delegates to", id, f"{TOOL_DELEGATE}{id}") for id in agent.delegates),
        *(("hands off to", id, f"{TOOL_HANDOFF}{id}") for id in agent.handoffs),
    ]
    return [
        f"agent {agent.id!r} {does} {id!r}, whose tool would be called {name!r}; models take names of at most 64 "
        f"letters, digits, '_' and '-': rename agent {id!r}"
        for does, id, name in tools
        if not _TOOL_NAME.fullmatch(name)
    ]


def _excerpt(instructions: str) -> str:
    return instructions.strip()[:EXCERPT]


def _object(properties: dict[str, JsonValue], *, optional: Collection[str] = ()) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    if required := [name for name in properties if name not in optional]:
        schema["required"] = list[JsonValue](required)
    return {**schema, "additionalProperties": False}


def _tool(id: str, description: str, runtime: RuntimeTool, parameters: dict[str, JsonValue]) -> ToolDescriptor:
    return ToolDescriptor(
        id=id,
        name=id,
        description=description,
        parameters=parameters,
        effects=Effects.READ_ONLY,
        runtime=runtime,
    )
