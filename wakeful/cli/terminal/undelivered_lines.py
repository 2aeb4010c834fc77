"""Undelivered messages as lines for a terminal, and as JSON for programs."""

from collections.abc import Sequence

from wakeful.cli.terminal.text import aligned, duration, printable, shell_command, short
from wakeful.client.undelivered import ThreadUndelivered
from wakeful.contract.mail import UndeliveredMessage

MOST_CHARACTERS = 60
"""Of a message's text."""


def undelivered_lines(found: Sequence[ThreadUndelivered], *, now: int) -> list[str]:
    """A table for each thread, and the commands under it."""
    lines: list[str] = []
    for each in found:
        if each.unknown is not None:
            lines.append(f"thread {printable(each.thread_id)} does not answer: {printable(each.unknown)}")
        if not each.undelivered:
            continue
        rows = [("AGE", "MESSAGE", "TO", "ERROR", "TEXT"), *(_row(entry, now) for entry in each.undelivered)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines.append(f"thread {printable(each.thread_id)}")
        lines += [f"  {aligned(row, widths)}" for row in rows]
        lines += [
            f"      {shell_command('undelivered', flag, ids=[each.thread_id])}" for flag in ("--replay", "--clear")
        ]
    return lines


def undelivered_json(found: Sequence[ThreadUndelivered]) -> list[str]:
    """A message per line, and a line for each thread that does not answer."""
    single = [
        each.model_copy(update={"undelivered": (entry,)}) if entry else each
        for each in found
        for entry in (each.undelivered or ((None,) if each.unknown else ()))
    ]
    return [each.model_dump_json() for each in single]


def _row(entry: UndeliveredMessage, now: int) -> tuple[str, str, str, str, str]:
    message = entry.message
    agent = f" ({message.recipient_agent_id})" if message.recipient_agent_id else ""
    age = duration(max(0, now - entry.at) / 1000) if entry.at else "?"
    text = printable(message.content)
    shown = text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
    return age, printable(message.message_id), printable(message.recipient_thread_id + agent), short(entry.error), shown
