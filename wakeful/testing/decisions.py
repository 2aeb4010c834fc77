"""Wait in a test until a run asks for a decision."""

import asyncio
import contextlib
import time

from wakeful.client.approvals import PendingDecision, not_sent, pending_of
from wakeful.client.client import Client
from wakeful.contract.errors import NoAnswer, ThreadNotFound, WakefulError
from wakeful.contract.runs import RunResult
from wakeful.contract.views import StatusView

POLL_SECONDS = 0.01


class NoDecision(WakefulError, AssertionError):
    """A thread asks for no decision; the message says what it does instead."""


async def wait_for_decision(
    client: Client, thread_id: str, *, tool: str | None = None, within: float = 10.0
) -> PendingDecision:
    """The oldest decision that a thread or one of its descendants waits for, as soon as there is one.

    Args:
        tool: only decisions about calls of this tool.
        within: seconds to wait for it.

    Raises:
        NoDecision: the run has ended without one, or did not ask in time.
        ThreadNotFound: there is no such thread.
    """
    until = time.monotonic() + within
    while True:
        tree = await _read_tree(client, thread_id)
        pending = [each for view in tree for each in not_sent(pending_of(view)) if tool in (None, each.tool_name)]
        if pending:
            return min(pending, key=lambda each: each.since or 0)
        if tree and tree[0].result is not None:
            raise NoDecision(_ended(thread_id, tree[0].result, tool))
        if time.monotonic() > until:
            raise NoDecision(await _still(client, thread_id, tool, within))
        await asyncio.sleep(POLL_SECONDS)


async def _read_tree(client: Client, thread_id: str) -> list[StatusView]:
    """The status of a thread, then those of its descendants; not of those that have yet to handle something."""
    # Not the inbox, which the server updates a moment later: it would list what was decided just now.
    try:
        view = await client.status(thread_id)
    except NoAnswer:  # no worker has started it yet
        return []
    tree = [] if view.unhandled_since is not None else [view]
    for child in view.children:
        if view.child_cancelled_by(child) is not None:
            continue
        with contextlib.suppress(ThreadNotFound):  # it is not started yet
            tree += await _read_tree(client, child)
    return tree


def _ended(thread_id: str, result: RunResult, tool: str | None) -> str:
    answer = f"; its answer: {result.response!r}" if result.response else ""
    return f"{_asks_nothing(thread_id, tool)}: its run has ended ({result.status_reason}){answer}"


async def _still(client: Client, thread_id: str, tool: str | None, within: float) -> str:
    found = await client.why(thread_id)
    return f"{_asks_nothing(thread_id, tool)} within {within:g} s. {found.doing} {found.why}"


def _asks_nothing(thread_id: str, tool: str | None) -> str:
    about = "" if tool is None else f" about tool {tool!r}"
    return f"thread {thread_id!r} asks for no decision{about}"
