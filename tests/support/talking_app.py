"""The planners of `subagent_app`, which also stream text in every step: runs that are worth watching live.

A worker process runs them: `--app tests.support.talking_app:registry`.
"""

import asyncio
import json
from collections.abc import AsyncIterator

from tests.support.subagent_app import TOOLS, Planner
from wakeful import Agent, ModelRequest, Registry, ToolMode
from wakeful.contract.messages import Message
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)

WORDS = 40
PAUSE_SECONDS = 0.01
INTERRUPTED = "continue"
"""The id of the message that asks a model to continue after its worker was lost."""


class TalkingPlanner:
    """Thinks, talks and then calls its tools; asked to continue, it says the rest."""

    def __init__(self) -> None:
        self._planner = Planner()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        asked, said = _begun(request)
        answer = await self._planner.complete(asked)
        step = len(asked.messages)
        text = " ".join(f"word{step}.{number}" for number in range(WORDS)) + f" {answer.text}"
        yield StartPart(model="talker")
        if not said:
            yield ReasoningPart(f"Step {step}, so be it.")
        for piece in _pieces(text[len(said) :], 9):
            yield TextPart(piece)
            await asyncio.sleep(PAUSE_SECONDS)
        for index, call in enumerate(answer.tool_calls):
            yield CallStartPart(index, call.id, call.name)
            for piece in _pieces(json.dumps(call.arguments, indent=1), 12):
                yield CallArgumentsPart(index, piece)
                await asyncio.sleep(PAUSE_SECONDS)
            yield CallEndPart(index)
        yield UsagePart(answer.usage)
        yield StopPart(answer.stop_reason)


def _begun(request: ModelRequest) -> tuple[ModelRequest, str]:
    """The request as it was before the answer broke off, and what had been said by then."""
    messages: tuple[Message, ...] = request.messages
    if not messages or messages[-1].id != INTERRUPTED:
        return request, ""
    return request.model_copy(update={"messages": messages[:-2]}), messages[-2].text


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


registry = Registry(
    agents=[
        Agent(
            id="node",
            instructions="Do as the plan says.",
            model="talker",
            tools=TOOLS,
            tool_mode=ToolMode.PARALLEL,
            delegates=["node"],
            spawns=["node"],
            max_depth=8,
            max_rounds=0,
            inference_heartbeat_timeout=3,
        )
    ],
    models={"talker": TalkingPlanner()},
)
