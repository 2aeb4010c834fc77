"""Text for a terminal: on one line, shortened, aligned; tool calls, numbers, durations and commands.

`guarded_stream.py` shows what could control the terminal as text, whatever prints it.
"""

import json
import shlex
from collections.abc import Sequence

from pydantic import JsonValue

from wakeful.cli.options import reached_cluster
from wakeful.cli.terminal.guarded_stream import escaped, readable

MOST_CHARACTERS = 160
"""Of a text that is shortened to a line."""

CONTINUED = "┆ "
"""What the further lines of a text begin with, so that none looks like a line of ours."""


def printable(text: str) -> str:
    """The text on one line, with every invisible character escaped. A person may decide by it."""
    return escape_invisible(" ".join(text.split()))


def escape_invisible(text: str) -> str:
    """The text with every character escaped that is invisible or looks blank."""
    return "".join(char if _is_visible(char) else escaped(char) for char in text)


def continued(text: str) -> str:
    """The text with its lines, of which the first follows something else on its line."""
    return f"\n{CONTINUED}".join(readable(text).split("\n"))


def short(text: str) -> str:
    """The text on one line, shortened."""
    flat = printable(text)
    return flat if len(flat) <= MOST_CHARACTERS else flat[: MOST_CHARACTERS - 1] + "…"


def short_call(name: str, arguments: JsonValue) -> str:
    """A tool call on one line, shortened."""
    return short(call_text(name, arguments))


def call_text(name: str, arguments: JsonValue) -> str:
    """A tool call with all its arguments."""
    if isinstance(arguments, dict):
        return f"{name}({', '.join(f'{key}={compact(value)}' for key, value in arguments.items())})"
    return f"{name}({'' if arguments is None else compact(arguments)})"


def compact(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def thread_path(path: Sequence[str]) -> str:
    """A thread's ancestors and itself, root first."""
    return " > ".join(printable(thread) for thread in path)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time in its one or two biggest units: `42s`, `3m`, `2h05m`, `6d`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d"


def aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The cells of a table's row; the last cell is not padded."""
    return "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()


def _is_visible(char: str) -> bool:
    return char.isprintable() and char not in _BLANK


_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Unicode calls them letters and symbols, but they show nothing."""


def shell_command(verb: str, *options: str, ids: Sequence[str]) -> str:
    """A `wakeful` command for the same cluster, with its options, then the ids that it is about."""
    end_of_options = ["--"] if any(id.startswith("-") for id in ids) else []
    return shlex.join(["wakeful", verb, *reached_cluster().words, *options, *end_of_options, *ids])


def approve_command(ticket: str) -> str:
    return shell_command("approve", ids=[ticket])


def deny_command(ticket: str) -> str:
    return shell_command("deny", ids=[ticket])


def whole_command(thread_id: str) -> str:
    """Prints the pending decisions of a thread with all their arguments."""
    return shell_command("inbox", "--thread", thread_id, "--json", ids=[])


def send_command(thread_id: str) -> str:
    """The command that sends a message to a thread, up to the message."""
    return f"{shell_command('send', ids=[thread_id])} …"
