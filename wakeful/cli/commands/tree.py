"""`wakeful tree`: a thread with all its descendants, once or until it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from time import time
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.tree import TreeNode

POLL_SECONDS = 1.0


def tree(
    thread: options.ThreadArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and redraw the tree until the run ends.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Print the thread of every node, too.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show a thread with all its sub-agents and background tasks.

    Each line says what the node does or waits for, and what it has spent.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.tree_lines import tree_lines

    def lines(node: TreeNode) -> list[str]:
        return tree_lines(node, now=int(time() * 1000), ids=ids, colours=colours_of(sys.stdout).on)

    async def go(client: Client) -> None:
        if watch and sys.stdout.isatty() and not as_json:
            await _redraw(client.watch_tree(thread, every=POLL_SECONDS), lines)
        elif watch:
            async for root in client.watch_tree(thread, every=POLL_SECONDS):
                print(root.model_dump_json() if as_json else "\n".join([*lines(root), ""]), flush=True)
        else:
            root = await client.tree(thread)
            print(root.model_dump_json() if as_json else "\n".join(lines(root)))

    with_client(options.Cluster(address, namespace, client_factory), go)


async def _redraw(trees: AsyncIterator[TreeNode], lines: Callable[[TreeNode], list[str]]) -> None:
    """Draw each tree over the one before; between two, redraw the same one with the time that has passed."""
    from wakeful.cli.terminal.screen import Canvas

    canvas = Canvas()
    root = await anext(trees, None)
    while root is not None:
        canvas.draw(lines(root))
        following = asyncio.ensure_future(anext(trees, None))
        try:
            while not (await asyncio.wait([following], timeout=POLL_SECONDS))[0]:
                canvas.draw(lines(root))
        finally:
            following.cancel()
        root = following.result()
