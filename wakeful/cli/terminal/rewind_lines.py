"""A rewind as lines for a terminal: what it will undo, and what it has undone."""

from wakeful.cli.terminal.text import counted, printable
from wakeful.client.branching.rewind import RewindPlan, Rewound

SIDE_EFFECTS = "The side effects of tools are not undone."


def plan_lines(plan: RewindPlan) -> list[str]:
    """What a rewind will undo."""
    messages = counted(plan.messages, "message")
    lines = [f"thread {printable(plan.thread_id)} goes back to {_position(plan.step)}"]
    if plan.undone:
        first, last = plan.undone[0].number, plan.undone[-1].number
        lines.append(f"  undone     {f'step {first}' if first == last else f'steps {first} to {last}'}, {messages}")
    else:
        lines.append(f"  undone     {messages}, and the model call under way")
    lines += [f"  cancelled  {printable(child)}" for child in plan.children]
    return [*lines, SIDE_EFFECTS]


def rewound_lines(rewound: Rewound) -> list[str]:
    """What a rewind has undone."""
    undone = f"{counted(rewound.undone, 'step')} undone"
    lines = [f"thread {printable(rewound.thread_id)} is back at {_position(rewound.step)}: {undone}"]
    lines += [f"  cancelled  {printable(child)}" for child in rewound.cancelled]
    if rewound.resent:
        lines.append(f"  sent again {counted(rewound.resent, 'message')} from other threads")
    return lines


def _position(step: int) -> str:
    return f"the end of step {step}" if step else "its first model call"
