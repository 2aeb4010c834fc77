"""`wakeful cancel`: stop the run of a thread, or all runs that a query finds, after asking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.cancel_many import ActiveRun
    from wakeful.client.client import Client

MOST_SHOWN = 10
UNDECODED = " by Temporal's own cancel, which closes the thread: its mode cannot be decoded without the codec"


def cancel(
    thread: Annotated[
        str | None,
        typer.Argument(metavar="THREAD", help="The thread's id.", autocompletion=completion.complete_thread),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="Cancel all active runs and tools that this Temporal list filter finds."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="Cancel all active runs and tools of this agent.",
            autocompletion=completion.complete_agent,
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cancel all active runs and tools of this tenant.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cancel all active runs and tools that act for this user.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without a thread: do not ask for confirmation.")] = False,
    run: options.RunIdOption = None,
    reason: options.RecordedReasonOption = None,
    wait: Annotated[bool, typer.Option(help="Wait until the run, or the tasks of an idle thread, have ended.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
) -> None:
    """Cancel the run of a thread and everything it started.

    Or all active runs and background tools that --query, --agent, --tenant and --user find together, after asking.
    Exits with 1 if one could not be cancelled.
    """
    from wakeful.cli.session import with_client
    from wakeful.client.cancel_many import filter_of

    cluster = options.Cluster(address, namespace, client_factory)
    filter = filter_of(query=query, agent_id=agent, tenant=tenant, user=user)
    if bool(thread) == bool(filter):
        message = "name a thread, or find runs with --query, --agent, --tenant or --user"
        raise typer.BadParameter(message, param_hint="THREAD")
    if run is not None and thread is None:
        raise typer.BadParameter("name the thread of the run", param_hint="--run")
    if thread is None:
        with_client(cluster, lambda client: _cancel_found(client, filter, reason=reason, wait=wait, yes=yes))
    else:
        print(
            f"thread {thread}: {with_client(cluster, lambda client: _cancel(client, thread, reason, run, wait=wait))}"
        )


async def _cancel(client: Client, thread: str, reason: str | None, run: str | None, *, wait: bool) -> str:
    from wakeful.cli.terminal.outage_notice import OutageNotice, warn
    from wakeful.cli.terminal.progress import Progress
    from wakeful.cli.terminal.result_lines import stopped_lines
    from wakeful.client.cancel import cancel_and_wait, cancel_thread, is_background_tool
    from wakeful.client.cancel_many import wait_until_ended
    from wakeful.contract.errors import CannotDecode

    try:
        if wait and not await is_background_tool(client.temporal, thread):
            async with OutageNotice(client, thread, warn) as notice:
                stopped = await cancel_and_wait(client, thread, reason=reason, run_id=run, on_trouble=notice.on_trouble)
            return "\n".join(stopped_lines(stopped))
    except CannotDecode:
        pass
    is_decoded = await cancel_thread(client.reader, thread, reason=reason, run_id=run)
    if wait:
        await wait_until_ended(client.temporal, [thread], on_progress=Progress("of 1 run ended"))
    return f"{'cancelled' if wait else 'cancel sent'}{'' if is_decoded else UNDECODED}"


async def _cancel_found(client: Client, filter: str, *, reason: str | None, wait: bool, yes: bool) -> None:
    from wakeful.cli.terminal.progress import Progress
    from wakeful.cli.terminal.text import printable
    from wakeful.client.cancel_many import cancel_many, select_runs, wait_until_ended
    from wakeful.contract.errors import CallerError

    runs = await select_runs(client.temporal, filter)
    if not runs:
        raise CallerError(f"no active run matches {filter}")
    number = _counted(runs, "active ")
    if not yes:
        _print_found(runs)
        if not sys.stdin.isatty():
            raise CallerError(
                f"{number} match, and nothing is cancelled: without a terminal to ask at, confirm with --yes"
            )
        if not typer.confirm(f"Cancel {number}?", err=True):
            raise CallerError("nothing is cancelled")
    outcome = await cancel_many(client, runs, reason=reason, on_progress=Progress(f"of {number} asked to stop"))
    requested = _counted([run for run in runs if run.thread_id in set(outcome.requested)])
    next_runs: list[str] = []
    if wait:
        still = Progress(f"of {requested} ended")
        next_runs = await wait_until_ended(client.temporal, outcome.requested, on_progress=still)
    had_ended = f", {len(outcome.ended)} had ended" if outcome.ended else ""
    print(f"{'cancelled' if wait else 'cancel sent to'} {requested}{had_ended}")
    if outcome.undecoded:
        print(f"{len(outcome.undecoded)} of them{UNDECODED}")
    for id in sorted(next_runs):
        print(f"a queued message has started the next run of {printable(id)}")
    for id, problem in sorted(outcome.failed.items()):
        print(f"wakeful: {printable(id)}: {printable(problem)}", file=sys.stderr)
    if outcome.failed:
        raise typer.Exit(1)


def _counted(runs: Sequence[ActiveRun], kind: str = "") -> str:
    from wakeful.cli.terminal.text import counted

    tools = sum(run.is_tool for run in runs)
    parts = {f"{kind}run": len(runs) - tools, "background tool": tools}
    return " and ".join(counted(number, noun) for noun, number in parts.items() if number) or counted(0, "run")


def _print_found(runs: Sequence[ActiveRun]) -> None:
    from wakeful.cli.terminal.text import printable

    for run in runs[:MOST_SHOWN]:
        print(f"  {printable(run.thread_id)}  {printable(run.agent_id)}", file=sys.stderr)
    if len(runs) > MOST_SHOWN:
        print(f"  … and {len(runs) - MOST_SHOWN} more", file=sys.stderr, flush=True)
