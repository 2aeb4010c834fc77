"""`wakeful diff`: two threads side by side, from where they part."""

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Annotated

import typer

from wakeful.cli import completion, options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.colours import Colours, colours_of
from wakeful.cli.terminal.render import ended_as, message_lines, readable
from wakeful.cli.terminal.screen import width
from wakeful.client.branching.steps import Comparison, compare
from wakeful.client.client import Client
from wakeful.contract.base import Wire
from wakeful.contract.messages import Message, Role
from wakeful.contract.views import StatusView

COLUMNS = 100
"""Where nobody says how wide it may be."""

BETWEEN = " │ "
NARROWEST = 20
"""Columns of a side, in however small a window."""


class Side(Wire):
    """A thread that is compared."""

    thread_id: str
    steps: int
    """In all, those included that it has from the thread it was forked from."""
    status: StatusView


class Difference(Wire):
    """What `wakeful diff --json` prints."""

    a: Side
    b: Side
    compared: Comparison


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A thread's id.", autocompletion=completion.threads_like)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another's.", autocompletion=completion.threads_like)],
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Two threads side by side: how far they are the same, then step by step, and what each came to."""

    async def go(client: Client) -> Difference:
        said_a, said_b, view_a, view_b = await asyncio.gather(
            client.transcript(a), client.transcript(b), client.status(a), client.status(b)
        )
        compared = compare(said_a, said_b)
        side_a = Side(thread_id=a, steps=compared.steps_a, status=view_a)
        side_b = Side(thread_id=b, steps=compared.steps_b, status=view_b)
        return Difference(a=side_a, b=side_b, compared=compared)

    found = with_client(address, namespace, go)
    if as_json:
        print(found.model_dump_json())
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else COLUMNS
    for line in diff_lines(found, columns=columns, colours=colours_of(sys.stdout)):
        print(line)


def diff_lines(found: Difference, *, columns: int, colours: Colours) -> list[str]:
    """The difference as a person reads it, in so many columns."""
    half = max(NARROWEST, (columns - len(BETWEEN)) // 2)
    compared = found.compared
    lines = [_same(compared), ""]
    lines += _beside([found.a.thread_id], [found.b.thread_id], half)
    for pair in compared.pairs:
        lines.append(colours.dim(_rule(_name(pair.step, compared), half)))
        for part in (_before_answer, _from_answer):
            lines += _beside(_said(part(pair.a)), _said(part(pair.b)), half)
    lines.append(colours.dim(_rule("in all", half)))
    return lines + _beside(_totals(found.a), _totals(found.b), half)


def _same(compared: Comparison) -> str:
    messages = f"{compared.same_messages} message{'' if compared.same_messages == 1 else 's'}"
    if not compared.pairs:
        return f"the same from beginning to end ({compared.same_steps} steps, {messages})"
    if compared.same_messages == 0:
        return "not the same from the beginning"
    if compared.same_steps == 0:
        return f"the same before the first step ({messages})"
    return f"the same up to step {compared.same_steps} ({messages})"


def _name(step: int, compared: Comparison) -> str:
    is_answered = step <= max(compared.steps_a, compared.steps_b)
    return f"step {step}" if is_answered else "not answered yet"


def _rule(name: str, half: int) -> str:
    left = f"─ {name} "
    return f"{left}{'─' * (half - len(left))}─┼─{'─' * half}"


def _before_answer(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role is not Role.ASSISTANT, messages))


def _from_answer(messages: Sequence[Message]) -> Sequence[Message]:
    return messages[len(_before_answer(messages)) :]


def _said(messages: Sequence[Message]) -> list[str]:
    return [line for message in messages for line in message_lines(message)]


def _totals(side: Side) -> list[str]:
    view = side.status
    last = " in its last run" if view.runs > 1 else ""
    ended = f"ended    {ended_as(view.result)}" if view.result is not None else f"status   {view.doing}"
    return [f"steps    {side.steps}", f"tokens   {view.usage.total_tokens or 0}{last}", ended]


def _beside(left: Sequence[str], right: Sequence[str], half: int) -> list[str]:
    """Two columns, whose lines are wrapped."""
    columns = (list(_wrapped(left, half)), list(_wrapped(right, half)))
    return [f"{a}{' ' * (half - width(a))}{BETWEEN}{b}".rstrip() for a, b in zip_longest(*columns, fillvalue="")]


def _wrapped(lines: Sequence[str], columns: int) -> Iterator[str]:
    """The lines in pieces that fit; what goes on with a line is indented, and between words where there are any."""
    for part in (part for text in lines for part in readable(text).expandtabs(4).splitlines() or [""]):
        line = part
        while width(line) > columns:
            fits = _fitting(line, columns)
            space = line.rfind(" ", 0, fits + 1)
            end = space if space > columns // 2 else fits
            yield line[:end]
            line = f"  {line[end:].lstrip()}"
        yield line


def _fitting(line: str, columns: int) -> int:
    """How many characters of a line fit; at least one more than it is indented by, so that wrapping gets on."""
    room = columns
    for place, char in enumerate(line):
        room -= width(char)
        if room < 0:
            return max(3, place)
    return len(line)
