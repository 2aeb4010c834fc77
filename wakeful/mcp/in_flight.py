"""The requests under way, so that the cancellation of one finds its run.

Only the client's own notification cancels a run. A connection that is lost cancels the request's task as well, but no
notification comes, and the run continues.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from mcp.server import ServerRequestContext
from mcp_types import CancelledNotificationParams

from wakeful.client.client import Client
from wakeful.contract.errors import NotStarted, WakefulError
from wakeful.mcp.beginning import Target, detached

logger = logging.getLogger(__name__)

GRACE_SECONDS = 10.0
"""How long a request whose task was cancelled is remembered: the notification that cancels it is handled after it."""

Key = tuple[str, str]


class InFlight:
    """The requests of all sessions, by session and id."""

    def __init__(self) -> None:
        self._begun: dict[Key, asyncio.Future[Target]] = {}

    @contextlib.contextmanager
    def tracking(self, ctx: ServerRequestContext[None, Any], begun: asyncio.Future[Target]) -> Iterator[None]:
        """Remember a request while it is under way, with what it begins: no cancellation ends that."""
        key = (session_of(ctx), str(ctx.request_id))
        self._begun[key] = begun
        try:
            yield
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._forget, key, begun)
            raise
        except BaseException:
            self._forget(key, begun)
            raise
        self._forget(key, begun)

    async def cancel(
        self, client: Client, ctx: ServerRequestContext[None, Any], cancelled: CancelledNotificationParams
    ) -> None:
        """Cancel the run of a request, or withdraw its message if no run has read it."""
        begun = self._begun.pop((session_of(ctx), str(cancelled.request_id)), None)
        if begun is None:
            return
        # Detached: many clients close the connection right after.
        await detached(self._cancel(client, begun, cancelled.reason))

    async def _cancel(self, client: Client, begun: asyncio.Future[Target], given: str | None) -> None:
        reason = "the MCP client cancelled its request" + (f": {given}" if given else "")
        try:
            await cancel_target(client, await begun, reason)
        except WakefulError as error:  # it has ended meanwhile, or never began
            logger.info("the run of a cancelled request was not cancelled", extra={"error": str(error)})

    def _forget(self, key: Key, begun: asyncio.Future[Target]) -> None:
        if self._begun.get(key) is begun:  # a client may use an id again
            del self._begun[key]


async def cancel_target(client: Client, target: Target, reason: str) -> None:
    """Cancel what a request has begun: a message that still waits is withdrawn, and the run of others continues."""
    queued = set[str]()
    with contextlib.suppress(NotStarted):  # no worker has taken the thread: the message is its first
        queued = {each.message.id for each in await client.queued(target.thread_id)}
    if target.message_id is not None and target.message_id in queued:
        await client.withdraw(target.thread_id, [target.message_id])
    else:
        await client.cancel(target.thread_id, reason=reason)


def session_of(ctx: ServerRequestContext[None, Any]) -> str:
    """The session that a message belongs to; over stdio there is only one."""
    return "" if ctx.request is None else str(ctx.request.headers.get("mcp-session-id", ""))
