"""An agent with a tool that takes its time, for a worker that is killed under it."""

import asyncio

from wakeful import Agent, Registry, ScriptedModel, call, say, tool


@tool(read_only=True, heartbeat_timeout=60)
async def dawdle() -> str:
    """Take a while."""
    await asyncio.sleep(120)
    return "done"


registry = Registry(
    agents=[Agent(id="slow", tools=[dawdle])], models={"default": ScriptedModel([call("dawdle"), say("{result}")])}
)
