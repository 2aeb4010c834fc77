"""`wakeful rewind`: undo what a thread has done after one of its steps, after saying what that is."""

import sys
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.session import with_client
from wakeful.cli.terminal.render import printable
from wakeful.client.branching.rewind import RewindPlan, Rewound, plan_rewind
from wakeful.client.branching.rewind import rewind as perform
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError

STAYS = "What tools have done outside stays done."


def rewind(
    thread: options.ThreadArgument,
    to: Annotated[int, typer.Option(metavar="STEP", help="The last step that is kept; 0 keeps none.")],
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Undo everything after a step of a thread; the model is asked again from there."""

    async def go(client: Client) -> Rewound | None:
        plan = await plan_rewind(client.temporal, thread, to=to)
        if not yes:
            print("\n".join(plan_lines(plan)), file=sys.stderr, flush=True)
            if not sys.stdin.isatty():
                raise CallerError("nothing is undone: where nobody can be asked, say --yes")
            if not typer.confirm("Rewind?", err=True):
                return None
        return await perform(client.temporal, plan, reason=reason)

    rewound = with_client(address, namespace, go)
    if rewound is None:
        print("nothing is undone", file=sys.stderr)
        raise typer.Exit(1)
    print(rewound.model_dump_json() if as_json else "\n".join(rewound_lines(rewound)))


def plan_lines(plan: RewindPlan) -> list[str]:
    """What will be undone, before it is."""
    messages = _counted(plan.messages, "message")
    lines = [f"thread {printable(plan.thread_id)} goes back to {_place(plan.step)}"]
    if plan.undone:
        first, last = plan.undone[0].number, plan.undone[-1].number
        lines.append(f"  undone     {f'step {first}' if first == last else f'steps {first} to {last}'}, {messages}")
    else:
        lines.append(f"  undone     {messages}, and what was asked since")
    lines += [f"  cancelled  {printable(child)}" for child in plan.children]
    return [*lines, STAYS]


def rewound_lines(rewound: Rewound) -> list[str]:
    """What was undone."""
    undone = f"{_counted(rewound.undone, 'step')} undone"
    lines = [f"thread {printable(rewound.thread_id)} is back at {_place(rewound.step)}: {undone}"]
    lines += [f"  cancelled  {printable(child)}" for child in rewound.cancelled]
    if rewound.resent:
        lines.append(f"  told again {_counted(rewound.resent, 'message')} from other threads")
    return lines


def _place(step: int) -> str:
    return f"the end of step {step}" if step else "its first question to the model"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
