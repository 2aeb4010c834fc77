"""Run an agent on a worker that has another framework's plugin, before ours and behind it: `other_plugins.py NAME`."""

import asyncio
import sys
from typing import Any

from temporalio.worker import Worker

from wakeful import Agent, Client, Registry, ScriptedModel, WakefulPlugin, WorkerSettings, say
from wakeful.testing import embedded_server


def plugin(name: str) -> Any:
    match name:
        case "openai-agents":
            from temporalio.openai_agents import OpenAIAgentsPlugin  # each has a package of its own

            return OpenAIAgentsPlugin()
        case "langgraph":
            from temporalio.langgraph import LangGraphPlugin

            return LangGraphPlugin()
        case _:
            from pydantic_ai.durable_exec.temporal import PydanticAIPlugin

            return PydanticAIPlugin()


async def main(name: str) -> None:
    registry = Registry(agents=[Agent(id="a", model="m")], models={"m": ScriptedModel([say("hi"), say("hi")])})
    async with embedded_server(ui=False) as server:
        for is_first in (True, False):
            ours, theirs = WakefulPlugin(registry, WorkerSettings(sweep_interval=None)), plugin(name)
            queue = f"queue-{is_first}"
            plugins = [ours, theirs] if is_first else [theirs, ours]
            async with (
                Worker(server.client, task_queue=queue, plugins=plugins),
                Client(server.client, task_queue=queue) as client,
            ):
                print((await client.run("a", "hello")).response, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
