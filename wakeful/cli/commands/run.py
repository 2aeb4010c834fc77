"""`wakeful run`: start a run, and follow it until it ends."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.contract.runs import RunResult


@options.taking_run_options
def run(
    agent: options.AgentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message to the agent.")],
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="The new thread's id. [default: a generated id]")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Start over on a closed thread: the run does not see the old messages.")
    ] = False,
    until_suspended: Annotated[
        bool, typer.Option("--until-suspended", help="Return when the run suspends: do not wait for the decision.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return as soon as the run has started, and print its thread's id.")
    ] = False,
    on_error: options.OnErrorOption = "fail",
    *,
    given: options.RunOptionValues,
    priority: options.PriorityOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Start a run, show its events and print its answer.

    The answer is on standard output, the events are on standard error. Ctrl-C does not stop the run.
    """
    from wakeful.cli.run_settings import parse_run_options
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.event_printer import ViewOptions
    from wakeful.cli.terminal.follow import follow, print_result
    from wakeful.contract.runs import Priority

    settings = parse_run_options(given)

    started = ""

    async def go(client: Client) -> RunResult | None:
        nonlocal started
        if thread is not None:
            await _refuse_existing(client, thread, again=again)
        settings["live"] = not no_wait and ViewOptions.default(as_json=as_json).live
        started = await client.start(
            agent,
            text,
            thread_id=thread,
            on_error=on_error,
            again=again,
            priority=None if priority is None else Priority(priority_key=priority),
            **settings,
        )
        if no_wait:
            return None
        if not as_json:
            print(f"thread {started}", file=sys.stderr)
        return await follow(client, started, as_json=as_json, until_suspended=until_suspended)

    try:
        result = with_client(options.Cluster(address, namespace, client_factory), go, task_queue=task_queue)
    except KeyboardInterrupt:
        if started:
            _print_follow("the run continues", started)
        raise
    if no_wait and as_json:
        print(json.dumps({"thread_id": started}))
    elif no_wait:
        print(started, flush=True)
        _print_follow("follow it", started)
    elif result is not None:
        print_result(result, as_json=as_json)


def _print_follow(why: str, thread_id: str) -> None:
    from wakeful.cli.terminal.text import shell_command

    print(f"{why}:  {shell_command('watch', ids=[thread_id])}", file=sys.stderr)


async def _refuse_existing(client: Client, thread_id: str, *, again: bool) -> None:
    """A person who names an existing thread usually wants to continue it, which a new run would not do."""
    from temporalio.client import WorkflowExecutionStatus

    from wakeful.cli.session import read_status
    from wakeful.cli.terminal.text import send_command
    from wakeful.client.wake import describe
    from wakeful.contract.errors import CallerError, NoAnswer

    described = await describe(client.temporal, thread_id)
    if described is None:
        return
    if described.status is WorkflowExecutionStatus.RUNNING:
        try:
            doing = f" ({(await read_status(client.reader, thread_id)).doing})"
        except NoAnswer:
            doing = ""
        raise CallerError(f"thread {thread_id!r} is open{doing}: send it a message with `{send_command(thread_id)}`")
    if not again:
        raise CallerError(
            f"thread {thread_id!r} exists: continue it with `{send_command(thread_id)}`, or start over with `--again`"
        )
