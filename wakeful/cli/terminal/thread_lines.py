"""Threads as lines for a terminal."""

from collections.abc import Sequence
from time import time

from wakeful.cli.terminal.text import aligned, compact, counted, duration, printable, short
from wakeful.client.threads import ThreadSummary


def thread_lines(threads: Sequence[ThreadSummary]) -> list[str]:
    """A table of threads, with the last line of each under its row, if it is known."""
    now = time()
    rows = [("STATUS", "STARTED", "AGENT", "THREAD", "TITLE"), *(_row(thread, now) for thread in threads)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [aligned(rows[0], widths)]
    for thread, row in zip(threads, rows[1:], strict=True):
        lines += [aligned(row, widths), *(f"      {line}" for line in _lines_under(thread))]
    return lines


def _row(thread: ThreadSummary, now: float) -> tuple[str, str, str, str, str]:
    age = f"{duration(max(0.0, now - thread.started_at / 1000))} ago"
    return _status(thread), age, printable(thread.agent_id) or "?", printable(thread.thread_id), short(thread.title)


def _status(thread: ThreadSummary) -> str:
    """In one or two words: what the newest run is doing, or how it ended; and whether the thread is closed."""
    if thread.outcome is not None and thread.outcome != "natural":
        word = thread.outcome if thread.reason in (None, thread.outcome) else f"{thread.outcome}:{thread.reason}"
    else:
        word = thread.status.value if thread.status is not None else "?"
    if thread.closed_as in (None, "completed"):
        return printable(word) if thread.closed_as is None else f"{printable(word)}, closed"
    return thread.closed_as or ""


def _lines_under(thread: ThreadSummary) -> list[str]:
    owners = [
        f"{label} {printable(name)}" for label, name in (("tenant", thread.tenant), ("user", thread.user)) if name
    ]
    others = [printable(name) for name in thread.users if name != thread.user]
    owners += [f"also {', '.join(others)}"] if others else []
    waits = [f"waits for {counted(len(thread.pending), 'decision')}"] if thread.pending else []
    runs = [counted(thread.runs, "run")] if thread.runs is not None else []
    metadata = [short(compact(thread.metadata))] if thread.metadata else []
    about = " · ".join([*runs, *waits, *owners, *metadata])
    last = short(thread.last_line or thread.unknown or "")
    return [line for line in (about, last) if line]
