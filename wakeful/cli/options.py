"""Options and arguments that several commands share. It imports only what `--help` needs."""

import contextlib
import functools
import inspect
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wakeful.cli import completion
from wakeful.contract.names import DEFAULT_TASK_QUEUE

TASK_QUEUE = DEFAULT_TASK_QUEUE
DEMO_APP = "wakeful.cli.demo_app:registry"


@dataclass(frozen=True)
class Cluster:
    """What the options of a command say about how to reach Temporal."""

    address: str | None = None
    namespace: str | None = None
    client_factory: str | None = None

    @property
    def words(self) -> list[str]:
        """The same options, for another command: without those that the environment has, too."""
        named = (
            ("--address", self.address, "TEMPORAL_ADDRESS"),
            ("--namespace", self.namespace, "TEMPORAL_NAMESPACE"),
            ("--client", self.client_factory, "WAKEFUL_CLIENT"),
        )
        given = ((name, value) for name, value, variable in named if value and value != os.environ.get(variable))
        return [word for name, value in given for word in (name, value)]

    def completing(self, command: str) -> str:
        """A command with these options.

        Ours take options before a possible `--` and the ids; Temporal's take them at the end, and no factory.
        """
        program, verb, *rest = shlex.split(command)
        if program == "wakeful":
            return shlex.join([program, verb, *self.words, *rest])
        return shlex.join([program, verb, *rest, *Cluster(self.address, self.namespace).words])


_reached: ContextVar[Cluster | None] = ContextVar("reached", default=None)


def reached_cluster() -> Cluster:
    """The cluster that the running command names, so that the commands it prints name it, too."""
    return _reached.get() or Cluster()


@contextlib.contextmanager
def reaching(parameters: Mapping[str, object]) -> Iterator[None]:
    """Within it, a command with these parameters runs."""
    named = (parameters.get(name) for name in ("address", "namespace", "client_factory"))
    token = _reached.set(Cluster(*(str(value) if value else None for value in named)))
    try:
        yield
    finally:
        _reached.reset(token)


OnBusyChoice = Literal["enqueue", "reject", "steer", "interrupt", "rollback"]
"""The values of `OnBusy`, whose module takes long to import."""

OnErrorChoice = Literal["fail", "complete"]
"""The values of `OnError`, for the same reason."""

OnErrorOption = Annotated[
    OnErrorChoice,
    typer.Option(help="How the workflow of a run that ends in an error closes: failed, or completed."),
]

AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Temporal's address. [default: $TEMPORAL_ADDRESS or localhost:7233]"
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Temporal namespace. [default: $TEMPORAL_NAMESPACE or default]"
    ),
]
ClientOption = Annotated[
    str | None,
    typer.Option(
        "--client",
        metavar="FACTORY",
        help="Your function that connects: module:function or path/to/file.py:function. [default: $WAKEFUL_CLIENT]",
    ),
]
TaskQueueOption = Annotated[
    str, typer.Option("--task-queue", metavar="NAME", help="Task queue that your workers poll.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one value per line, for programs.")]

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="REGISTRY",
        help="Your registry: module:registry or path/to/file.py:registry. [default: the demo]",
    ),
]
RequiredAppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="REGISTRY",
        help="Your registry: module:registry or path/to/file.py:registry. Required, unless --agents names files.",
    ),
]
OptionalAppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="REGISTRY",
        help="Your registry, whose models, tools and profiles are checked, too: module:registry or path.py:registry.",
    ),
]
AgentsOption = Annotated[
    list[Path] | None,
    typer.Option("--agents", metavar="PATH", help="File or directory of agents in TOML or YAML. Repeatable."),
]

ThreadArgument = Annotated[
    str, typer.Argument(metavar="THREAD", help="The thread's id.", autocompletion=completion.complete_thread)
]
AgentArgument = Annotated[
    str, typer.Argument(metavar="AGENT", help="The agent's id.", autocompletion=completion.complete_agent)
]
TicketArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="TICKET",
        help="One or more tickets, THREAD/CALL, as `wakeful inbox` prints them.",
        autocompletion=completion.complete_ticket,
    ),
]

