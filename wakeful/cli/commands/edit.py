"""`wakeful edit`: replace a message that no run has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def edit(
    thread: options.ThreadArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id, as `wakeful queue` prints it.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the message says instead.")],
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Replace the text of a message that no run has read."""
    from wakeful.cli.changes import change_lines
    from wakeful.cli.session import with_client

    async def go(client: Client) -> list[str]:
        return await change_lines("edited:", client.edit(thread, message, text, tenant=tenant, confirm=True))

    for line in with_client(options.Cluster(address, namespace, client_factory), go):
        print(line)
