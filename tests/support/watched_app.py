"""Agents that are worth watching: they call the fake provider, and their tools report progress."""

import asyncio

from tests.support import provider_app
from wakeful import Agent, Plugin, Registry, ToolContext, tool
from wakeful.authoring.hook_contexts import AfterInference


class Rewriting(Plugin):
    """Rewrites the model's answer."""

    id = "rewriting"

    def after_inference(self, ctx: AfterInference) -> None:
        ctx.rewrite("Rewritten.")


class Digging:
    """Lets the tools of a test continue, one report after another."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen = asyncio.Event()

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seen.clear()

    def seen(self) -> None:
        """The watcher has got the newest report."""
        self._seen.set()

    async def wait(self) -> None:
        await self._seen.wait()
        self._seen.clear()

    def wait_in_a_thread(self) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.wait(), self._loop).result(timeout=60)


DIGGING = Digging()


@tool(read_only=True)
async def dig(depth: int, ctx: ToolContext) -> str:
    """Dig, and report progress."""
    for metre in range(1, depth + 1):
        ctx.report(f"metre {metre}", progress=metre / depth, loaded=metre, total=depth)
        await DIGGING.wait()
    return f"dug {depth} metres"


@tool(read_only=True)
def dig_in_a_thread(depth: int, ctx: ToolContext) -> str:
    """Dig, without knowing asyncio."""
    ctx.report("digging", progress=0.5)
    DIGGING.wait_in_a_thread()
    return f"dug {depth} metres"


def registry_for(port: int) -> Registry:
    usual = provider_app.registry_for(port)
    return Registry(
        agents=[
            usual.agents["chat"],
            Agent(id="rewritten", model="chat", plugins=[Rewriting()]),
            Agent(id="digger", model="chat", tools=[dig, dig_in_a_thread]),
        ],
        models={"chat": usual.models["chat"]},
        providers={"fake-chat": usual.providers["fake-chat"]},
    )
