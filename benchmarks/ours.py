"""Wakeful's side: an agent with the same script for a model and the same tools, on its public API alone."""

import inspect
from typing import Any

from benchmarks.workload import ASK, PAD, PAD_LOCAL, Work, padding, turn
from wakeful import Agent, ModelRequest, ModelResponse, Registry, Tool, ToolContext, tool
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ToolCall

AGENT = "bench"
HAS_LOCAL_TOOLS = "local" in inspect.signature(tool).parameters

_CALL = "call_"


class Script:
    """The workload's script as a provider. How far it is stands in the id of the newest tool result."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        newest = request.messages[-1].tool_call_id
        done = int(newest.removeprefix(_CALL)) if newest else 0
        said = turn(Work.parse(request.messages[0].text), done)
        if said.tool is None:
            return ModelResponse(model=request.model, text=said.text)
        # As long as OpenAI's and Anthropic's ids are.
        call = ToolCall(id=f"{_CALL}{done + 1:024}", name=said.tool, arguments={**said.arguments})
        return ModelResponse(model=request.model, tool_calls=(call,), stop_reason=StopReason.TOOL_USE)


async def pad(step: int, size: int) -> str:
    """Return so many bytes."""
    del step
    return padding(size)


async def ask(step: int, size: int, ctx: ToolContext) -> str:
    """Return so many bytes once a person has agreed."""
    del step
    if ctx.resume_input is None:
        ctx.suspend("May I?")
    return padding(size)


def tools() -> list[Tool]:
    known = [tool(name=PAD)(pad), tool(name=ASK)(ask)]
    if HAS_LOCAL_TOOLS:
        local: dict[str, Any] = {"name": PAD_LOCAL, "read_only": True, "local": True}  # not every version takes it
        known.append(tool(**local)(pad))
    return known


registry = Registry(agents=[Agent(id=AGENT, tools=tools(), max_rounds=0)], models={"default": Script()})
