"""`wakeful inbox`: every pending decision, with the commands that answer it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.approvals import PendingDecision
    from wakeful.client.client import Client

POLL_SECONDS = 2.0


def inbox(
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Only decisions of this agent.", autocompletion=completion.complete_agent),
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls of this tool.")] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="THREAD", help="Only this thread and its sub-agents.", autocompletion=completion.complete_thread
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only decisions of this tenant.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and print new decisions until Ctrl-C.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List every pending decision, oldest first.

    Under each are the commands that answer it.
    """
    from wakeful.cli.session import exit_if_all_undecodable, with_client

    async def go(client: Client) -> None:
        printed: set[tuple[str, int | None]] = set()
        first = True
        while first or watch:
            pending = [each async for each in client.inbox(thread_id=thread, agent_id=agent, tool=tool, tenant=tenant)]
            _print([each for each in pending if _key(each) not in printed], as_json=as_json, or_none=first)
            printed, first = {_key(each) for each in pending}, False
            exit_if_all_undecodable(pending)
            if watch:
                await asyncio.sleep(POLL_SECONDS)

    with_client(options.Cluster(address, namespace, client_factory), go)


def _key(pending: PendingDecision) -> tuple[str, int | None]:
    return pending.ticket, pending.since  # a call may suspend again


def _print(decisions: list[PendingDecision], *, as_json: bool, or_none: bool) -> None:
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.pending_lines import inbox_lines

    if as_json:
        for pending in decisions:
            print(pending.model_dump_json(), flush=True)
    elif decisions:
        head, *lines = inbox_lines(decisions)
        print("\n".join([colours_of(sys.stdout).dim(head), *lines]), flush=True)
    elif or_none:
        print("no pending decisions", flush=True)
