"""The `wakeful` command and its subcommands."""

import typer

from wakeful.cli.commands import (
    chat,
    decide,
    demo,
    dev,
    diff,
    fork,
    inbox,
    replay,
    rewind,
    threads,
    tree,
    undelivered,
    watch,
    why,
    worker,
)
from wakeful.cli.process import run_and_leave

app = typer.Typer(
    name="wakeful",
    help="Durable agents on Temporal: run them, watch them, decide for them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("dev")(dev.dev)
app.command("worker")(worker.worker)
app.command("run")(threads.run)
app.command("chat")(chat.chat)
app.command("send")(threads.send)
app.command("watch")(watch.watch)
app.command("status")(threads.status)
app.command("show")(threads.show)
app.command("tree")(tree.tree)
app.command("why")(why.why)
app.command("inbox")(inbox.inbox)
app.command("approve")(decide.approve)
app.command("deny")(decide.deny)
app.command("decide")(decide.decide)
app.command("letters")(undelivered.undelivered)
app.command("cancel")(threads.cancel)
app.command("fork")(fork.fork)
app.command("diff")(diff.diff)
app.command("rewind")(rewind.rewind)
app.command("replay")(replay.replay)


def main() -> None:
    """The program behind the `wakeful` command."""
    run_and_leave(app, name="wakeful")
