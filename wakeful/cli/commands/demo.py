"""`wakeful demo`: the whole story without a question asked: model, tool, suspension, decision, answer."""

import asyncio
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.terminal.render import event_lines, pending_lines
from wakeful.client.approvals import pending_of
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import RunFinish
from wakeful.contract.runs import NaturalEnd, RunResult, Suspended
from wakeful.worker import load_registry, running_worker

THREAD = "demo-refund"
QUESTION = "My espresso machine from order 1042 arrived broken. I want a refund."


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server and its web UI open until Ctrl-C.")] = False,
) -> None:
    """See a durable agent run from end to end on a real Temporal server of its own."""

    async def go() -> None:
        print("Starting a Temporal server …", flush=True)
        async with embedded_server() as server:
            client = Client(server.client)
            async with running_worker(server.client, load_registry(options.DEMO_APP)):
                result = await _story(client)
                page = f"{server.ui}/namespaces/{server.namespace}/workflows/{THREAD}"
                _tell(result, page, keep=keep)
                if keep:
                    await asyncio.Event().wait()

    asyncio.run(go())


async def _story(client: Client) -> RunResult:
    print(f"\nYou: {QUESTION}\n", flush=True)
    await client.start("assistant", QUESTION, thread_id=THREAD)
    async for record in client.watch(THREAD):
        for line in event_lines(record.event):
            print(line, flush=True)
        if isinstance(record.event, RunFinish) and isinstance(record.event.termination, Suspended):
            (pending,) = pending_of(await client.status(THREAD))
            print("\n".join(pending_lines(pending)))
            print("\nNobody waits: the run sleeps in Temporal. The demo approves it now, with a signal.\n", flush=True)
            await client.decide(THREAD, pending.call_id, DecisionAction.RESUME, actor="demo")
    return await client.result(THREAD)


def _tell(result: RunResult, page: str, *, keep: bool) -> None:
    if not isinstance(result.termination, NaturalEnd):
        raise WakefulError(f"the demo's run ended as {result.status_reason}")
    print(f"\nAssistant: {result.response}")
    print(f"\n{result.steps} steps, {result.usage.total_tokens or 0} tokens, thread {result.thread_id}")
    print(f"In Temporal UI: {page}")
    print("Ctrl-C stops the server." if keep else "Keep it open with: wakeful demo --keep   (or make demo KEEP=1)")
