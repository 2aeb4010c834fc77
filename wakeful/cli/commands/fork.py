"""`wakeful fork`: a new thread that goes on after a step of another, followed as `wakeful run` follows a run."""

import json
import shlex
import sys
from typing import Annotated

import typer

from wakeful.cli import completion, options
from wakeful.cli.commands.threads import tell_result
from wakeful.cli.session import with_client
from wakeful.cli.terminal.follow import follow
from wakeful.client.client import Client
from wakeful.contract.runs import RunResult


def fork(
    thread: options.ThreadArgument,
    at: Annotated[
        int,
        typer.Option("--at", metavar="STEP", help="After this step, as `wakeful show` counts; 0: before the first."),
    ],
    message: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="What to say then. [default: it just goes on]")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Who answers. [default: who did at that step]", autocompletion=completion.agents_like
        ),
    ] = None,
    new: Annotated[str | None, typer.Option("--as", metavar="NEW", help="The new thread's id.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start it, and leave it to itself.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Start a thread that goes on after a step of another, which stays as it is. What is kept is not paid for again."""

    async def go(client: Client) -> tuple[str, RunResult | None]:
        forked = await client.fork(thread, at=at, message=message, agent_id=agent, new_thread_id=new)
        if detach:
            return forked, None
        if not as_json:
            print(f"thread {forked}", file=sys.stderr)
        return forked, await follow(client, forked, wait=True, as_json=as_json)

    forked, result = with_client(address, namespace, go)
    comparing = f"compare: {diff_command(thread, forked)}"
    if result is not None:
        tell_result(result, as_json=as_json, last=comparing)
    elif as_json:
        print(json.dumps({"thread_id": forked, "forked_from": {"thread_id": thread, "step": at}}))
    else:
        print(forked)
        print(comparing, file=sys.stderr)


def diff_command(a: str, b: str) -> str:
    """The command that shows two threads side by side."""
    end_of_options = ["--"] if a.startswith("-") or b.startswith("-") else []
    return shlex.join(["wakeful", "diff", *end_of_options, a, b])
