"""`wakeful inbox`: everything that waits for a decision, and the commands that answer it."""

import asyncio
import sys
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.colours import colours_of
from wakeful.cli.terminal.render import inbox_lines
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client

WATCH_SECONDS = 2.0


def inbox(
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Only what this agent waits for.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls of this tool.")] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Only this thread and the sub-agents below it.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and show what comes.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Everything that waits for a decision, oldest first, and how to answer it."""

    async def go(client: Client) -> None:
        shown: set[tuple[str, int | None]] = set()
        first = True
        while first or watch:
            waiting = [pending async for pending in client.inbox(thread_id=thread, agent_id=agent, tool=tool)]
            _show([pending for pending in waiting if _named(pending) not in shown], as_json=as_json, empty=first)
            shown, first = {_named(pending) for pending in waiting}, False
            if watch:
                await asyncio.sleep(WATCH_SECONDS)

    with_client(address, namespace, go)


def _named(pending: PendingDecision) -> tuple[str, int | None]:
    return pending.ticket, pending.since  # a call may ask again


def _show(waiting: list[PendingDecision], *, as_json: bool, empty: bool) -> None:
    if as_json:
        for pending in waiting:
            print(pending.model_dump_json(), flush=True)
    elif waiting:
        head, *lines = inbox_lines(waiting)
        print("\n".join([colours_of(sys.stdout).dim(head), *lines]), flush=True)
    elif empty:
        print("nothing waits for a decision", flush=True)
