"""`wakeful status`: what a thread is doing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wakeful.cli import options

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient


def status(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what a thread is doing and what it waits for."""
    from wakeful.cli.session import read_status, with_temporal

    async def go(temporal: TemporalClient) -> None:
        from wakeful.client.thread_reader import ThreadReader

        reader = ThreadReader(temporal)
        view = await read_status(reader, thread)
        if as_json:
            print(view.model_dump_json())
            return
        from wakeful.cli.terminal.colours import colours_of
        from wakeful.cli.terminal.status_lines import read_related_lines, status_lines

        lines = [*status_lines(thread, view), *await read_related_lines(reader, thread, view)]
        print("\n".join(colours_of(sys.stdout).labelled(line) for line in lines))

    with_temporal(options.Cluster(address, namespace, client_factory), go)
