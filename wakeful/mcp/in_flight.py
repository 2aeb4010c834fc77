"""The requests under way, so that the cancellation of one finds its run.

Only the client's own notification cancels a run. A connection that is lost cancels the request's task as well, but no
notification comes, and the run continues.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp_types import CancelledNotificationParams

from wakeful.client.client import Client
from wakeful.contract.errors import WakefulError
from wakeful.mcp.beginning import Target, detached

logger = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How long a request whose task was cancelled is remembered: the notification that cancels it is handled after it."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """A request, and what it has begun, or is about to: a task that no cancellation ends."""

    begun: "asyncio.Future[Target]"


class InFlight:
    """The requests of all sessions, by session and id."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}

    @contextlib.contextmanager
    def tracking(self, ctx: ServerRequestContext[None, Any], begun: "asyncio.Future[Target]") -> Iterator[None]:
        """Remember a request while it is under way."""
        key, entry = (session_of(ctx), str(ctx.request_id)), Entry(begun)
        self._entries[key] = entry
        try:
            yield
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._forget, key, entry)
            raise
        except BaseException:
            self._forget(key, entry)
            raise
        self._forget(key, entry)

    async def cancel(
        self, client: Client, ctx: ServerRequestContext[None, Any], cancelled: CancelledNotificationParams
    ) -> None:
        """Cancel the run of a request, or withdraw its message if no run has read it."""
        entry = self._entries.pop((session_of(ctx), str(cancelled.request_id)), None)
        if entry is None:
            return
        # Detached: many clients close the connection right after.
        await detached(self._cancel(client, entry, cancelled.reason))

    async def _cancel(self, client: Client, entry: Entry, given: str | None) -> None:
        reason = "the MCP client cancelled its request" + (f": {given}" if given else "")
        try:
            await cancel_target(client, await entry.begun, reason)
        except WakefulError as error:  # it has ended meanwhile, or never began
            logger.info("the run of a cancelled request was not cancelled", extra={"error": str(error)})

    def _forget(self, key: Key, entry: Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]


async def cancel_target(client: Client, target: Target, reason: str) -> None:
    """Cancel what a request has begun: a message that still waits is withdrawn, and the run of others continues."""
    queued = {each.message.id for each in await client.queued(target.thread_id)} if target.message_id else set()
    if target.message_id in queued:
        await client.withdraw(target.thread_id, [target.message_id])
    else:
        await client.cancel(target.thread_id, reason=reason)


def session_of(ctx: ServerRequestContext[None, Any]) -> str:
    """The session that a message belongs to; over stdio there is only one."""
    return "" if ctx.request is None else str(ctx.request.headers.get("mcp-session-id", ""))
