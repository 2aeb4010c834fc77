"""`wakeful list`: the threads of a namespace, by what lists show of them."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeful.client.client import Client
    from wakeful.client.threads import ThreadSummary

LIMIT = 20

StatusChoice = Literal["created", "running", "waiting", "done"]
OutcomeChoice = Literal["natural", "stopped", "blocked", "error", "cancelled"]
"""The words of `RunStatus` and of outcomes, whose modules take long to import."""


TextList = builtins.list[str]  # the command is called `list`


def list(
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Only threads of this agent.", autocompletion=completion.complete_agent),
    ] = None,
    status: Annotated[StatusChoice | None, typer.Option(help="Only those whose newest run has this status.")] = None,
    outcome: Annotated[OutcomeChoice | None, typer.Option(help="Only those whose newest run ended so.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Only threads of this tenant.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only those to which this user has written.")] = None,
    is_open: Annotated[
        bool | None, typer.Option("--open/--closed", help="Only open threads, or only closed ones.")
    ] = None,
    newer_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only those that started in this time: 30m, 2h, 7d.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only those that started before this time.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="FILTER", help="A Temporal list filter.")] = None,
    metadata: Annotated[
        TextList | None,
        typer.Option(metavar="KEY=VALUE", help="Only those whose newest run has this; reads each. Repeatable."),
    ] = None,
    subagents: Annotated[bool, typer.Option("--subagents", help="Also the threads of sub-agents.")] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Also read each thread, for its runs and its last line.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="List at most N threads.")] = LIMIT,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List threads, open ones first.

    The newest come first. It reads no thread, unless you want details.
    """
    from wakeful.cli.session import parse_duration, with_client

    given = options.parse_metadata(metadata)

    async def go(client: Client) -> None:
        found = client.threads(
            agent_id=agent,
            status=status,
            outcome=outcome,
            tenant=tenant,
            user=user,
            is_open=is_open,
            started_after=parse_duration("--newer-than", newer_than) if newer_than else None,
            started_before=parse_duration("--older-than", older_than) if older_than else None,
            subagents=subagents,
            query=query,
            metadata=given,
            details=details,
            limit=limit + 1,
        )
        threads = [thread async for thread in found]
        _print(threads[:limit], as_json=as_json)
        if len(threads) > limit and not as_json:
            print(f"there are more: --limit {2 * limit} lists more of them", file=sys.stderr)

    with_client(options.Cluster(address, namespace, client_factory), go)


def _print(threads: Sequence[ThreadSummary], *, as_json: bool) -> None:
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.thread_lines import thread_lines

    if as_json:
        for thread in threads:
            print(thread.model_dump_json(), flush=True)
    elif threads:
        head, *lines = thread_lines(threads)
        print("\n".join([colours_of(sys.stdout).dim(head), *lines]), flush=True)
    else:
        print("no threads", flush=True)
