"""The tools that the runtime gives to agents: their descriptors, which are prompts, and checks of the agents they name.

The loop performs them; none of them runs as an activity.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.authoring.agent import Agent
from wakeful.contract.mail import Recipients
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
from wakeful.contract.suggestions import registered
from wakeful.contract.tools import Effects, RuntimeKind, RuntimeTool, ToolDescriptor
from wakeful.registry.addressing import agent_tool_name, local_id

DESCRIPTION_LENGTH = 1_000
EXCERPT_LENGTH = 100
"""Characters that other agents read of an agent's description, or else of its instructions."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The tool names that every provider accepts."""


@dataclass(frozen=True)
class NamedAgent:
    """Another agent, as an agent that names it finds it."""

    id: str
    about: str = ""
    """What `about` says of it; empty if it is not discovered yet."""


def runtime_tools(
    agent: Agent, named: Mapping[str, NamedAgent], *, has_background: bool, in_task: bool
) -> tuple[ToolDescriptor, ...]:
    """The runtime's tools for an agent, in no particular order.

    Args:
        named: the agents that it names, by the address that it uses.
        has_background: one of the agent's own tools runs in the background.
        in_task: the run is, or belongs to, a background task.
    """
    return tuple(_tools(agent, named, has_tasks=bool(agent.spawns) or has_background, in_task=in_task))


def _tools(
    agent: Agent, named: Mapping[str, NamedAgent], *, has_tasks: bool, in_task: bool
) -> Iterator[ToolDescriptor]:
    for address in agent.delegates:
        yield delegate_tool(named[address].id, named[address].about, address=address)
    for address in agent.handoffs:
        yield handoff_tool(named[address].id, named[address].about, address=address)
    if agent.spawns:
        abouts = {named[address].id: named[address].about for address in agent.spawns}
        yield spawn_tool(tuple(abouts), abouts)
    if has_tasks or in_task:
        yield cancel_task_tool()
    if has_tasks:
        yield list_tasks_tool()
        yield task_result_tool()
    if agent.messages:
        yield send_message_tool(*(("tree",) if agent.messages is True else agent.messages))
        yield recover_messages_tool()


def delegate_tool(agent_id: str, about: str, *, address: str | None = None) -> ToolDescriptor:
    """B-500. The name of the tool is made of the address that the agent uses, which no discovery changes."""
    description = (
        f"Delegate a task to the agent {agent_id!r} and wait for its answer.{_about('Its', about)} The agent "
        "sees nothing of this conversation. Returns its answer in `response`, or an error that says why it failed."
    )
    prompt = _text(
        "The task, with everything the agent needs to know to do it. Say what you want back, and in which form."
    )
    runtime = RuntimeTool(kind=RuntimeKind.DELEGATE, agent_id=agent_id)
    return _tool(agent_tool_name(TOOL_DELEGATE, address or agent_id), description, runtime, _object({"prompt": prompt}))


def handoff_tool(agent_id: str, about: str, *, address: str | None = None) -> ToolDescriptor:
    description = (
        f"Hand this conversation off to the agent {agent_id!r}.{_about('Its', about)} Use it when the request "
        "is that agent's job rather than yours. The agent sees the whole conversation and takes over from the next "
        "step: from then on it answers the user, not you."
    )
    reason = _text("Why the agent should take over, in one sentence. The agent can read it.")
    runtime = RuntimeTool(kind=RuntimeKind.HANDOFF, agent_id=agent_id)
    name = agent_tool_name(TOOL_HANDOFF, address or agent_id)
    return _tool(name, description, runtime, _object({"reason": reason}, optional=("reason",)))


