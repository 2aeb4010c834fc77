"""`wakeful chat`: a conversation with an agent."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def chat(
    agent: options.AgentArgument,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="THREAD",
            help="Continue this thread, or start one with this id. [default: a new thread]",
            autocompletion=completion.complete_thread,
        ),
    ] = None,
    tenant: options.TenantOption = None,
    user: options.UserOption = None,
    metadata: options.MetadataOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Talk to an agent on a thread.

    Answers appear while the model writes them, and you are asked for decisions. Ctrl-C interrupts an answer, Ctrl-D
    leaves. Without a terminal, each line of standard input is a message, and answers go to standard output. With
    --json, each line is a message as a JSON string, and every event is printed.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.screen import can_redraw

    cluster = options.Cluster(address, namespace, client_factory)
    given = options.parse_metadata(metadata)
    queue = task_queue if task_queue != options.TASK_QUEUE else None
    named = (("--task-queue", queue), ("--tenant", tenant), ("--user", user))
    again = [word for name, value in named if value for word in (name, value)]
    again += [word for pair in metadata or () for word in ("--metadata", pair)]

    async def go(client: Client) -> None:
        send = partial(client.send, agent_id=agent, tenant=tenant, user=user, metadata=given)
        if as_json or not (sys.stdin.isatty() and can_redraw(sys.stdout)):
            from wakeful.cli.chat.pipe import pipe

            await pipe(client, agent, thread, send=send, as_json=as_json)
        else:
            from wakeful.cli.chat.conversation import Conversation

            options_again = [*cluster.words, *again]
            await Conversation(client, agent, send=partial(send, live=True), options=options_again).talk(thread)

    with_client(cluster, go, task_queue=task_queue)
