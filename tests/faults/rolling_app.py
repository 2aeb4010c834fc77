"""Two releases of one application: the newer one adds an agent, two tools and a plugin."""

import json
import os
from pathlib import Path

from pydantic import JsonValue

from tests.support.app import JOURNAL
from wakeful import Agent, Plugin, Registry, ToolContext, tool
from wakeful.authoring.hook_contexts import BeforeInference, HookContext, RunEnd, ToolGate
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.messages import ToolCall


class CallsEveryTool:
    """A model that calls each of its tools once, one after another."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        called = {call.name for message in request.messages for call in message.tool_calls}
        for offered in request.tools:
            if offered.id not in called:
                arguments: dict[str, JsonValue] = {"prompt": "audit"} if offered.id.startswith("agent_run_") else {}
                calls = (ToolCall(id="", name=offered.id, arguments=arguments),)
                return ModelResponse(model="any", text="", tool_calls=calls, stop_reason=StopReason.TOOL_USE)
        return ModelResponse(model="any", text=f"called {len(called)} tools", stop_reason=StopReason.END_TURN)


@tool(read_only=True)
async def look() -> str:
    """Look something up."""
    return "seen"


@tool(read_only=True, local=True)
async def peek() -> str:
    """Look something up at once."""
    return "peeked"


@tool
def refund(ctx: ToolContext) -> str:
    """Pay money back, which must not happen twice."""
    with Path(os.environ[JOURNAL]).open("a") as journal:
        journal.write(json.dumps({"tool": "refund", "what": "ran", "key": ctx.idempotency_key}) + "\n")
    return "refunded"


class Stamp(Plugin):
    """Has hooks beside every activity, and fails the run on a worker that runs it without them."""

    id = "stamp"
    on_error = "fail"

    async def run_start(self, ctx: HookContext) -> None:
        ctx.add_context("stamp", "Be quick.")

    async def before_inference(self, ctx: BeforeInference) -> None:
        pass

    async def tool_gate(self, ctx: ToolGate) -> None:
        pass

    async def run_end(self, ctx: RunEnd) -> None:
        pass


STAMP = Stamp()
MODELS = {"default": CallsEveryTool()}
old = Registry(agents=[Agent(id="clerk", tools=[look]), Agent(id="desk", tools=[look])], models=MODELS)
new = Registry(
    agents=[
        Agent(id="clerk", tools=[look, peek, refund], plugins=[STAMP]),
        Agent(id="auditor", tools=[look, peek, refund], plugins=[STAMP]),
        Agent(id="desk", tools=[look], delegates=["auditor"]),
    ],
    models=MODELS,
)
