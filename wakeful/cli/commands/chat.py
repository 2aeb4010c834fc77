"""`wakeful chat`: a conversation with an agent."""

from __future__ import annotations

import sys
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
    cluster_options = [*cluster.words, *(["--task-queue", task_queue] if task_queue != options.TASK_QUEUE else [])]

    async def go(client: Client) -> None:
        if as_json or not (sys.stdin.isatty() and can_redraw(sys.stdout)):
            from wakeful.cli.chat.pipe import pipe

            await pipe(client, agent, thread, as_json=as_json)
        else:
            from wakeful.cli.chat.conversation import Conversation

            await Conversation(client, agent, cluster_options=cluster_options).talk(thread)

    with_client(cluster, go, task_queue=task_queue)
