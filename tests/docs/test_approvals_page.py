"""The program in docs/approvals.md decides what the inbox lists."""

import asyncio
import os
import sys

from tests.docs.snippets import of_page
from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import Agent, PermissionPolicy, Registry, RunStatus, ScriptedModel, call, say, tool
from wakeful.testing import runtime


@tool
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


MODEL = ScriptedModel([call("refund", order="1042"), say("Done: {result}.")])
REGISTRY = Registry(
    agents=[Agent(id="cashier", tools=[refund], permissions=PermissionPolicy())], models={"default": MODEL}
)


async def test_the_program_asks_for_each_decision_and_sends_it() -> None:
    (program,) = of_page(ROOT / "docs/approvals.md")
    async with runtime(REGISTRY) as client, asyncio.timeout(BOUND_SECONDS):
        thread_id = await client.start("cashier", "A refund, please.", thread_id="ann")
        await until_status(client, thread_id, RunStatus.WAITING)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program.code),
            env={**os.environ, "TEMPORAL_ADDRESS": client.temporal.service_client.config.target_host},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate(b"y\n")
        result = await client.result(thread_id)
    assert out.decode().startswith("ann/1-1: ")
    assert out.decode().endswith("{'order': '1042'} [y/n] applied\n")
    assert result.response == "Done: refunded 1042."
