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
    inherited: Annotated[
        bool, typer.Option("--inherited", help="Lift rules that the thread has of its ancestors, instead.")
    ] = False,
    reason: options.RecordedReasonOption = None,
    actor: options.ActorOption = None,
    tenant: options.SenderTenantOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Revoke permission rules that were added to a thread.

    Or, with --inherited, let a sub-agent do what an agent above it denies or asks about. Calls that have started are
    not affected.
    """
    from wakeful.cli.answers import current_user
    from wakeful.cli.changes import change_lines
    from wakeful.cli.session import with_client

    async def go(client: Client) -> list[str]:
        revoking = client.revoke(
            thread,
            rules,
            inherited=inherited,
            actor=actor or current_user(),
            reason=reason,
            tenant=tenant,
            confirm=True,
        )
        return await change_lines("lifted:" if inherited else "revoked:", revoking)

    for line in with_client(options.Cluster(address, namespace, client_factory), go):
        print(line)
