"""`wakeful tree`: a run with every sub-agent and background task below it, once or for as long as it runs."""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from time import time
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.colours import colours_of
from wakeful.cli.terminal.tree_lines import tree_lines
from wakeful.client.client import Client
from wakeful.client.tree import TreeNode

WATCH_SECONDS = 1.0


def tree(
    thread: options.ThreadArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and redraw it until the run has ended.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Also print the thread of every node.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """A run with every sub-agent and background task below it: what each does, waits for and has spent."""

    def lines(seen: TreeNode) -> list[str]:
        return tree_lines(seen, now=int(time() * 1000), ids=ids, colours=colours_of(sys.stdout).on)

    async def go(client: Client) -> None:
        if watch and sys.stdout.isatty() and not as_json:
            await _redraw(client.watch_tree(thread, every=WATCH_SECONDS), lines)
        elif watch:
            async for seen in client.watch_tree(thread, every=WATCH_SECONDS):
                print(seen.model_dump_json() if as_json else "\n".join([*lines(seen), ""]), flush=True)
        else:
            seen = await client.tree(thread)
            print(seen.model_dump_json() if as_json else "\n".join(lines(seen)))

    with_client(address, namespace, go)


async def _redraw(trees: AsyncIterator[TreeNode], lines: Callable[[TreeNode], list[str]]) -> None:
    """Draw each tree over the one before, and the same one again while none comes: times of waiting go on."""
    canvas = Canvas()
    seen = await anext(trees, None)
    while seen is not None:
        canvas.draw(lines(seen))
        coming = asyncio.ensure_future(anext(trees, None))
        try:
            while not (await asyncio.wait([coming], timeout=WATCH_SECONDS))[0]:
                canvas.draw(lines(seen))
        finally:
            coming.cancel()
        seen = coming.result()


class Canvas:
    """A part of the terminal that is drawn again in place."""

    def __init__(self) -> None:
        self._height = 0

    def draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = fitting(lines, columns=size.columns, rows=size.lines - 1)
        back = f"\x1b[{self._height}F" if self._height else ""
        print(back + "\x1b[J" + "\n".join(shown), flush=True)
        self._height = sum(height(line, size.columns) for line in shown)


def fitting(lines: Sequence[str], *, columns: int, rows: int) -> list[str]:
    """As many lines as the terminal can draw again, and the last one: nothing above its top can be reached."""
    if sum(height(line, columns) for line in lines) <= rows:
        return list(lines)
    *body, last = lines
    left = rows - height(last, columns) - 1
    shown: list[str] = []
    for line in body:
        left -= height(line, columns)
        if left < 0:
            break
        shown.append(line)
    return [*shown, f"… {len(body) - len(shown)} more lines: the window is too small", last]


def height(line: str, columns: int) -> int:
    """How many rows of the terminal a line takes."""
    return max(1, -(-len(re.sub(r"\x1b\[[0-9;]*m", "", line)) // max(1, columns)))