def spawn_tool(agent_ids: Sequence[str], abouts: Mapping[str, str] | None = None) -> ToolDescriptor:
    description = (
        "Start an agent as a background task and continue without waiting. Use it for work that takes a while, or to "
        "do several things in parallel: call it several times in one step. Returns the task's id at once. When the "
        "task ends, you receive a <background-task-event> with its result or error, so do not poll."
    )
    agents = "".join(_about(f"{id}'s", (abouts or {}).get(id, "")) for id in agent_ids)
    properties: dict[str, JsonValue] = {
        "agent": {**_text(f"The agent to start.{agents}"), "enum": list[JsonValue](agent_ids)},
        "prompt": _text(
            "The task, with everything the agent needs to know to do it: it sees nothing of this conversation. Say "
            "what you want back."
        ),
        "name": _text(
            "A short name of your choice, such as 'prices'. While the task runs, you can use it instead of the task's "
            "id. It must differ from the names of other running tasks."
        ),
    }
    runtime = RuntimeTool(kind=RuntimeKind.SPAWN, agent_ids=tuple(agent_ids))
    return _tool(TOOL_SPAWN, description, runtime, _object(properties, optional=("name",)))


def cancel_task_tool() -> ToolDescriptor:
    """B-550."""
    description = (
        "Cancel a background task, with everything it has started. Use it when you no longer need the result. Returns "
        "when the task has stopped: `status` is `accepted`, or `failed` if no such task is running. Side effects that "
        "it already had are not undone."
    )
    child = _object(
        {"relation": {"const": "child"}, "name": _text("The task's name or id.")}, description="A task you started."
    )
    own = _object(
        {"relation": {"const": "self"}},
        description="The background task you are part of, or else your own run. It ends, and so do you.",
    )
    target: JsonValue = {"oneOf": [own, child]}
    return _tool(TOOL_CANCEL_TASK, description, RuntimeTool(kind=RuntimeKind.CANCEL_TASK), _object({"target": target}))


def list_tasks_tool() -> ToolDescriptor:
    description = (
        "List the background tasks of this conversation: id, name, agent, description, and status (`running`, "
        "`completed`, `failed` or `cancelled`). Use it when you have lost track of them. It returns at once. You do "
        "not need it to wait for a task: you receive a <background-task-event> when one ends."
    )
    return _tool(TOOL_LIST_TASKS, description, RuntimeTool(kind=RuntimeKind.LIST_TASKS), _object({}))


def task_result_tool() -> ToolDescriptor:
    description = (
        "Look up one background task: its status, and its result or error if it has ended. It returns at once and "
        "does not wait. Long results are shortened here; the <background-task-event> at the task's end has the whole "
        "result."
    )
    task = _text("The task's name or id.")
    return _tool(TOOL_TASK_RESULT, description, RuntimeTool(kind=RuntimeKind.TASK_RESULT), _object({"task": task}))


def send_message_tool(*recipients: Recipients) -> ToolDescriptor:
    """B-560."""
    description = (
        "Send a message to another agent, for example to report progress, to ask a question, or to pass on what it "
        "needs. Returns `status`: `accepted` if it was delivered, or `failed` with the reason. It does not wait for a "
        "reply; a reply arrives later as a message of its own. Undelivered messages to a parent or to another agent "
        f"are kept: send them again with {TOOL_RECOVER_MESSAGES}."
    )
    message = _text("The text. The recipient sees nothing of this conversation: include what it needs to know.")
    parameters = _object({"to": {"oneOf": list(_addresses(recipients))}, "message": message})
    runtime = RuntimeTool(kind=RuntimeKind.SEND_MESSAGE, recipients=tuple(dict.fromkeys(recipients)))
    return _tool(TOOL_SEND_MESSAGE, description, runtime, parameters)


def _addresses(recipients: Collection[Recipients]) -> Iterator[JsonValue]:
    """The forms of `to` that reach one of these recipients."""
    if {"parent", "tree", "any"} & {*recipients}:
        yield _object({"relation": {"const": "parent"}}, description="The agent that started you.")
    if {"children", "tree", "any"} & {*recipients}:
        yield _object(
            {"relation": {"const": "child"}, "name": _text("The task's name or id.")},
            description="An agent that you started in the background and that is still running.",
        )
    whom = next((_OTHERS[each] for each in _OTHERS if each in recipients), None)
    if whom is None:
        return
    thread_id = _text("The recipient's thread id, such as the `thread_id` of a message that you received.")
    properties: dict[str, JsonValue] = {"relation": {"const": "agent"}, "thread_id": thread_id}
    if "any" in recipients:
        properties["agent_id"] = _text("The agent to start on that thread if the thread does not exist yet.")
    yield _object(properties, optional=("agent_id",), description=whom)


