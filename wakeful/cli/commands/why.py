"""`wakeful why`: what a thread waits for, since when, the cause, and what you can do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.diagnosis.causes import Diagnosis


def why(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Explain why a thread is not making progress.

    Says what it does and waits for, since when, the cause, and what you can do.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.text import printable

    async def go(client: Client) -> Diagnosis:
        return await client.why(thread)

    cluster = options.Cluster(address, namespace, client_factory)
    found = with_cluster_options(with_client(cluster, go), cluster)
    if as_json:
        print(found.model_dump_json())
        return
    print(printable(found.text))
    for problem in found.unread:
        print(f"could not read: {printable(problem)}", file=sys.stderr)


def with_cluster_options(found: Diagnosis, cluster: options.Cluster) -> Diagnosis:
    """The diagnosis, with commands that reach the same cluster as this one."""
    commands = {command: cluster.completing(command) for command in found.commands}
    next = found.next
    for command, whole in commands.items():
        next = next.replace(f"`{command}`", f"`{whole}`")
    return found.model_copy(update={"next": next, "commands": tuple(commands.values())})
