"""A tree of threads as lines for a terminal: a line per node, and the commands that answer pending decisions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from wakeful.cli.terminal.colours import BLUE, CYAN, GREEN, MAGENTA, RED, YELLOW, Colours
from wakeful.cli.terminal.decision_lines import timed_decision_text
from wakeful.cli.terminal.result_lines import budget_text
from wakeful.cli.terminal.text import approve_command, counted, duration, printable, short
from wakeful.client.tree import NodeKind, RemoteTask, TreeNode
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import DecidedCall

SHOWN_DECISIONS = 3
"""Of a node: the newest."""


@dataclass(frozen=True)
class TreeRow:
    """The parts of a node's line, and the lines under it."""

    branch: str
    badge: str
    colour: str
    name: str
    numbers: tuple[str, str, str]
    activity: str
    under: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.branch) + len(self.badge) + len(self.name) + 2

    def line(self, left: int, widths: tuple[int, ...], colours: Colours) -> str:
        badge = colours.painted(self.badge, self.colour)
        cells = [f"{self.branch}{badge}  {self.name}{' ' * (left - self.width)}"]
        cells += [cell.rjust(width) for cell, width in zip(self.numbers, widths, strict=True) if width]
        return "  ".join([*cells, self.activity]).rstrip()


def tree_lines(tree: TreeNode, *, now: int, ids: bool = False, colours: bool = False) -> list[str]:
    """The tree with box characters, and the totals in a last line.

    Args:
        now: milliseconds since 1970.
        ids: print the thread of every node, too.
    """
    paint = Colours(on=colours)
    rows = list(_rows(tree, "", "", now, ids=ids))
    left = max(row.width for row in rows)
    widths = tuple(max(len(row.numbers[column]) for row in rows) for column in range(3))
    lines: list[str] = []
    for row in rows:
        lines.append(row.line(left, widths, paint))
        lines += [paint.dim(line) for line in row.under]
    return [*lines, _totals(tree)]


def _rows(node: TreeNode, branch: str, trunk: str, now: int, *, ids: bool) -> Iterator[TreeRow]:
    """`branch` leads to the node's own line, `trunk` past the lines under it."""
    badge, colour = _badge(node)
    margin = trunk + ("│  " if node.children else "   ")
    under = [printable(node.thread_id)] if ids and node.thread_id else []
    under += [approve_command(ticket) for ticket in node.pending]
    under += [_decided(each) for each in node.decisions[-SHOWN_DECISIONS:]]
    yield TreeRow(
        branch=branch,
        badge=badge,
        colour=colour,
        name=_name(node),
        numbers=_numbers(node),
        activity=_activity(node, now),
        under=tuple(f"{margin}   {line}" for line in under),
    )
    for child in node.children:
        last = child is node.children[-1]
        branches, passes = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _rows(child, trunk + branches, trunk + passes, now, ids=ids)


def _badge(node: TreeNode) -> tuple[str, str]:
    """The status as a symbol and a word, and their colour."""
    if node.unknown is not None:
        return f"? {node.status.value}", MAGENTA
    match node.status:
        case RunStatus.CREATED:
            return "· starting", BLUE
        case RunStatus.RUNNING:
            return "▶ running", CYAN
        case RunStatus.WAITING:
            return "‖ waiting", YELLOW
        case RunStatus.DONE if _ended_well(node):
            return "✓ done", GREEN
        case RunStatus.DONE:
            return f"✗ {printable(node.reason.partition(':')[0])}", RED


def _ended_well(node: TreeNode) -> bool:
    return node.reason in ("", "natural", "behavior_requested")


def _name(node: TreeNode) -> str:
    agent = node.agent_id or ("tool" if node.kind is NodeKind.TOOL else "?")
    named = f" ({node.name})" if node.name else ""
    return printable(f"{agent} · {node.task_id}{named}" if node.task_id else f"{agent}{named}")


def _numbers(node: TreeNode) -> tuple[str, str, str]:
    if node.kind is NodeKind.TOOL or (node.unknown is not None and not node.steps):
        return "", "", ""
    cost = "" if node.cost is None else f"cost {node.cost:.4f}"
    return counted(node.steps, "step"), counted(node.tokens, "token"), cost


def _activity(node: TreeNode, now: int) -> str:
    """What the node waits for, what it does, or how it ended."""
    if node.unknown is not None:
        return short(node.unknown)
    if node.status is RunStatus.DONE:
        return "" if _ended_well(node) else short(node.reason.partition(":")[2])
    if node.remote is not None and node.remote.task_id is not None:
        return _remote_task(node.remote, now)
    if not node.waiting_for:
        return short(node.doing)
    waiting_for = node.waiting_for
    for ticket in node.pending:  # the command under the line names it
        waiting_for = waiting_for.replace(f" ({ticket})", "")
    waited = "" if node.since is None else f", for {duration(max(0, now - node.since) / 1000)}"
    return short(f"waits for {waiting_for}{waited}")


def _decided(decided: DecidedCall) -> str:
    return f"{short(decided.tool_name)} ({decided.call_id}) {timed_decision_text(decided.decision)}"


def _remote_task(task: RemoteTask, now: int) -> str:
    state = task.state.value if task.state else "unknown"
    lasting = "" if task.since is None else f" for {duration(max(0, now - task.since) / 1000)}"
    asks = "" if task.next_poll is None else f"; asks again in {duration(max(0, task.next_poll - now) / 1000)}"
    return short(f"remote task {task.task_id} at {task.service}: {state}{lasting}{asks}")


def _totals(tree: TreeNode) -> str:
    nodes = list(tree.walk())
    states = Counter(_badge(node)[0].partition(" ")[2] for node in nodes)
    costs = [node.cost for node in nodes if node.cost is not None]
    parts = [
        f"{len(nodes)} in all: " + ", ".join(f"{number} {state}" for state, number in states.items()),
        counted(sum(node.steps for node in nodes), "step"),
        counted(sum(node.tokens for node in nodes), "token"),
    ]
    if costs:
        parts.append(f"cost {sum(costs):.4f}")
    if tree.budget is not None:
        parts.append(f"budget: {budget_text(tree.spent, tree.budget)}")
    return " · ".join(parts)
