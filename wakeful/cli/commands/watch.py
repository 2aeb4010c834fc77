"""`wakeful watch`: the events of a thread, from any one on, until it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client

INTERRUPTED = 130


def watch(
    thread: options.ThreadArgument,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="SEQ", help="Start after this event. THREAD=SEQ for a sub-agent. Repeatable."),
    ] = None,
    live: Annotated[
        bool | None,
        typer.Option("--live/--no-live", help="Show answers while they arrive. [default: on a terminal]"),
    ] = None,
    descendants: Annotated[bool, typer.Option("--descendants", help="Show all sub-agents, too.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show the events of a thread, live, until it ends.

    A thread that has ended is shown from its start. Ctrl-C stops watching, and prints the command that continues.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.event_printer import ViewOptions, event_printer
    from wakeful.cli.terminal.follow import watch_records
    from wakeful.cli.terminal.screen import can_redraw

    seen = _parse_after(thread, after or [])
    is_live = live if live is not None else not as_json and can_redraw(sys.stdout)
    view = ViewOptions(live=is_live, descendants=descendants, as_json=as_json)
    printer = event_printer(view, sys.stdout)

    async def go(client: Client) -> None:
        async for record in watch_records(client, thread, view, printer, after=dict(seen)):
            printer.show(record)
            seen[record.thread_id or thread] = record.seq

    try:
        with_client(options.Cluster(address, namespace, client_factory), go)
    except KeyboardInterrupt:
        printer.finish()
        print(f"continue with:  {_continue_command(thread, seen, descendants=descendants)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    printer.finish()


def _parse_after(thread: str, written: list[str]) -> dict[str, int]:
    """The last event that was seen, by thread."""
    from wakeful.contract.errors import CallerError

    seen = {thread: 0}
    for each in written:
        named, _, number = each.rpartition("=")
        if not number.isdecimal():
            raise CallerError(f"--after {each!r} is not an event's number: write SEQ, or THREAD=SEQ for a sub-agent")
        seen[named or thread] = int(number)
    return seen


def _continue_command(thread: str, seen: dict[str, int], *, descendants: bool) -> str:
    from wakeful.cli.terminal.text import shell_command

    words = ["--descendants"] if descendants else []
    for name, number in seen.items():
        if number:
            words += ["--after", str(number) if name == thread else f"{name}={number}"]
    return shell_command("watch", *words, ids=[thread])
