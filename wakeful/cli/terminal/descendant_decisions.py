"""Prints the decisions that sub-agents of a watched run wait for."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from wakeful.cli.terminal.pending_lines import descendant_lines
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import AgentEvent, TaskChanged, ToolCallReady

POLL_SECONDS = 2.0


class DescendantDecisions:
    """Polls the inbox of the tree: sub-agents are threads of their own, so the run has no event for their decisions."""

    def __init__(self, client: Client, thread_id: str, print_line: Callable[[str], None]) -> None:
        self._client = client
        self._thread_id = thread_id
        self._print_line = print_line
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def on_event(self, event: AgentEvent) -> None:
        """Start to poll when the run starts its first sub-agent or task."""
        delegates = isinstance(event, ToolCallReady) and event.name.startswith(names.TOOL_DELEGATE)
        if self._task is None and (delegates or isinstance(event, TaskChanged)):
            self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        printed: set[tuple[str, int | None]] = set()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(WakefulError):  # the watcher of the run reports it
                async for pending in self._client.inbox(thread_id=self._thread_id):
                    key = pending.ticket, pending.since  # a call may suspend again
                    if pending.thread_id != self._thread_id and pending.unknown is None and key not in printed:
                        printed.add(key)
                        for line in descendant_lines(pending):
                            self._print_line(line)
