"""Agents that other services run: what a registry gives them, and which fields they cannot have."""

from collections.abc import Iterator
from importlib.util import find_spec

from wakeful.authoring.agent import Agent
from wakeful.contract.names import TOOL_REMOTE_INPUT
from wakeful.contract.tools import ToolDescriptor
from wakeful.registry.agent_files import location_of
from wakeful.registry.located_files import Problem

REMOTE_FIELDS = frozenset(
    {
        "id",
        "description",
        "endpoint",
        "retry",
        "max_rounds",
        "budget",
        "priority",
        "expire_after",
        "inference_timeout",
        "inference_heartbeat_timeout",
    }
)
"""The fields that have a meaning for an agent that another service runs."""

_REMOTE_INPUT = ToolDescriptor(
    id=TOOL_REMOTE_INPUT,
    name=TOOL_REMOTE_INPUT,
    description="The remote agent waits for an answer, or for someone to sign in. A decision brings it.",
    parameters={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What the remote agent asks."},
            "kind": {"type": "string", "enum": ["input", "auth"]},
            "task_id": {"type": "string", "description": "The task at its service."},
            "context_id": {"type": "string", "description": "The conversation at its service."},
        },
        "required": ["question", "kind", "task_id", "context_id"],
        "additionalProperties": False,
    },
    frontend=True,
)


def remote_tools() -> tuple[ToolDescriptor, ...]:
    """The tools of a remote agent: the questions that it asks."""
    return (_REMOTE_INPUT,)


def remote_problems(agent: Agent) -> Iterator[Problem]:
    """What an agent with an endpoint cannot have, because the service that runs it decides that."""
    if agent.endpoint is None:
        return
    for name, field in Agent.model_fields.items():
        if name not in REMOTE_FIELDS and getattr(agent, name) != field.get_default(call_default_factory=True):
            message = f"agent {agent.id!r} has an endpoint, so another service decides its {name}: remove it"
            yield Problem(message, location_of(agent, name))
    if find_spec("a2a") is None:
        message = f"agent {agent.id!r} has an endpoint, which needs the package a2a-sdk: pip install 'wakeful[a2a]'"
        yield Problem(message, location_of(agent, "endpoint"))
