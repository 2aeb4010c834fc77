"""`wakeful letters`: messages between agents that could not be delivered, and what becomes of them."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from time import time
from typing import Annotated, Literal

import typer
from temporalio.client import WorkflowExecutionStatus

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.render import aligned, duration, printable, send_command, short
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.undelivered import ThreadUndelivered, read_undelivered
from wakeful.client.wake import describe
from wakeful.contract.errors import CallerError, NoAnswer
from wakeful.contract.mail import UndeliveredMessage

A_MOMENT = 1.0
FIRST_WORDS = 60


def undelivered(
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="Whose. [default: all open threads are asked]")
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Have the thread send them again.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Have the thread forget them.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Messages between agents that could not be delivered."""
    if replay and clear:
        raise CallerError("--replay sends them again and --clear forgets them: choose one")
    if replay or clear:
        if thread is None:
            raise CallerError("say whose letters: wakeful letters THREAD " + ("--replay" if replay else "--clear"))
        action: Literal["replay", "clear"] = "replay" if replay else "clear"
        print(with_client(address, namespace, lambda client: _recover(client, thread, action)))
        return
    found = with_client(address, namespace, lambda client: _found(client, thread))
    if as_json:
        for line in json_lines(found):
            print(line)
    else:
        none = "no dead letters on open threads" if thread is None else f"thread {thread} has no dead letters"
        print("\n".join(undelivered_lines(found, now=int(time() * 1000))) or none)


def json_lines(found: Sequence[ThreadUndelivered]) -> list[str]:
    """One letter a line, and a line for each thread that could not be asked."""
    single = [
        each.model_copy(update={"letters": (dead,)}) if dead else each
        for each in found
        for dead in (each.undelivered or ((None,) if each.unknown else ()))
    ]
    return [each.model_dump_json() for each in single]


def undelivered_lines(found: Sequence[ThreadUndelivered], *, now: int) -> list[str]:
    """A table of the letters of each thread, and the commands under it."""
    lines: list[str] = []
    for each in found:
        if each.unknown is not None:
            lines.append(f"thread {printable(each.thread_id)} could not be asked: {printable(each.unknown)}")
        if not each.undelivered:
            continue
        rows = [("AGE", "MESSAGE", "TO", "ERROR", "TEXT"), *(_row(dead, now) for dead in each.undelivered)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines.append(f"thread {printable(each.thread_id)}")
        lines += [f"  {aligned(row, widths)}" for row in rows]
        lines += [f"      {command}" for command in _commands(each.thread_id)]
    return lines


def _row(dead: UndeliveredMessage, now: int) -> tuple[str, str, str, str, str]:
    letter = dead.message
    agent = f" ({letter.recipient_agent_id})" if letter.recipient_agent_id else ""
    age = duration(max(0, now - dead.at) / 1000) if dead.at else "?"
    words = printable(letter.content)
    shown = words if len(words) <= FIRST_WORDS else words[: FIRST_WORDS - 1] + "…"
    return age, printable(letter.message_id), printable(letter.recipient_thread_id + agent), short(dead.error), shown


def _commands(thread_id: str) -> list[str]:
    end_of_options = ["--"] if thread_id.startswith("-") else []
    return [shlex.join(["wakeful", "letters", flag, *end_of_options, thread_id]) for flag in ("--replay", "--clear")]


async def _found(client: Client, thread: str | None) -> list[ThreadUndelivered]:
    if thread is not None:
        return [ThreadUndelivered(thread_id=thread, undelivered=await client.undelivered(thread))]
    said: list[asyncio.TimerHandle] = []

    def asking(number: int) -> None:
        loop = asyncio.get_running_loop()
        said.append(loop.call_later(A_MOMENT, print_asking, number))

    try:
        return await read_undelivered(client.temporal, on_listed=asking)
    finally:
        for timer in said:
            timer.cancel()


def print_asking(number: int) -> None:
    print(f"asking {number} open thread{'' if number == 1 else 's'} …", file=sys.stderr, flush=True)


async def _recover(client: Client, thread: str, action: Literal["replay", "clear"]) -> str:
    try:
        number = len((await client.status(thread, within=QUERY_TIMEOUT)).undelivered)
    except NoAnswer as error:
        await _tell(client, thread, action)
        return f"sent: {action} waits in the thread's history: {error}"
    if not number:
        return f"thread {thread} has no dead letters"
    await _tell(client, thread, action)
    counted = f"{number} dead letter{'' if number == 1 else 's'}"
    done = "is sending" if action == "replay" else "forgets"
    return f"thread {thread} {done} {counted}{' again' if action == 'replay' else ''}"


async def _tell(client: Client, thread: str, action: Literal["replay", "clear"]) -> None:
    described = await describe(client.temporal, thread)
    if described is not None and described.status is not WorkflowExecutionStatus.RUNNING:
        raise CallerError(f"thread {thread!r} is closed: wake it first with `{send_command(thread)}`")
    await client.recover_undelivered(thread, action)
