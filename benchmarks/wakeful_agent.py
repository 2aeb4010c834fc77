"""Wakeful's side: an agent with the scripted model and the same tools, on Wakeful's public API."""

import inspect
from typing import Any

from benchmarks.workload import ASK, PAD, PAD_LOCAL, Work, padding, scripted_answer
from wakeful import Agent, ModelRequest, ModelResponse, Registry, Tool, ToolContext, tool
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ToolCall

AGENT = "bench"
HAS_LOCAL_TOOLS = "local" in inspect.signature(tool).parameters

_CALL = "call_"


class Script:
    """The workload's script as a provider. It reads the number of finished steps from the newest tool call's id."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        newest = request.messages[-1].tool_call_id
        done = int(newest.removeprefix(_CALL)) if newest else 0
        answer = scripted_answer(Work.parse(request.messages[0].text), done)
        if answer.tool is None:
            return ModelResponse(model=request.model, text=answer.text)
        # The id is as long as OpenAI's and Anthropic's are.
        call = ToolCall(id=f"{_CALL}{done + 1:024}", name=answer.tool, arguments={**answer.arguments})
        return ModelResponse(model=request.model, tool_calls=(call,), stop_reason=StopReason.TOOL_USE)


async def pad(step: int, size: int) -> str:
    """Return so many bytes."""
    return padding(step, size)


async def ask(step: int, size: int, ctx: ToolContext) -> str:
    """Return so many bytes once a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend("May I?")
    return padding(step, size)


def tools() -> list[Tool]:
    known = [tool(name=PAD)(pad), tool(name=ASK)(ask)]
    if HAS_LOCAL_TOOLS:
        local: dict[str, Any] = {"name": PAD_LOCAL, "read_only": True, "local": True}  # not every version takes it
        known.append(tool(**local)(pad))
    return known


registry = Registry(agents=[Agent(id=AGENT, tools=tools(), max_rounds=0)], models={"default": Script()})
