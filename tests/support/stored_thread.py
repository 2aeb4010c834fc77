"""A thread with a large result, which a second worker completes; the tests run it with a payload store."""

import asyncio
import os

from tests.support.app import TOOLS
from tests.support.waiting import until_status
from wakeful import Agent, Registry, RunStatus, ScriptedModel, call, say
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.worker import running_worker

script = ScriptedModel([call("flood", size=200_000), call("approve", what="go on"), say("done")])
registry = Registry(agents=[Agent(id="solo", tools=TOOLS)], models={"default": script})


async def main() -> None:
    async with embedded_server(ui=False) as server:
        client = Client(server.client)
        async with running_worker(server.client, registry):
            await client.start("solo", "go", thread_id="t")
            view = await until_status(client, "t", RunStatus.WAITING)
        await client.decide("t", view.pending[0].pending.id, "resume")
        async with running_worker(server.client, registry):
            result = await client.result("t")
            flooded = next(message for message in await client.transcript("t") if message.tool_call_id)
            print(result.status_reason, len(flooded.text), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)
