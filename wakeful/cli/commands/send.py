"""`wakeful send`: a message to a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client


@options.taking_run_options
def send(
    thread: options.ThreadArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")],
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="The agent that answers; required for a new thread.",
            autocompletion=completion.complete_agent,
        ),
    ] = None,
    on_busy: Annotated[
        options.OnBusyChoice, typer.Option(help="What to do with the message while a run is active.")
    ] = "enqueue",
    message_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Makes sending idempotent: a repeated ID is ignored.")
    ] = None,
    *,
    given: options.RunOptionValues,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
) -> None:
    """Send a message to a thread, and do not wait for the answer.

    A new thread is created, and a closed one wakes up. While a run is active, --on-busy says what happens. Rules,
    tools and budgets are for the run that the message begins.
    """
    from wakeful.cli.run_settings import parse_run_options
    from wakeful.cli.session import with_client

    settings = parse_run_options(given)

    async def go(client: Client) -> str:
        return await client.send(
            thread,
            text,
            agent_id=agent,
            on_busy=on_busy,
            message_id=message_id,
            **settings,
        )

    sent = with_client(options.Cluster(address, namespace, client_factory), go, task_queue=task_queue)
    print(f"sent: message {sent} to thread {thread}")
