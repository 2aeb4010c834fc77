"""`wakeful decisions`: who decided what, when and why, for an audit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.thread_runs import DecisionRecord


def decisions(
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Only this thread.", autocompletion=completion.complete_thread)
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only threads of this tenant.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only of runs that act for this user.")] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="Only decisions of this time: 30m, 2h, 7d.")] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List who decided what in every thread.

    Says when, why and by which way. It reads the threads, so export what you need before they are deleted.
    """
    from wakeful.cli.session import parse_duration, with_client

    async def go(client: Client) -> list[DecisionRecord]:
        within = parse_duration("--since", since) if since else None
        found, unread = [], []
        async for record in client.decisions(thread_id=thread, tenant=tenant, user=user, since=within):
            if record.unknown is not None:
                unread.append(record)
            elif as_json:
                print(record.model_dump_json(), flush=True)
            else:
                found.append(record)
        if not as_json:
            _print(found)
        return unread

    unread = with_client(options.Cluster(address, namespace, client_factory), go)
    _report(unread)


def _print(found: list[DecisionRecord]) -> None:
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.decision_lines import decision_lines

    if not found:
        print("no decisions", flush=True)
        return
    found.sort(key=lambda record: record.decision.at if record.decision else 0)
    head, *lines = decision_lines(found)
    print("\n".join([colours_of(sys.stdout).dim(head), *lines]), flush=True)


def _report(unread: list[DecisionRecord]) -> None:
    """An audit that leaves threads out says so, and fails."""
    from wakeful.cli.terminal.text import printable

    for record in unread:
        print(f"wakeful: {printable(f'{record.thread_id}: {record.unknown}')}", file=sys.stderr)
    if unread:
        raise typer.Exit(1)
