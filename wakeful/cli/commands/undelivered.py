"""`wakeful undelivered`: messages between agents that were not delivered; send them again, or drop them."""

from __future__ import annotations

import asyncio
import sys
from time import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wakeful.cli import completion, options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.client.undelivered import ThreadUndelivered

Action = Literal["replay", "clear"]

REPORT_AFTER_SECONDS = 1.0


def undelivered(
    thread: Annotated[
        str | None,
        typer.Argument(
            metavar="THREAD",
            help="The thread that sent them. [default: all open threads]",
            autocompletion=completion.complete_thread,
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Send the thread's undelivered messages again.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Drop the thread's undelivered messages.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List messages between agents that were not delivered."""
    from wakeful.cli.session import exit_if_all_undecodable, with_client
    from wakeful.cli.terminal.undelivered_lines import undelivered_json, undelivered_lines
    from wakeful.contract.errors import CallerError

    cluster = options.Cluster(address, namespace, client_factory)
    if replay and clear:
        raise CallerError("--replay sends messages again and --clear drops them: choose one")
    if replay or clear:
        action: Action = "replay" if replay else "clear"
        if thread is None:
            raise CallerError(f"name the thread: wakeful undelivered THREAD --{action}")
        print(with_client(cluster, lambda client: _recover(client, thread, action)))
        return
    found = with_client(cluster, lambda client: _read(client, thread))
    if as_json:
        for line in undelivered_json(found):
            print(line)
    else:
        where = "open threads have" if thread is None else f"thread {thread} has"
        lines = undelivered_lines(found, now=int(time() * 1000))
        print("\n".join(lines) or f"{where} no undelivered messages")
    exit_if_all_undecodable(found)


async def _read(client: Client, thread: str | None) -> list[ThreadUndelivered]:
    from wakeful.client.undelivered import ThreadUndelivered, read_undelivered

    if thread is not None:
        return [ThreadUndelivered(thread_id=thread, undelivered=await client.undelivered(thread))]
    timers: list[asyncio.TimerHandle] = []

    def report_later(number: int) -> None:
        loop = asyncio.get_running_loop()
        timers.append(loop.call_later(REPORT_AFTER_SECONDS, _report_reads, number))

    try:
        return await read_undelivered(client.reader, on_listed=report_later)
    finally:
        for timer in timers:
            timer.cancel()


def _report_reads(number: int) -> None:
    from wakeful.cli.terminal.text import counted

    print(f"reading {counted(number, 'open thread')} …", file=sys.stderr, flush=True)


async def _recover(client: Client, thread: str, action: Action) -> str:
    from wakeful.cli.session import read_status
    from wakeful.cli.terminal.text import counted
    from wakeful.contract.errors import NoAnswer

    try:
        number = len((await read_status(client.reader, thread)).undelivered)
    except NoAnswer as error:
        await _signal(client, thread, action)
        return f"sent: {action} waits in the thread's history: {error}"
    if not number:
        return f"thread {thread} has no undelivered messages"
    await _signal(client, thread, action)
    messages = counted(number, "undelivered message")
    return f"thread {thread} sends {messages} again" if action == "replay" else f"thread {thread} drops {messages}"


async def _signal(client: Client, thread: str, action: Action) -> None:
    from temporalio.client import WorkflowExecutionStatus

    from wakeful.cli.terminal.text import send_command
    from wakeful.client.wake import describe
    from wakeful.contract.errors import CallerError

    described = await describe(client.temporal, thread)
    if described is not None and described.status is not WorkflowExecutionStatus.RUNNING:
        raise CallerError(f"thread {thread!r} is closed: wake it first with `{send_command(thread)}`")
    await client.recover_undelivered(thread, action)
