"""`wakeful rewind`: undo the last steps of a thread, after asking."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.branching.rewind import Rewound
    from wakeful.client.client import Client


def rewind(
    thread: options.ThreadArgument,
    to: Annotated[int, typer.Option(metavar="STEP", help="The last step to keep, as `wakeful show` counts; 0: none.")],
    reason: options.RecordedReasonOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Undo every step of a thread after a given one.

    The thread then calls the model again. The side effects of tools are not undone.
    """
    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.rewind_lines import plan_lines, rewound_lines
    from wakeful.client.branching.rewind import plan_rewind
    from wakeful.client.branching.rewind import rewind as perform
    from wakeful.contract.errors import CallerError

    async def go(client: Client) -> Rewound | None:
        plan = await plan_rewind(client.reader, thread, to=to)
        if not yes:
            print("\n".join(plan_lines(plan)), file=sys.stderr, flush=True)
            if not sys.stdin.isatty():
                raise CallerError("nothing is undone: without a terminal to ask at, confirm with --yes")
            if not typer.confirm("Rewind?", err=True):
                return None
        return await perform(client.reader, plan, reason=reason)

    rewound = with_client(options.Cluster(address, namespace, client_factory), go)
    if rewound is None:
        print("nothing is undone", file=sys.stderr)
        raise typer.Exit(1)
    print(rewound.model_dump_json() if as_json else "\n".join(rewound_lines(rewound)))
