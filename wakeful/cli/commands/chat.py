"""`wakeful chat`: talk to an agent, on a thread that stays."""

import sys
from typing import Annotated

import typer

from wakeful.cli import completion, options
from wakeful.cli.chat.pipe import pipe
from wakeful.cli.session import with_client
from wakeful.cli.terminal.screen import can_move
from wakeful.client.client import Client


def chat(
    agent: options.AgentArgument,
    thread: Annotated[
        str | None,
        typer.Option(
            metavar="THREAD",
            help="Go on with this thread, or begin one of this name. [default: a new one]",
            autocompletion=completion.threads_like,
        ),
    ] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Talk to an agent: answers come live, decisions are asked for inline, Ctrl-C interrupts a turn, Ctrl-D leaves.

    Without a terminal, a message is a line of standard input, and answers go to standard output. With --json a message
    is a JSON string a line, and every event is printed.
    """
    asked = [("--address", address), ("--namespace", namespace)]
    if task_queue != options.TASK_QUEUE:
        asked.append(("--task-queue", task_queue))
    again = [word for name, value in asked if value for word in (name, value)]

    async def go(client: Client) -> None:
        if as_json or not (sys.stdin.isatty() and can_move(sys.stdout)):
            await pipe(client, agent, thread, as_json=as_json)
            return
        from wakeful.cli.chat.conversation import Conversation

        await Conversation(client, agent, options=again).talk(thread)

    with_client(address, namespace, go, task_queue=task_queue)
