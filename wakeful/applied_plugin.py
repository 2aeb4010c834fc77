"""A plugin of a client that was copied: it has configured the client already, and still has to configure workers.

Temporal's worker takes the plugins of its client. Without this, a copy with another data converter would lose them, or
apply them to the client a second time.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import temporalio.client
import temporalio.worker
from temporalio.client import ClientConfig, WorkflowHistory
from temporalio.service import ConnectConfig, ServiceClient
from temporalio.worker import Replayer, ReplayerConfig, Worker, WorkerConfig, WorkflowReplayResult


class AppliedPlugin(temporalio.client.Plugin, temporalio.worker.Plugin):
    """The worker's part of another plugin."""

    def __init__(self, plugin: temporalio.worker.Plugin) -> None:
        self._plugin = plugin

    def name(self) -> str:
        return self._plugin.name()

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        return self._plugin.configure_worker(config)

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        await self._plugin.run_worker(worker, next)

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        return self._plugin.configure_replayer(config)

    def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]:
        return self._plugin.run_replayer(replayer, histories, next)


def worker_plugins(plugins: list[temporalio.client.Plugin]) -> list[temporalio.client.Plugin]:
    """Those that configure workers, too, for the copy of their client."""
    return [AppliedPlugin(plugin) for plugin in plugins if isinstance(plugin, temporalio.worker.Plugin)]
