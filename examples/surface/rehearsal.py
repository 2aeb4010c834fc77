"""Try the shop offline: `python -m examples.surface.rehearsal`. It needs no key and no server of yours."""

import asyncio

from examples.surface.agents import make_registry
from examples.surface.desk import ask, open_thread
from examples.surface.shop import Ticket
from wakeful import Client, Registry, WorkerSettings
from wakeful.testing import (
    ScriptedModel,
    Turn,
    call,
    embedded_server,
    fresh_namespace,
    running_worker,
    runtime,
    say,
)

LOOK: Turn = call("stock", item="grinder") & say("I will look.")
FOUND: Turn = say('{"summary": "There are {result} grinders left."}')


def rehearsed(*turns: Turn) -> Registry:
    """The shop, with a clerk who follows a script."""
    registry = make_registry()
    return registry.copy(models={**registry.models, "default": ScriptedModel(turns or (LOOK, FOUND))})


async def rehearse() -> Ticket | None:
    """Ask the clerk on a server of its own."""
    async with runtime(rehearsed()) as client:
        thread_id = await open_thread(client, "Do you have grinders?")
        await client.result(thread_id)
        return await ask(client, thread_id, "How many?")


async def rehearse_beside(port: int) -> str:
    """The same on a server that others can use meanwhile, at this port."""
    async with embedded_server(port=port) as server, running_worker(server.client, rehearsed(), WorkerSettings()):
        result = await Client(server.client).run("clerk", "Do you have grinders?")
        return result.response


async def rehearse_at(address: str) -> str:
    """The same on a server that runs already, in a namespace that nothing else uses."""
    async with runtime(rehearsed(), temporal=await fresh_namespace(address)) as client:
        return (await client.run("clerk", "Do you have grinders?")).response


if __name__ == "__main__":
    print(asyncio.run(rehearse()))
