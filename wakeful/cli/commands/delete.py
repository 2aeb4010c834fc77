"""`wakeful delete`: delete threads for good, after asking."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.deletion.delete import DeleteReceipt


def delete(
    threads: Annotated[
        list[str] | None,
        typer.Argument(metavar="THREAD", help="Threads to delete.", autocompletion=completion.complete_thread),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Also the threads that this Temporal list filter finds.")
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="Also delete their profiles, in the store that $WAKEFUL_PROFILES names.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Delete threads with everything that belongs to them.

    Their executions, archives, sub-agents, background tasks and stored payloads; open ones are terminated first. Forks
    stay. No worker is needed. Exits with 1 if a thread does not exist, or something could not be deleted.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.delete_lines import plan_lines, receipt_lines
    from wakeful.client.deletion.delete import plan_delete, select_threads
    from wakeful.contract.errors import CallerError

    if not threads and query is None:
        raise typer.BadParameter("name threads, or find them with --query", param_hint="THREAD")

    async def go(client: Client) -> list[DeleteReceipt] | None:
        selected = list(dict.fromkeys(threads or ()))
        if query is not None:
            selected += [id for id in await select_threads(client.temporal, query) if id not in selected]
        if not selected:
            raise CallerError(f"no thread matches the query {query!r}")
        if not yes:
            for id in selected:
                plan = plan_lines(id, await plan_delete(client.temporal, id), profiles=profiles)
                print("\n".join(plan), file=sys.stderr, flush=True)
            if not sys.stdin.isatty():
                raise CallerError("nothing is deleted: without a terminal to ask at, confirm with --yes")
            if not typer.confirm("Delete? This cannot be undone.", err=True):
                return None
        receipts = []
        for id in selected:
            receipts.append(receipt := await client.delete(id, profiles=profiles))
            print(receipt.model_dump_json() if as_json else "\n".join(receipt_lines(receipt)), flush=True)
        return receipts

    receipts = with_client(options.Cluster(address, namespace, client_factory), go)
    if receipts is None:
        print("nothing is deleted", file=sys.stderr)
        raise typer.Exit(1)
    if any(not receipt.found or receipt.remaining for receipt in receipts):
        raise typer.Exit(1)
