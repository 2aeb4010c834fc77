"""Commands on threads: run, status, show, decide, cancel."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from pydantic import JsonValue

from wakeful.cli import options
from wakeful.cli.showing import event_lines, message_lines, pending_lines, status_lines
from wakeful.client import WakefulClient
from wakeful.connection import connect
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import CallerError
from wakeful.contract.events import RunFinish
from wakeful.contract.runs import NaturalEnd, OnBusy, RunResult, Suspended

T = TypeVar("T")
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id, which is its workflow's.")]


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

    result = _with_client(address, namespace, go, task_queue=task_queue)
    if result is None:
        return
    if as_json:
        print(result.model_dump_json(), flush=True)
    else:
        print(result.response)
    if not isinstance(result.termination, NaturalEnd):
        raise CallerError(f"the run ended as {result.status_reason}")


def send(
    thread: ThreadArgument,
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

    print(f"sent: message {_with_client(address, namespace, go, task_queue=task_queue)} to thread {thread}")


def status(
    thread: ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Where a thread's run stands, and what it waits for."""
    view = _with_client(address, namespace, lambda client: client.status(thread))
    print(view.model_dump_json() if as_json else "\n".join(status_lines(thread, view)))


def show(
    thread: ThreadArgument,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """The whole conversation of a thread."""
    for message in _with_client(address, namespace, lambda client: client.transcript(thread)):
        print(message.model_dump_json() if as_json else "\n".join(message_lines(message)))


def decide(
    thread: ThreadArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The suspended call's id, or its suspension's.")],
    action: Annotated[DecisionAction, typer.Argument(help="Let it go on, or cancel it.")],
    result: Annotated[str | None, typer.Option(metavar="JSON", help="The answer, as JSON.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the model and the record.")] = None,
    decision_id: Annotated[str | None, typer.Option(help="Sending the same id again changes nothing.")] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Answer a suspended call."""
    answer = _json("--result", result)

    async def go(client: WakefulClient) -> None:
        await client.decide(thread, call, action, result=answer, reason=reason, decision_id=decision_id)

    _with_client(address, namespace, go)
    print(f"sent: {action.value} {call} on thread {thread}")


def cancel(
    thread: ThreadArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until everything has stopped.")] = True,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
) -> None:
    """Cancel a thread's run and everything it has in flight."""

    async def go(client: WakefulClient) -> str:
        await client.cancel(thread, reason=reason)
        return (await client.result(thread)).status_reason if wait else "cancel sent"

    print(f"thread {thread}: {_with_client(address, namespace, go)}")


async def _follow(client: WakefulClient, thread_id: str, *, wait: bool, as_json: bool) -> RunResult | None:
    async for record in client.watch(thread_id):
        if as_json:
            print(record.model_dump_json(), flush=True)
        else:
            print("\n".join(event_lines(record.event)) or "", end="\n" if event_lines(record.event) else "", flush=True)
        if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
            if not as_json:
                for ticket in (await client.status(thread_id)).pending:
                    print("\n".join(pending_lines(thread_id, ticket)), flush=True)
            if not wait:
                return None
    return await client.result(thread_id)


def _with_client(
    address: str | None,
    namespace: str | None,
    use: Callable[[WakefulClient], Awaitable[T]],
    *,
    task_queue: str = options.TASK_QUEUE,
) -> T:
    async def go() -> T:
        return await use(WakefulClient(await connect(options.where(address, namespace)), task_queue=task_queue))

    return asyncio.run(go())


def _json(option: str, text: str | None) -> JsonValue:
    if text is None:
        return None
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{option} is not JSON: {error}; a text needs quotes, for example '\"yes\"'") from error
    return value
