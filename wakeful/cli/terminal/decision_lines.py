"""Decisions that were made, as lines for a terminal: who decided what, when, by which way, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime

from wakeful.cli.terminal.text import aligned, compact, printable, short, short_call
from wakeful.client.thread_runs import DecisionRecord
from wakeful.contract.applied_decisions import AppliedDecision, DecisionAction, DecisionChannel

_CHANNELS = {
    DecisionChannel.CLI: "CLI",
    DecisionChannel.CLIENT: "client",
    DecisionChannel.WORKFLOW: "workflow",
    DecisionChannel.SIGNAL: "signal",
    DecisionChannel.A2A: "A2A",
    DecisionChannel.MCP: "MCP",
}


def decision_mark(decision: AppliedDecision) -> str:
    return "✓" if decision.action is DecisionAction.RESUME else "✗"


def decision_text(decision: AppliedDecision) -> str:
    """The decision without its time: `approved by ann@desk (CLI), with amount=5: the customer called`."""
    verb = "approved" if decision.action is DecisionAction.RESUME else "denied"
    parts = [f"{verb} {_by(decision)}"]
    if decision.arguments is not None:
        parts.append(f"with other arguments: {short(compact(decision.arguments))}")
    if decision.always:
        parts.append(f"and always from then on ({printable(decision.rule or '')})")
    text = ", ".join(parts)
    return f"{text}: {short(decision.reason)}" if decision.reason else text


def timed_decision_text(decision: AppliedDecision) -> str:
    return f"{decided_at(decision)}  {decision_text(decision)}"


def decided_at(decision: AppliedDecision) -> str:
    return f"{datetime.fromtimestamp(decision.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def decision_lines(records: Sequence[DecisionRecord]) -> list[str]:
    """A table of decisions, with the call of each under its row."""
    rows = [("TIME", "TICKET", "DECISION"), *(_row(record) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [aligned(rows[0], widths)]
    for record, row in zip(records, rows[1:], strict=True):
        acts_for = f" for {record.user}" if record.user is not None else ""
        about = short_call(record.tool_name, record.arguments) if record.tool_name else ""
        lines += [aligned(row, widths)]
        lines += [f"      {printable(f'{record.agent_id}{acts_for}')}: {about}"] if about else []
    return lines


def _row(record: DecisionRecord) -> tuple[str, str, str]:
    ticket = printable(f"{record.thread_id}/{record.call_id}" if record.call_id else record.thread_id)
    if record.decision is None:
        return "?", ticket, printable(record.unknown or "")
    return decided_at(record.decision), ticket, decision_text(record.decision)


def _by(decision: AppliedDecision) -> str:
    match decision.channel:
        case DecisionChannel.DEADLINE:
            return "by its deadline"
        case DecisionChannel.RULE:
            return f"by rule {printable(decision.rule or '')}"
        case None:
            return f"by {printable(decision.actor or 'an unknown sender')}"
        case channel:
            return f"by {printable(decision.actor or 'an unknown sender')} ({_CHANNELS[channel]})"
