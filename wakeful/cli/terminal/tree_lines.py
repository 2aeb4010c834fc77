"""How a tree of agents reads in a terminal: a line a node, and the commands that answer what waits."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from wakeful.cli.terminal.render import answer_commands, duration, printable, short
from wakeful.cli.terminal.task_lines import budget_words
from wakeful.client.tree import NodeKind, TreeNode
from wakeful.contract.runs import RunStatus


@dataclass(frozen=True)
class Row:
    """A node's line in its parts, and what stands under it."""

    branch: str
    badge: str
    colour: str
    who: str
    numbers: tuple[str, str, str]
    says: str
    under: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.branch) + len(self.badge) + len(self.who) + 2

    def line(self, left: int, widths: tuple[int, ...], *, colours: bool) -> str:
        badge = typer.style(self.badge, fg=self.colour) if colours else self.badge
        cells = [f"{self.branch}{badge}  {self.who}{' ' * (left - self.width)}"]
        cells += [cell.rjust(width) for cell, width in zip(self.numbers, widths, strict=True) if width]
        return "  ".join([*cells, self.says]).rstrip()


def tree_lines(tree: TreeNode, *, now: int, ids: bool = False, colours: bool = False) -> list[str]:
    """The tree with box characters, and the sums in a last line.

    Args:
        now: milliseconds since 1970.
        ids: also the thread of every node.
    """
    rows = list(_rows(tree, "", "", now, ids=ids))
    left = max(row.width for row in rows)
    widths = tuple(max(len(row.numbers[column]) for row in rows) for column in range(3))
    lines: list[str] = []
    for row in rows:
        lines.append(row.line(left, widths, colours=colours))
        lines += [typer.style(line, dim=True) if colours else line for line in row.under]
    return [*lines, *_sums(tree)]


def _rows(node: TreeNode, branch: str, trunk: str, now: int, *, ids: bool) -> Iterator[Row]:
    """`branch` leads to the node's own line, `trunk` past the lines under it."""
    badge, colour = _badge(node)
    below = trunk + ("│  " if node.children else "   ")
    under = [printable(node.thread_id)] if ids and node.thread_id else []
    under += [answer_commands(ticket)[0] for ticket in node.pending]
    yield Row(
        branch=branch,
        badge=badge,
        colour=colour,
        who=_who(node),
        numbers=_numbers(node),
        says=_says(node, now),
        under=tuple(f"{below}   {line}" for line in under),
    )
    for child in node.children:
        last = child is node.children[-1]
        turns, past = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _rows(child, trunk + turns, trunk + past, now, ids=ids)


def _badge(node: TreeNode) -> tuple[str, str]:
    """A symbol and a word, and their colour."""
    if node.unknown is not None:
        return f"? {node.status.value}", typer.colors.MAGENTA
    match node.status:
        case RunStatus.CREATED:
            return "· starting", typer.colors.BLUE
        case RunStatus.RUNNING:
            return "▶ running", typer.colors.CYAN
        case RunStatus.WAITING:
            return "‖ waiting", typer.colors.YELLOW
        case RunStatus.DONE if _ended_well(node):
            return "✓ done", typer.colors.GREEN
        case RunStatus.DONE:
            return f"✗ {printable(node.reason.partition(':')[0])}", typer.colors.RED


def _ended_well(node: TreeNode) -> bool:
    return node.reason in ("", "natural", "behavior_requested")


def _who(node: TreeNode) -> str:
    agent = node.agent_id or ("tool" if node.kind is NodeKind.TOOL else "?")
    named = f" ({node.name})" if node.name else ""
    return printable(f"{agent} · {node.task_id}{named}" if node.task_id else f"{agent}{named}")


def _numbers(node: TreeNode) -> tuple[str, str, str]:
    if node.kind is NodeKind.TOOL or (node.unknown is not None and not node.steps):
        return "", "", ""
    cost = "" if node.cost is None else f"cost {node.cost:.4f}"
    return _counted(node.steps, "step"), _counted(node.tokens, "token"), cost


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _says(node: TreeNode, now: int) -> str:
    """What it waits for, what it does, or how it ended."""
    if node.unknown is not None:
        return short(node.unknown)
    if node.status is RunStatus.DONE:
        return "" if _ended_well(node) else short(node.reason.partition(":")[2])
    if not node.waiting_for:
        return short(node.doing)
    waits_for = node.waiting_for
    for ticket in node.pending:  # it stands under the line, in the command that answers it
        waits_for = waits_for.replace(f" ({ticket})", "")
    waited = "" if node.since is None else f", for {duration(max(0, now - node.since) / 1000)}"
    return short(f"waits for {waits_for}{waited}")


def _sums(tree: TreeNode) -> list[str]:
    nodes = list(tree.walk())
    states = Counter(_badge(node)[0].partition(" ")[2] for node in nodes)
    costs = [node.cost for node in nodes if node.cost is not None]
    parts = [
        f"{len(nodes)} in all: " + ", ".join(f"{number} {state}" for state, number in states.items()),
        _counted(sum(node.steps for node in nodes), "step"),
        _counted(sum(node.tokens for node in nodes), "token"),
    ]
    if costs:
        parts.append(f"cost {sum(costs):.4f}")
    if tree.budget is not None:
        parts.append(f"budget: {budget_words(tree.spent, tree.budget)}")
    return [" · ".join(parts)]
