"""What the commands print that change or list what waits in a thread, and its permission rules."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from wakeful.cli.terminal.text import aligned, printable, shell_command, short
from wakeful.contract.errors import NoAnswer
from wakeful.contract.views import PermissionsView, QueuedMessage, RuleScope

if TYPE_CHECKING:
    from wakeful.client.changes import Changed


async def change_lines(verb: str, changing: Awaitable[Changed | None]) -> list[str]:
    """What became of a change, which is confirmed: a line for each message or rule.

    Raises:
        ChangeRefused: nothing has changed.
    """
    try:
        changed = await changing
    except NoAnswer as error:
        return [f"sent: {error}"]
    if changed is None:
        return ["sent"]
    refused = [f"not {verb} {printable(name)}, because {printable(reason)}" for name, reason in changed.refused.items()]
    return [*(f"{verb} {printable(name)}" for name in changed.applied), *refused]


def queued_lines(thread_id: str, queued: Sequence[QueuedMessage]) -> list[str]:
    """A table of what no run has read, and the commands that change it."""
    if not queued:
        return [f"thread {printable(thread_id)}: no message waits"]
    lines = _table([("MESSAGE", "WAITS FOR", "TEXT"), *map(_queued_row, queued)])
    own = next((each.message.id for each in queued if not each.mail), None)
    if own is None:
        return lines
    withdraw, edit = (shell_command(command, ids=[thread_id, own]) for command in ("withdraw", "edit"))
    return [*lines, f"    {withdraw}", f"    {edit} TEXT"]


_WAITS_FOR = {"queued": "the next run", "steering": "the next step", "unread": "the thread to be woken"}


def _queued_row(each: QueuedMessage) -> tuple[str, str, str]:
    waits_for = f"{_WAITS_FOR[each.status.value]}{' (mail)' if each.mail else ''}"
    return printable(each.message.id), waits_for, short(each.message.text)


def permission_lines(thread_id: str, view: PermissionsView) -> list[str]:
    """A table of the rules, and the command that revokes those of the thread."""
    rows = [
        ("RULE", "BEHAVIOR", "OF"),
        *((printable(each.rule.tool), each.rule.behavior.value, f"the {each.scope.value}") for each in view.rules),
        ("(any other call)", view.default_behavior.value, "the agent"),
    ]
    own = [each.rule.tool for each in view.rules if each.scope is RuleScope.THREAD]
    return [*_table(rows), *(f"    {shell_command('revoke', ids=[thread_id, tool])}" for tool in own[:1])]


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return [aligned(row, widths) for row in rows]
