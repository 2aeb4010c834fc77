"""Two threads side by side, as lines for a terminal."""

from collections.abc import Iterator, Sequence
from itertools import takewhile, zip_longest

from wakeful.cli.terminal.colours import Colours
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.render import message_lines
from wakeful.cli.terminal.result_lines import ended_as
from wakeful.cli.terminal.screen import display_width
from wakeful.cli.terminal.text import counted
from wakeful.client.branching.steps import Comparison
from wakeful.contract.base import Wire
from wakeful.contract.messages import Message, Role
from wakeful.contract.views import StatusView

SEPARATOR = " │ "
NARROWEST_SIDE = 20
"""Columns, however small the window is."""


class Side(Wire):
    """A thread that is compared."""

    thread_id: str
    steps: int
    """All its steps, with those that it shares with the thread it was forked from."""
    status: StatusView


class Difference(Wire):
    """What `wakeful diff --json` prints."""

    a: Side
    b: Side
    compared: Comparison


def diff_lines(found: Difference, *, columns: int, colours: Colours) -> list[str]:
    """The difference in so many columns."""
    half = max(NARROWEST_SIDE, (columns - len(SEPARATOR)) // 2)
    compared = found.compared
    lines = [_common_part(compared), ""]
    lines += _side_by_side([found.a.thread_id], [found.b.thread_id], half)
    for pair in compared.pairs:
        lines.append(colours.dim(_rule(_title(pair.step, compared), half)))
        for part in (_before_answer, _from_answer):
            lines += _side_by_side(_messages(part(pair.a)), _messages(part(pair.b)), half)
    lines.append(colours.dim(_rule("in all", half)))
    return lines + _side_by_side(_totals(found.a), _totals(found.b), half)


def _common_part(compared: Comparison) -> str:
    messages = counted(compared.same_messages, "message")
    if not compared.pairs:
        return f"the same from beginning to end ({compared.same_steps} steps, {messages})"
    if compared.same_messages == 0:
        return "different from the beginning"
    if compared.same_steps == 0:
        return f"the same before the first step ({messages})"
    return f"the same up to step {compared.same_steps} ({messages})"


def _title(step: int, compared: Comparison) -> str:
    is_answered = step <= max(compared.steps_a, compared.steps_b)
    return f"step {step}" if is_answered else "not answered yet"


def _rule(title: str, half: int) -> str:
    left = f"─ {title} "
    return f"{left}{'─' * (half - len(left))}─┼─{'─' * half}"


def _before_answer(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role is not Role.ASSISTANT, messages))


def _from_answer(messages: Sequence[Message]) -> Sequence[Message]:
    return messages[len(_before_answer(messages)) :]


def _messages(messages: Sequence[Message]) -> list[str]:
    return [line for message in messages for line in message_lines(message)]


def _totals(side: Side) -> list[str]:
    view = side.status
    last = " in its last run" if view.runs > 1 else ""
    ended = f"ended    {ended_as(view.result)}" if view.result is not None else f"status   {view.doing}"
    return [f"steps    {side.steps}", f"tokens   {view.usage.total_tokens or 0}{last}", ended]


def _side_by_side(left: Sequence[str], right: Sequence[str], half: int) -> list[str]:
    """Two columns of wrapped lines."""
    columns = (list(_wrapped(left, half)), list(_wrapped(right, half)))
    return [
        f"{a}{' ' * (half - display_width(a))}{SEPARATOR}{b}".rstrip() for a, b in zip_longest(*columns, fillvalue="")
    ]


def _wrapped(lines: Sequence[str], columns: int) -> Iterator[str]:
    """The lines wrapped to the width, at spaces where possible; continuation lines are indented."""
    for part in (part for text in lines for part in readable(text).expandtabs(4).splitlines() or [""]):
        line = part
        while display_width(line) > columns:
            fits = _fitting(line, columns)
            space = line.rfind(" ", 0, fits + 1)
            end = space if space > columns // 2 else fits
            yield line[:end]
            line = f"  {line[end:].lstrip()}"
        yield line


def _fitting(line: str, columns: int) -> int:
    """How many characters of a line fit; at least one more than its indent, so that wrapping makes progress."""
    room = columns
    for index, char in enumerate(line):
        room -= display_width(char)
        if room < 0:
            return max(3, index)
    return len(line)
