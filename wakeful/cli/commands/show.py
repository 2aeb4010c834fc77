"""`wakeful show`: the conversation of a thread."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client


def show(
    thread: options.ThreadArgument,
    at: Annotated[
        int | None,
        typer.Option("--at", min=1, metavar="STEP", help="Show the thread as it was at the end of this step."),
    ] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the whole conversation of a thread.

    After it come the thread's state, tasks, undelivered messages and the pending decisions of sub-agents, if there are
    any. `fork`, `rewind` and `--at` take the step numbers that are printed here. With --json, a message also has the
    user for whom the run acts that read it.
    """
    from pydantic_core import to_json

    from wakeful.cli.session import with_client
    from wakeful.cli.terminal.colours import colours_of
    from wakeful.cli.terminal.render import message_lines, state_lines
    from wakeful.cli.terminal.status_lines import read_related_lines, related_lines
    from wakeful.cli.terminal.text import printable
    from wakeful.client.branching.steps import steps_of

    async def go(client: Client) -> None:
        past = await client.at_step(thread, at) if at is not None else None
        messages = list(past.messages) if past is not None else await client.transcript(thread)
        marks = {step.start: colours_of(sys.stdout).dim(f", step {step.number}") for step in steps_of(messages)}
        if as_json:
            users = await _users(client, thread)
            for message in messages:
                user = {"user": users[message.id]} if message.id in users else {}
                print(to_json(message.model_dump(mode="json") | user).decode())
            return
        for index, message in enumerate(messages):
            print("\n".join(message_lines(message, mark=marks.get(index, ""))))
        if past is not None:
            if past.status is None or past.state is None:
                print("\nTemporal has deleted the execution that ran this step, and its status and state with it")
                return
            view, state = past.status, past.state
            related = [f"status   {view.status.value}: {printable(view.doing)}", *related_lines(thread, view)]
        else:
            view, state = await client.status(thread), await client.state(thread)
            related = await read_related_lines(client.reader, thread, view)
        lines = [*state_lines(state), *related]
        if view.active_agent is not None and view.active_agent != view.identity.agent_id:
            lines.insert(0, f"agent    {printable(view.active_agent)}")
        if lines:
            print("\n".join(["", *lines]))

    with_client(options.Cluster(address, namespace, client_factory), go)


async def _users(client: Client, thread: str) -> dict[str, str]:
    """For whom the runs acted that read each message; a fork begins with messages that runs of its origin read."""
    from wakeful.contract.errors import ThreadNotFound

    users, seen, origin = dict[str, str](), set[str](), thread
    while origin not in seen:
        seen.add(origin)
        try:
            runs, view = await client.runs(origin), await client.status(origin)
        except ThreadNotFound:  # the origin was deleted
            break
        read = {id: run.user for run in runs for id in run.message_ids if run.user is not None}
        users = read | users
        origin = view.identity.forked_from.thread_id if view.identity.forked_from else origin
    return users
