"""`wakeful fork`: a new thread that continues another after one of its steps."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.contract.runs import RunResult


def fork(
    thread: options.ThreadArgument,
    at: Annotated[
        int,
        typer.Option("--at", metavar="STEP", help="Fork after this step, as `wakeful show` counts; 0: before step 1."),
    ],
    message: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="The next message. [default: none]")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="Who answers. [default: the agent of that step]",
            autocompletion=completion.complete_agent,
        ),
    ] = None,
    new: Annotated[
        str | None, typer.Option("--as", metavar="NEW", help="The new thread's id. [default: a generated id]")
    ] = None,
    user: options.UserOption = None,
    metadata: options.MetadataOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the run.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Start a new thread from a step of another.

    The other thread does not change. The steps that the fork shares with it are not run or paid for again.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.event_printer import ViewOptions
    from wakeful.cli.terminal.follow import follow, print_result
    from wakeful.cli.terminal.text import shell_command

    given = options.parse_metadata(metadata)

    async def go(client: Client) -> tuple[str, RunResult | None]:
        live = not detach and ViewOptions.default(as_json=as_json).live
        forked = await client.fork(
            thread, at=at, message=message, agent_id=agent, new_thread_id=new, live=live, user=user, metadata=given
        )
        if detach:
            return forked, None
        if not as_json:
            print(f"thread {forked}", file=sys.stderr)
        return forked, await follow(client, forked, as_json=as_json)

    forked, result = with_client(options.Cluster(address, namespace, client_factory), go)
    compare = f"compare: {shell_command('diff', ids=[thread, forked])}"
    if result is not None:
        print_result(result, as_json=as_json, last_line=compare)
    elif as_json:
        print(json.dumps({"thread_id": forked, "forked_from": {"thread_id": thread, "step": at}}))
    else:
        print(forked)
        print(compare, file=sys.stderr)