_OTHERS: Mapping[Recipients, str] = {
    "any": "Any other agent.",
    "tree": "Another agent that works on the same job: the agent at its root, or one that it or its agents started.",
    "siblings": "Another agent that your parent started.",
}


def recover_messages_tool() -> ToolDescriptor:
    """B-570."""
    description = (
        "Manage the messages that you sent and that could not be delivered. `list` returns them with their recipients "
        "and the reasons, `replay` sends all of them again, `clear` discards all of them. List them before you replay "
        "or clear them."
    )
    action: JsonValue = {
        **_text("What to do; `list` by default."),
        "enum": ["list", "replay", "clear"],
        "default": "list",
    }
    parameters = _object({"action": action}, optional=("action",))
    return _tool(TOOL_RECOVER_MESSAGES, description, RuntimeTool(kind=RuntimeKind.RECOVER_MESSAGES), parameters)


def subagent_problems(agent: Agent, known: Collection[str], is_known: Callable[[str], bool]) -> list[str]:
    """What is wrong with the other agents that an agent names.

    Args:
        known: the ids of all agents, for messages.
        is_known: whether an address names one of them, or may name one that is not discovered yet.
    """
    fields = {"delegates": agent.delegates, "spawns": agent.spawns, "handoffs": agent.handoffs}
    problems = []
    for field, addresses in fields.items():
        problems += [
            f"agent {agent.id!r} names unknown agent {address!r} in {field}; {registered(address, known)}"
            for address in addresses
            if not is_known(address)
        ]
        ids = [local_id(address) for address in addresses]
        if repeated := sorted({id for id in ids if ids.count(id) > 1}):
            problems.append(f"agent {agent.id!r} lists agents twice in {field}: {', '.join(repeated)}")
    if agent.id in map(local_id, agent.handoffs):
        problems.append(f"agent {agent.id!r} hands off to itself; remove it from its handoffs")
    return [*problems, *_name_problems(agent)]


def _name_problems(agent: Agent) -> list[str]:
    tools = [
        *(("delegates to", local_id(each), agent_tool_name(TOOL_DELEGATE, each)) for each in agent.delegates),
        *(("hands off to", local_id(each), agent_tool_name(TOOL_HANDOFF, each)) for each in agent.handoffs),
    ]
    problems = [
        f"agent {agent.id!r} {does} {id!r}, whose tool would be called {name!r}; providers accept names of at most 64 "
        f"letters, digits, '_' and '-': rename agent {id!r}"
        for does, id, name in tools
        if not _TOOL_NAME.fullmatch(name)
    ]
    first: dict[str, str] = {}
    for does, id, name in tools:
        if first.setdefault(name, id) != id:
            problems.append(f"agent {agent.id!r} {does} {first[name]!r} and {id!r}, whose tools would both be {name!r}")
    return problems


def about(agent: Agent) -> str:
    """What another agent reads of this one: its description, or else the beginning of its instructions."""
    if description := agent.description.strip():
        return f'description: "{_cut(description, DESCRIPTION_LENGTH)}"'
    text = agent.written_instructions.strip()
    return f'instructions begin: "{_cut(text, EXCERPT_LENGTH)}"' if text else ""


def _cut(text: str, length: int) -> str:
    return f"{text[:length]}…" if len(text) > length else text


def _about(whose: str, about: str) -> str:
    return f" {whose} {about}" if about else ""


def _text(description: str) -> dict[str, JsonValue]:
    return {"type": "string", "description": description}


def _object(
    properties: dict[str, JsonValue], *, optional: Collection[str] = (), description: str = ""
) -> dict[str, JsonValue]:
    schema: dict[str, JsonValue] = {"type": "object", "properties": properties}
    if description:
        schema["description"] = description
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
