"""The deletion of a thread as lines for a terminal: what it will delete, and what it has deleted."""

from wakeful.cli.terminal.text import counted, printable
from wakeful.client.deletion.delete import DeleteReceipt
from wakeful.client.deletion.find import Belongings

SHOWN_DESCENDANTS = 20


def plan_lines(thread_id: str, found: Belongings, *, profiles: bool) -> list[str]:
    """What a deletion will delete."""
    thread = f"thread {printable(thread_id)}"
    if not found.executions:
        return [f"{thread} does not exist; payloads stored for it will be deleted, if there are any"]
    executions = counted(len(found.executions), "execution")
    is_open = f", {len(found.open)} of them open" if found.open else ""
    lines = [f"{thread} will be deleted: {executions}{is_open}"]
    descendants = [id for id in found.threads if id != thread_id]
    lines += [f"  with       {printable(id)}" for id in descendants[:SHOWN_DESCENDANTS]]
    if len(descendants) > SHOWN_DESCENDANTS:
        lines.append(f"  with       {len(descendants) - SHOWN_DESCENDANTS} more sub-agents and tasks")
    lines += [f"  with       {counted(len(found.archives), 'archive')}"] if found.archives else []
    return [*lines, "  with       payloads stored outside history", *(["  with       profiles"] if profiles else [])]


def receipt_lines(receipt: DeleteReceipt) -> list[str]:
    """What a deletion has deleted, and what not."""
    thread = f"thread {printable(receipt.thread_id)}"
    if not receipt.found:
        return [f"{thread} does not exist: nothing was deleted"]
    counts = [
        counted(receipt.executions, "execution"),
        counted(len(receipt.threads), "thread"),
        counted(len(receipt.archives), "archive"),
        counted(receipt.payloads, "stored payload"),
        counted(receipt.profiles, "profile"),
    ]
    deleted = ", ".join(count for count in counts if not count.startswith("0 "))
    done = "deleted" if not receipt.remaining else "not completely deleted" if deleted else "not deleted"
    lines = [f"{thread} is {done}" + (f": {deleted}" if deleted else "")]
    return lines + [f"  remaining  {printable(each.id)}: {printable(each.reason)}" for each in receipt.remaining]
