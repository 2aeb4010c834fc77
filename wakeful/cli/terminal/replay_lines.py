"""Replayed histories as lines for a terminal."""

from collections import Counter

from wakeful.cli.terminal.text import counted, printable
from wakeful.history.replay import Replayed

_WAKES = {
    "whole": "needs nothing",
    "archived": "needs nothing: the thread archived its conversation and state when it closed",
    "conversation": "continues with the conversation only, unless a worker of the release that ran it answers",
}


def replayed_lines(replayed: Replayed) -> list[str]:
    """The outcome of one history."""
    name = printable(replayed.source)
    if replayed.unread is not None:
        return [f"? {name}: {printable(replayed.unread)}"]
    line = f"{'✗' if replayed.broke else '✓'} {name}  {replayed.workflow_type}, {counted(replayed.events, 'event')}"
    if replayed.broke is None:
        return [f"{line}, closed: a wake needs nothing" if replayed.wake else line]
    broke = replayed.broke
    return [
        f"{line}: breaks at event {broke.event_id}, {broke.event_type}",
        f"    history  {printable(broke.history)}",
        f"    code     {printable(broke.code)}",
        f"    {printable(broke.message)}",
        *([f"    wake     {_WAKES[replayed.wake]}"] if replayed.wake else []),
    ]


def replay_summary(outcomes: Counter[str]) -> str:
    """All outcomes on one line."""
    words = {"ok": "replay", "broken": "broken", "unread": "could not be read"}
    parts = ", ".join(f"{outcomes[each]} {word}" for each, word in words.items() if outcomes[each])
    return f"{outcomes.total()} histor{'y' if outcomes.total() == 1 else 'ies'}: {parts}"
