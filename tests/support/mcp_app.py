"""Agents that use the tests' MCP server. The model makes the calls that the user writes, and repeats their results."""

import json
import os
import sys
from typing import Any

from wakeful import Agent, McpServer, Registry
from wakeful.authoring.scripted import ScriptedModel, Turn, say
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import Role

DESK_JOURNAL = "DESK_JOURNAL"
COMMAND = (sys.executable, "-m", "tests.support.mcp_desk")


class Obeying(ScriptedModel):
    """Makes the calls in the user's message, `[[tool, arguments], …]` in turns, and answers with the last results."""

    def answer(self, request: ModelRequest) -> ModelResponse:
        asked = next(message for message in reversed(request.messages) if message.role is Role.USER)
        turns = json.loads(asked.text)
        calls = [Turn(calls=tuple((tool, arguments) for tool, arguments in turn)).unchecked() for turn in turns]
        return ScriptedModel([*calls, say("{result}")]).answer(request)


def calling(*turns: list[tuple[str, dict[str, Any]]]) -> str:
    """A message that makes `Obeying` call these tools of the server `desk`, turn by turn."""
    return json.dumps([[(f"mcp__desk__{tool}", arguments) for tool, arguments in turn] for turn in turns])


def desk(**settings: Any) -> McpServer:
    """The tests' server, as a subprocess of the worker."""
    env = {name: os.environ[name] for name in (DESK_JOURNAL, "DESK_KEEPS_STATE") if name in os.environ}
    given = {"command": COMMAND, "env": env, **settings}
    return McpServer(name="desk", **given)


def registry_with(*servers: McpServer, **agent: Any) -> Registry:
    return Registry(agents=[Agent(id="clerk", mcp=list(servers), **agent)], models={"default": Obeying()})


registry = registry_with(
    desk(heartbeat_timeout=float(os.environ.get("DESK_HEARTBEAT", "30")), restart_delay=0.1), tool_mode="parallel"
)
"""For workers in processes of their own."""