ResultOption = Annotated[str | None, typer.Option(metavar="JSON", help="The decision's result, as JSON.")]
ReasonOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Why. The model reads it, and history keeps it.")
]
RecordedReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Why. History keeps it.")]
RunIdOption = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="Of this run alone: it is refused if the thread has a newer run."),
]
ActorOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides; history keeps it. [default: USER@HOST]")
]


class ServedDecisions(StrEnum):
    """The names of `ClientDecisions`, whose module `--help` would load slowly."""

    NONE = "none"
    QUESTIONS = "questions"
    ALL = "all"


DecisionsOption = Annotated[
    ServedDecisions,
    typer.Option(help="What clients may decide: nothing, questions for a value, or also whether calls may run."),
]
TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="NAME", help="The tenant of the thread; one of another tenant refuses the message."
    ),
]
SenderTenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Your tenant; a thread of another one refuses this.")
]
UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user for whom the run acts.")]
ExplainedTenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="The tenant of the run that makes the call.")
]
ExplainedUserOption = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="The user of the run that makes the call.")
]
MetadataOption = Annotated[
    list[str] | None,
    typer.Option("--metadata", metavar="KEY=VALUE", help="What tools, hooks, gates and rules can read. Repeatable."),
]


PriorityOption = Annotated[
    int | None, typer.Option("--priority", min=1, metavar="N", help="Temporal's priority key: 1 goes first.")
]


def parse_metadata(pairs: list[str] | None) -> dict[str, str]:
    """The metadata that `--metadata` gives; every value is a text."""
    if wrong := [pair for pair in pairs or () if not pair.partition("=")[0] or "=" not in pair]:
        raise typer.BadParameter(f"{wrong[0]!r} is not KEY=VALUE", param_hint="--metadata")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs or ())}


PermissionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--permission", metavar="TOOL=BEHAVIOR", help="A rule for the run: 'pay=deny', or allow, or ask. Repeatable."
    ),
]
FrontendToolsOption = Annotated[
    Path | None,
    typer.Option("--frontend-tools", metavar="FILE", help="The tools of your front end, a JSON array."),
]


BudgetTokens = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Stop the run and its sub-agents after N tokens.")
]
BudgetCost = Annotated[
    float | None, typer.Option(min=0, metavar="X", help="Stop them when they have cost X, by the registry's prices.")
]
BudgetTurns = Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop them after N model calls.")]
BudgetToolCalls = Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop them after N tool calls.")]
BudgetAgents = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Let them start at most N sub-agents (500, if the agent does not say it)."),
]
BudgetSeconds = Annotated[
    float | None, typer.Option(min=0, metavar="S", help="Stop them after S seconds, waiting included.")
]


@dataclass(frozen=True)
class RunOptionValues:
    """What belongs to the run that a command begins, as it was typed. `run_settings.py` parses it."""

    permission: PermissionOption = None
    frontend_tools: FrontendToolsOption = None
    budget_tokens: BudgetTokens = None
    budget_cost: BudgetCost = None
    budget_turns: BudgetTurns = None
    budget_tool_calls: BudgetToolCalls = None
    budget_agents: BudgetAgents = None
    budget_seconds: BudgetSeconds = None
    tenant: TenantOption = None
    user: UserOption = None
    metadata: MetadataOption = None


def taking_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of a run in place of its parameter `given`, a `RunOptionValues`."""
    shared = inspect.signature(RunOptionValues).parameters
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def expanded(**values: Any) -> None:
        given = RunOptionValues(**{name: values.pop(name) for name in shared})
        command(**values, given=given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        parameters += shared.values() if name == "given" else [parameter]
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    expanded.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]  # typer reads it
    return expanded
