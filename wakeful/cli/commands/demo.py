"""`wakeful demo`: a model call, a tool, a suspension, a decision and an answer, with no input from you."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options

if TYPE_CHECKING:
    from wakeful.client.client import Client
    from wakeful.contract.runs import RunResult

THREAD = "demo-refund"
QUESTION = "My espresso machine from order 1042 arrived broken. I want a refund."


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server and its web UI running until Ctrl-C.")] = False,
) -> None:
    """Show a durable run from start to end, on its own server."""
    from wakeful.client.client import Client
    from wakeful.connection import embedded_server
    from wakeful.worker import load_registry, running_worker

    async def go() -> None:
        print("Starting a Temporal server …", flush=True)
        async with embedded_server() as server:
            client = Client(server.client)
            async with running_worker(server.client, load_registry(options.DEMO_APP)):
                result = await _run(client)
                print_end(result, f"{server.ui}/namespaces/{server.namespace}/workflows/{THREAD}", keep=keep)
                if keep:
                    await asyncio.Event().wait()

    asyncio.run(go())


async def _run(client: Client) -> RunResult:
    from wakeful.cli.terminal.pending_lines import pending_lines
    from wakeful.cli.terminal.render import event_lines
    from wakeful.client.approvals import pending_of
    from wakeful.contract.decisions import DecisionAction
    from wakeful.contract.events import RunFinish
    from wakeful.contract.runs import Suspended

    print(f"\nYou: {QUESTION}\n", flush=True)
    await client.start("assistant", QUESTION, thread_id=THREAD)
    async for record in client.watch(THREAD):
        for line in event_lines(record.event):
            print(line, flush=True)
        if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
            (pending,) = pending_of(await client.status(THREAD))
            print("\n".join(pending_lines(pending)))
            print(
                "\nNo process waits: the run sleeps in Temporal. The demo now approves it, with a signal.\n", flush=True
            )
            await client.decide(THREAD, pending.call_id, DecisionAction.RESUME, actor="demo")
    return await client.result(THREAD)


def print_end(result: RunResult, page: str, *, keep: bool) -> None:
    """Print the answer and how to see the run; its page is only there while the server is kept."""
    from wakeful.contract.errors import WakefulError
    from wakeful.contract.runs import NaturalEnd

    if not isinstance(result.termination, NaturalEnd):
        raise WakefulError(f"the demo's run ended as {result.status_reason}")
    print(f"\nAssistant: {result.response}")
    print(f"\n{result.steps} steps, {result.usage.total_tokens or 0} tokens, thread {result.thread_id}")
    if keep:
        print(f"In Temporal's web UI: {page}\nCtrl-C stops the server.")
    else:
        print("See it in Temporal's web UI with: wakeful demo --keep   (or make demo KEEP=1)")
