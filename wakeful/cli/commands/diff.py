"""`wakeful diff`: two threads side by side, from where they differ."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.cli.terminal.diff_lines import Difference
    from wakeful.client.client import Client

COLUMNS = 100
"""Without a terminal."""


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A thread's id.", autocompletion=completion.complete_thread)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another's.", autocompletion=completion.complete_thread)],
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare two threads side by side.

    Says how far they are the same, then shows their steps from there, and how each ended.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.diff_lines import Difference, Side, diff_lines
    from wakeful.client.branching.steps import compare

    async def go(client: Client) -> Difference:
        messages_a, messages_b, view_a, view_b = await asyncio.gather(
            client.transcript(a), client.transcript(b), client.status(a), client.status(b)
        )
        compared = compare(messages_a, messages_b)
        side_a = Side(thread_id=a, steps=compared.steps_a, status=view_a)
        side_b = Side(thread_id=b, steps=compared.steps_b, status=view_b)
        return Difference(a=side_a, b=side_b, compared=compared)

    found = with_client(options.Cluster(address, namespace, client_factory), go)
    if as_json:
        print(found.model_dump_json())
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else COLUMNS
    for line in diff_lines(found, columns=columns, colours=colours_of(sys.stdout)):
        print(line)
