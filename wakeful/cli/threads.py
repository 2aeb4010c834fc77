"""Commands on threads: run, send, status, show, cancel."""

import sys
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.asking import with_client
from wakeful.cli.showing import event_lines, message_lines, pending_lines, status_lines
from wakeful.client import WakefulClient
from wakeful.contract.errors import CallerError
from wakeful.contract.events import RunFinish
from wakeful.contract.runs import NaturalEnd, OnBusy, RunResult, Suspended
from wakeful.inbox import pending_of


def run(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to tell it.")],
    thread: Annotated[str | None, typer.Option(help="The thread's id. [default: a new one]")] = None,
    wait: Annotated[bool, typer.Option(help="Stay when the run suspends, until it goes on.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Start a run, show what happens, and print its answer."""

    async def go(client: WakefulClient) -> RunResult | None:
        thread_id = await client.start(agent, text, thread_id=thread)
        if not as_json:
            print(f"thread {thread_id}", file=sys.stderr)
        return await _follow(client, thread_id, wait=wait, as_json=as_json)

    result = with_client(address, namespace, go, task_queue=task_queue)
    if result is None:
        return
    if as_json:
        print(result.model_dump_json(), flush=True)
    else:
        print(result.response)
    if not isinstance(result.termination, NaturalEnd):
        raise CallerError(f"the run ended as {result.status_reason}")


def send(
    thread: options.ThreadArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    agent: Annotated[str | None, typer.Option(help="Who should answer; needed for a new thread.")] = None,
    on_busy: Annotated[OnBusy, typer.Option(help="What becomes of it while a run is under way.")] = OnBusy.ENQUEUE,
    message_id: Annotated[str | None, typer.Option(help="Sending the same id again changes nothing.")] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
) -> None:
    """Say something to a thread that stays: it is created, woken, restored, or the message waits its turn."""

    async def go(client: WakefulClient) -> str:
        return await client.send(thread, text, agent_id=agent, on_busy=on_busy, message_id=message_id)

    print(f"sent: message {with_client(address, namespace, go, task_queue=task_queue)} to thread {thread}")


def status(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Where a thread's run stands, and what it waits for."""
    view = with_client(address, namespace, lambda client: client.status(thread))
    print(view.model_dump_json() if as_json else "\n".join(status_lines(thread, view)))


def show(
    thread: options.ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """The whole conversation of a thread."""
    for message in with_client(address, namespace, lambda client: client.transcript(thread)):
        print(message.model_dump_json() if as_json else "\n".join(message_lines(message)))


def cancel(
    thread: options.ThreadArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until everything has stopped.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Cancel a thread's run and everything it has in flight."""

    async def go(client: WakefulClient) -> str:
        await client.cancel(thread, reason=reason)
        return (await client.result(thread)).status_reason if wait else "cancel sent"

    print(f"thread {thread}: {with_client(address, namespace, go)}")


async def _follow(client: WakefulClient, thread_id: str, *, wait: bool, as_json: bool) -> RunResult | None:
    async for record in client.watch(thread_id):
        if as_json:
            print(record.model_dump_json(), flush=True)
        else:
            print("\n".join(event_lines(record.event)) or "", end="\n" if event_lines(record.event) else "", flush=True)
        if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
            if not as_json:
                for pending in pending_of(await client.status(thread_id)):
                    print("\n".join(pending_lines(pending)), flush=True)
            if not wait:
                return None
    return await client.result(thread_id)
