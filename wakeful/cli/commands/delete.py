"""`wakeful delete`: delete threads for good, after asking."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeful.client.client import Client
    from wakeful.client.deletion.delete import DeleteReceipt
    from wakeful.client.deletion.owned import OwnedFilter

SHOWN_USERS = 10
"""Other users of a thread that are named."""


def delete(
    threads: Annotated[
        list[str] | None,
        typer.Argument(metavar="THREAD", help="Threads to delete.", autocompletion=completion.complete_thread),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="QUERY", help="The threads that this Temporal list filter finds.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="The threads of this tenant.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="The threads to which this user has written, and no other.")
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
    stay. No worker is needed. --query, --tenant and --user find threads together; one to which other users have
    written, too, is named and stays. Exits with 1 if a thread does not exist, or something could not be deleted.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.delete_lines import receipt_lines
    from wakeful.client.deletion.delete import select_threads
    from wakeful.client.deletion.owned import OwnedFilter
    from wakeful.contract.errors import CallerError

    is_owned = tenant is not None or user is not None
    if not threads and query is None and not is_owned:
        raise typer.BadParameter("name threads, or find them with --query, --tenant or --user", param_hint="THREAD")
    if threads and is_owned:
        raise typer.BadParameter(
            "a thread that you name is deleted whole: leave out --tenant and --user, or the thread", param_hint="THREAD"
        )

    async def go(client: Client) -> list[DeleteReceipt] | None:
        selected = list(dict.fromkeys(threads or ()))
        kept: list[DeleteReceipt] = []
        if is_owned:
            selected, kept = await _find_owned(client, OwnedFilter(tenant, user, query))
        elif query is not None:
            selected += [id for id in await select_threads(client.temporal, query) if id not in selected]
        if not selected and not kept:
            given = {"query": query, "tenant": tenant, "user": user}
            found = " and ".join(f"the {name} {value!r}" for name, value in given.items() if value is not None)
            raise CallerError(f"no thread matches {found}")
        if selected and not yes and not await _is_confirmed(client, selected, profiles=profiles):
            return None
        receipts: list[DeleteReceipt] = []
        for id in selected:
            receipts.append(receipt := await client.delete(id, profiles=profiles))
            show(receipt)
        for receipt in kept:
            show(receipt)
        return [*receipts, *kept]

    def show(receipt: DeleteReceipt) -> None:
        print(receipt.model_dump_json() if as_json else "\n".join(receipt_lines(receipt)), flush=True)

    receipts = with_client(options.Cluster(address, namespace, client_factory), go)
    if receipts is None:
        print("nothing is deleted", file=sys.stderr)
        raise typer.Exit(1)
    if any(not receipt.found or receipt.remaining for receipt in receipts):
        raise typer.Exit(1)


async def _is_confirmed(client: Client, selected: Sequence[str], *, profiles: bool) -> bool:
    """Whether a person has seen what will be deleted, and wants that."""
    from wakeful.cli.terminal.delete_lines import plan_lines
    from wakeful.client.deletion.delete import plan_delete
    from wakeful.contract.errors import CallerError

    for id in selected:
        plan = plan_lines(id, await plan_delete(client.temporal, id), profiles=profiles)
        print("\n".join(plan), file=sys.stderr, flush=True)
    if not sys.stdin.isatty():
        raise CallerError("nothing is deleted: without a terminal to ask at, confirm with --yes")
    return typer.confirm("Delete? This cannot be undone.", err=True)


async def _find_owned(client: Client, wanted: OwnedFilter) -> tuple[list[str], list[DeleteReceipt]]:
    """The threads to delete, and the receipts of those that stay."""
    from wakeful.cli.terminal.progress import Progress
    from wakeful.client.deletion.delete import DeleteReceipt, NotDeleted
    from wakeful.client.deletion.owned import find_owned

    found = await find_owned(client.reader, wanted, on_progress=Progress("executions read"))
    kept = {id: f"it cannot be said whose it is: {reason}" for id, reason in found.unknown.items()}
    kept |= {id: f"{_listed(others)} wrote to it, too" for id, others in found.shared.items()}
    receipts = []
    for id, reason in kept.items():
        named = f"-- {shlex.quote(id)}" if id.startswith("-") else shlex.quote(id)
        problem = NotDeleted(id=id, reason=f"{reason}; to delete it whole: wakeful delete {named}")
        receipts.append(DeleteReceipt(thread_id=id, found=True, remaining=(problem,)))
    return list(found.own), receipts


def _listed(users: Sequence[str]) -> str:
    more = [f"{len(users) - SHOWN_USERS} more"] if len(users) > SHOWN_USERS else []
    return ", ".join([*users[:SHOWN_USERS], *more])
