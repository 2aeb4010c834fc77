"""The `wakeful` command: the table of its commands, and how one is loaded.

A command's module is imported when that command runs, or for its help and completion; `wakeful --help` and the
completion of command names read the table alone. So none of these imports Temporal or pydantic, which take most of a
second; `tests/cli/test_startup.py` pins what is imported.
"""

import gc
import importlib
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from wakeful.cli.process import run_and_leave

SECTIONS = {
    "Start": {
        "demo": "Show a durable run from start to end, on its own server.",
        "dev": "Run a Temporal server, its web UI and a worker, until Ctrl-C.",
        "worker": "Run a worker for your agents, until Ctrl-C or SIGTERM.",
        "a2a": "Serve agents over the A2A protocol.",
    },
    "Talk": {
        "run": "Start a run, show its events and print its answer.",
        "chat": "Talk to an agent on a thread.",
        "send": "Send a message to a thread, and do not wait for the answer.",
        "queue": "List the messages of a thread that no run has read.",
        "edit": "Replace the text of a message that no run has read.",
        "withdraw": "Withdraw messages of a thread that no run has read.",
    },
    "Decide": {
        "inbox": "List every pending decision, oldest first.",
        "approve": "Resume suspended tool calls.",
        "deny": "Cancel suspended tool calls.",
        "decide": "Resume or cancel one tool call, even before it suspends.",
        "decisions": "List who decided what in every thread.",
        "permissions": "List the permission rules of a thread, or explain a call.",
        "revoke": "Revoke permission rules that were added to a thread.",
    },
    "Inspect": {
        "list": "List threads, open ones first.",
        "status": "Show what a thread is doing and what it waits for.",
        "show": "Print the whole conversation of a thread.",
        "watch": "Show the events of a thread, live, until it ends.",
        "tree": "Show a thread with all its sub-agents and background tasks.",
        "why": "Explain why a thread is not making progress.",
        "agents": "List your agents and those of other services, with their tools.",
    },
    "Branch": {
        "fork": "Start a new thread from a step of another.",
        "rewind": "Undo every step of a thread after a given one.",
        "diff": "Compare two threads side by side.",
    },
    "Operate": {
        "schedule": "Run an agent at set times: create, list and delete schedules.",
        "cancel": "Cancel the run of a thread and everything it started.",
        "close": "Cancel the run of a thread, if any, and close the thread.",
        "delete": "Delete threads with everything that belongs to them.",
        "undelivered": "List messages between agents that were not delivered.",
        "replay": "Replay histories on the installed code, before a deploy.",
        "mcp": "Serve agents as MCP tools, and try MCP servers.",
        "doctor": "Check the installation, from Temporal to the models.",
    },
}
"""Every command with its help in one line. Its module in `commands/` and its function have its name."""

GC_THRESHOLD = 10_000
"""Imports create many objects and free few: with Python's threshold, a fifteenth of their CPU goes into collections."""

COMMANDS = {name: help for commands in SECTIONS.values() for name, help in commands.items()}


# Typer does not export the types of contexts and formatters: hence Any.
class QuickParameters:
    """A command that does not process its own options where none can be given.

    Typer checks the value of every option with pydantic, even if it is not given; importing pydantic takes a fifth of a
    second.
    """

    _has_options = True

    def get_params(self, ctx: Any) -> Any:
        return super().get_params(ctx) if self._has_options else []  # type: ignore[misc]  # of the class beside this one

    def parse_without_options(
        self, parse: Callable[[Any, list[str]], list[str]], ctx: Any, args: list[str]
    ) -> list[str]:
        self._has_options = False
        try:
            return parse(ctx, args)
        finally:
            self._has_options = True


class CommandGroup(QuickParameters, TyperGroup):
    """Lists commands from the table, and loads the one that is used."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_command = bool(args) and not args[0].startswith("-")
        if names_command or (ctx.resilient_parsing and not args):
            return self.parse_without_options(super().parse_args, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and command else command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), help) for name, help in commands.items()])


class LoadedCommand(QuickParameters, TyperCommand):
    """A command whose module is imported."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing and not args:  # a shell completes the first word
            return self.parse_without_options(super().parse_args, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        from wakeful.cli import options  # the command has imported it; completion must not

        with options.reaching(ctx.params):
            return super().invoke(ctx)


def load_command(name: str) -> Any:
    """Import a command's module and build the command."""
    function = getattr(importlib.import_module(f"wakeful.cli.commands.{name}"), name)
    if isinstance(function, typer.Typer):  # it has commands of its own
        return typer.main.get_command(function)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, cls=LoadedCommand)(function)
    return typer.main.get_command(single)


app = typer.Typer(
    name="wakeful",
    cls=CommandGroup,
    help="Durable agents on Temporal: run them, watch them, decide for them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"wakeful {version('wakeful')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of `wakeful` itself."""


def _placeholder() -> None:
    """Stands in the group for a command that is not loaded."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_placeholder)


def main() -> None:
    """The program behind the `wakeful` command."""
    gc.set_threshold(GC_THRESHOLD)
    run_and_leave(app, name="wakeful")
