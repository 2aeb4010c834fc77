"""`wakeful watch`: what happens on a thread, from any point on, until it ends."""

import shlex
import sys
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.follow import Showing, records, teller_of
from wakeful.cli.terminal.screen import can_move
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError

INTERRUPTED = 130


def watch(
    thread: options.ThreadArgument,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="SEQ", help="Go on after this event; THREAD=SEQ for a sub-agent, may be repeated."),
    ] = None,
    live: Annotated[
        bool | None,
        typer.Option("--live/--no-live", help="Show answers while they come. [default: on a terminal]"),
    ] = None,
    below: Annotated[bool, typer.Option("--below", help="Sub-agents too, each under its path.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what happens on a thread, live, until it ends; one that has ended is shown from its start.

    Ctrl-C leaves, and says how to go on from there.
    """
    seen = _places(thread, after or [])
    showing = Showing(
        live=live if live is not None else not as_json and can_move(sys.stdout), below=below, as_json=as_json
    )
    teller = teller_of(showing)

    async def go(client: Client) -> None:
        async for record in records(client, thread, showing, teller, after=dict(seen)):
            teller.tell(record)
            seen[record.thread_id or thread] = record.seq

    try:
        with_client(address, namespace, go)
    except KeyboardInterrupt:
        teller.over()
        print(f"to go on from here:  {_going_on(thread, seen, below=below)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    teller.over()


def _places(thread: str, written: list[str]) -> dict[str, int]:
    """How far each thread has been seen."""
    places = {thread: 0}
    for place in written:
        named, _, number = place.rpartition("=")
        if not number.isdecimal():
            raise CallerError(f"--after {place!r} is no number of an event: write SEQ, or THREAD=SEQ for a sub-agent")
        places[named or thread] = int(number)
    return places


def _going_on(thread: str, seen: dict[str, int], *, below: bool) -> str:
    words = ["wakeful", "watch", *(["--below"] if below else [])]
    for name, number in seen.items():
        if number:
            words += ["--after", str(number) if name == thread else f"{name}={number}"]
    return shlex.join([*words, *(["--"] if thread.startswith("-") else []), thread])
