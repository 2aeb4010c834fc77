"""`wakeful withdraw`: take back messages that no run has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def withdraw(
    thread: options.ThreadArgument,
    messages: Annotated[
        list[str] | None, typer.Argument(metavar="MESSAGE", help="Ids of messages, as `wakeful queue` prints them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Withdraw every message that waits.")] = False,
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Withdraw messages of a thread that no run has read.

    A message that a run has read meanwhile stays in the conversation, and the command says so.
    """
    from wakeful.cli.changes import change_lines
    from wakeful.cli.session import with_client
    from wakeful.contract.errors import CallerError

    if bool(messages) == every:
        raise CallerError("name the messages to withdraw, or give --all")

    async def go(client: Client) -> list[str]:
        named = messages or [each.message.id for each in await client.queued(thread) if not each.mail]
        if not named:
            return [f"thread {thread}: no message waits"]
        return await change_lines("withdrawn:", client.withdraw(thread, named, tenant=tenant, confirm=True))

    for line in with_client(options.Cluster(address, namespace, client_factory), go):
        print(line)
