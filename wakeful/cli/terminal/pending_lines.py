"""Pending decisions as lines for a terminal: the question, and the commands that answer it."""

from collections.abc import Sequence
from time import time

from wakeful.cli.terminal.text import (
    aligned,
    approve_command,
    deny_command,
    duration,
    printable,
    short_call,
    thread_path,
    whole_command,
)
from wakeful.client.approvals import PendingDecision
from wakeful.client.diagnosis.wording import sent_text
from wakeful.contract.views import Sent


def pending_lines(pending: PendingDecision) -> list[str]:
    """One decision, as `status`, `show` and `run` print it."""
    question = printable(pending.message or pending.action)
    call = f"  {short_call(pending.tool_name, pending.arguments)}"
    if pending.sent is not None:
        state = "needs no decision" if pending.sent.is_cancel else "is decided"
        return [f"{state}: {question}", call, f"  {_sent_line(pending.sent)}"]
    return [
        f"waits for a decision: {question}",
        call,
        f"  approve:  {approve_command(pending.ticket)}",
        f"  deny:     {deny_command(pending.ticket)}",
    ]


def _sent_line(sent: Sent) -> str:
    """What settles a decision is shown in its place."""
    return f"waits for a worker: {printable(sent_text(sent, int(time() * 1000)))}"


def descendant_lines(pending: PendingDecision) -> list[str]:
    """A decision that a sub-agent waits for."""
    where = f"subagent {thread_path(pending.path)}"
    if not pending.call_id:
        return [where, f"  {printable(pending.unknown or '')}"]
    return [where, *pending_lines(pending)]


def inbox_lines(decisions: Sequence[PendingDecision]) -> list[str]:
    """A table of decisions, with the question and the commands under each row."""
    rows = [("AGE", "DEADLINE", "THREAD", "AGENT", "CALL"), *(_row(pending) for pending in decisions)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [aligned(rows[0], widths)]
    for pending, row in zip(decisions, rows[1:], strict=True):
        lines += [aligned(row, widths), *(f"      {line}" for line in _lines_under(pending))]
    return lines


def seconds_left(pending: PendingDecision) -> float | None:
    """Until the decision expires; None if it does not."""
    if pending.expires_at is None or pending.since is None or pending.age is None:
        return None
    return (pending.expires_at - pending.since) / 1000 - pending.age


def _row(pending: PendingDecision) -> tuple[str, str, str, str, str]:
    call = "?" if pending.unknown else short_call(pending.tool_name, pending.arguments)
    age = "?" if pending.age is None else duration(pending.age)
    return age, _deadline(pending), thread_path(pending.path), printable(pending.agent_id) or "?", call


def _deadline(pending: PendingDecision) -> str:
    left = seconds_left(pending)
    if left is None:
        return "-"
    return f"in {duration(left)}" if left > 0 else "now"


def _lines_under(pending: PendingDecision) -> list[str]:
    if not pending.call_id:
        return [printable(pending.unknown or "")]
    question = printable(pending.unknown or pending.message or pending.action)
    if pending.sent is not None:
        return [question, _sent_line(pending.sent)]
    whole = [f"only a part is shown; see all: {whole_command(pending.thread_id)}"] if pending.cut else []
    return [question, *whole, approve_command(pending.ticket), deny_command(pending.ticket)]
