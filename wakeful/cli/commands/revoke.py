"""`wakeful revoke`: take back what was always allowed on a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def revoke(
    thread: options.ThreadArgument,
    rules: Annotated[
        list[str], typer.Argument(metavar="RULE", help="Rules of the thread, as `wakeful permissions` prints them.")
    ],
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Revoke permission rules that were added to a thread.

    Calls that have started are not affected.
    """
    from wakeful.cli.changes import change_lines
    from wakeful.cli.session import with_client

    async def go(client: Client) -> list[str]:
        return await change_lines("revoked:", client.revoke(thread, rules, tenant=tenant, confirm=True))

    for line in with_client(options.Cluster(address, namespace, client_factory), go):
        print(line)
