"""Options that several commands share."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wakeful.cli import completion
from wakeful.connection import Address
from wakeful.contract.names import DEFAULT_TASK_QUEUE
from wakeful.registry.registry import Registry
from wakeful.registry.reloading import Refused, ReloadOutcome, describe_outcome
from wakeful.worker import load_registry

AddressOption = Annotated[
    str | None, typer.Option("--address", help="Temporal's host:port. [default: TEMPORAL_ADDRESS or localhost:7233]")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Temporal namespace. [default: TEMPORAL_NAMESPACE or default]")
]
TaskQueueOption = Annotated[str, typer.Option("--task-queue", help="Task queue that the workers listen on.")]
AppOption = Annotated[
    str | None,
    typer.Option("--app", help="Your registry as module:registry or path/to/file.py:registry. [default: the demo]"),
]
AgentsOption = Annotated[
    list[Path] | None,
    typer.Option("--agents", metavar="PATH", help="A directory or file with agents in TOML or YAML; may be repeated."),
]
ThreadArgument = Annotated[
    str,
    typer.Argument(
        metavar="THREAD", help="The thread's id, which is its workflow's.", autocompletion=completion.threads_like
    ),
]
AgentArgument = Annotated[
    str, typer.Argument(metavar="AGENT", help="The agent's id.", autocompletion=completion.agents_like)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one value a line, for programs.")]
BudgetTokens = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Stop the run, with everything it starts, when so many tokens are spent."),
]
BudgetCost = Annotated[
    float | None, typer.Option(min=0, metavar="X", help="The same for money, by the prices that the registry knows.")
]
BudgetTurns = Annotated[int | None, typer.Option(min=0, metavar="N", help="The same for calls of models.")]
BudgetToolCalls = Annotated[int | None, typer.Option(min=0, metavar="N", help="The same for calls of tools.")]
BudgetSeconds = Annotated[
    float | None, typer.Option(min=0, metavar="S", help="The same for time on the wall, waiting included.")
]

TASK_QUEUE = DEFAULT_TASK_QUEUE
DEMO_APP = "wakeful.cli.demo_app:registry"


def registry_of(app: str | None, agents: Sequence[Path] | None) -> Registry:
    """Of the code and the files that were named; the demo's if none were."""
    return load_registry(DEMO_APP if is_demo(app, agents) else app or None, agent_files=agents or ())


def is_demo(app: str | None, agents: Sequence[Path] | None) -> bool:
    """Whether the demo's agents are served, and nobody else's."""
    return app == DEMO_APP or not (app or agents)


def tell_reload(outcome: ReloadOutcome) -> None:
    print(describe_outcome(outcome), file=sys.stderr if isinstance(outcome, Refused) else sys.stdout, flush=True)


def where(address: str | None, namespace: str | None) -> Address:
    return Address(address=address, namespace=namespace)
