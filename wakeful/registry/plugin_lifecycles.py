"""The setup and shutdown of plugins in one worker process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from wakeful.authoring.plugin import AnyPlugin


class PluginLifecycles:
    """Sets every plugin instance up once, also one that the registry gets after the worker has started."""

    def __init__(self) -> None:
        self._shutdowns = contextlib.AsyncExitStack()
        self._lifecycles: dict[int, _Lifecycle] = {}

    @contextlib.asynccontextmanager
    async def running(self, plugins: Iterable[AnyPlugin]) -> AsyncIterator[None]:
        """Set the plugins up in order, and shut down all that were set up in reverse order, even if the body raises."""
        try:
            for plugin in plugins:
                await self.set_up(plugin)
            yield
        finally:
            await self.shut_down()

    async def set_up(self, plugin: AnyPlugin) -> None:
        """Set the plugin up unless it is already; if its setup fails, the next call tries again."""
        lifecycle = self._lifecycles.setdefault(id(plugin), _Lifecycle(plugin))
        async with lifecycle.lock:
            if not lifecycle.is_set_up:
                await plugin.setup()
                self._shutdowns.push_async_callback(plugin.shutdown)
                lifecycle.is_set_up = True

    async def shut_down(self) -> None:
        """Shut down every plugin that was set up, in reverse order."""
        await self._shutdowns.aclose()


@dataclass
class _Lifecycle:
    plugin: AnyPlugin
    """A reference, so that no later plugin gets the same `id()`."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_set_up: bool = False
