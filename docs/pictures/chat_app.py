"""The agent of the chat's picture: it looks at the stock, and orders what is missing when a person agrees.

Its model is scripted and offline, and says its words one by one, as others do.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator

from wakeful import Agent, ModelRequest, Registry, ScriptedModel, ToolContext, ToolMode, call, say, tool
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallStartPart,
    ReasoningPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)

WORD_SECONDS = 0.07
STOCK = {"espresso machine": 3, "grinder": 12, "filter": 400}


@tool(read_only=True)
def stock(item: str) -> str:
    """How many pieces are in stock."""
    return f"{STOCK.get(item, 0)} pieces"


@tool(read_only=True)
def count(item: str, ctx: ToolContext) -> str:
    """Count what is on the shelves."""
    for shelf in range(1, 9):
        ctx.report(f"shelf {shelf} of 8", progress=shelf / 8)
        time.sleep(1)
    return f"{STOCK.get(item, 0)} pieces"


@tool
def order(item: str, pieces: int, ctx: ToolContext) -> str:
    """Order more from the supplier. A person approves it first."""
    if ctx.resume_input is None:
        ctx.suspend(f"Order {pieces} x {item} for {pieces * 180} EUR?")
    ctx.report("the supplier confirms")
    time.sleep(1.2)
    return "ordered, arrives on Thursday"


SCRIPT = ScriptedModel(
    when={
        "low": [
            say("Two items. I should look at both before I order anything.|")
            & call("stock", item="espresso machine")
            & call("stock", item="grinder"),
            say("Only 3 espresso machines are left, but 12 grinders: seven machines are missing.")
            & call("order", item="espresso machine", pieces=7),
            say(
                "Done: seven espresso machines are ordered and arrive on Thursday. "
                "Grinders stay as they are, there are enough of them."
            ),
        ],
        "filters": [say("I have them counted.") & call("count", item="filter"), say("400, so there is nothing to do.")],
    }
)


class WordByWord:
    """The script, spoken; what stands before a bar is only thought."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        answer = SCRIPT.answer(request)
        thought, _, text = answer.text.rpartition("|")
        for word in re.findall(r"\S+\s*", thought):
            yield ReasoningPart(word)
            await asyncio.sleep(WORD_SECONDS)
        for word in re.findall(r"\S+\s*", text):
            yield TextPart(word)
            await asyncio.sleep(WORD_SECONDS)
        for index, wish in enumerate(answer.tool_calls):
            yield CallStartPart(index, wish.id, wish.name)
            yield CallArgumentsPart(index, json.dumps(wish.arguments))
        yield UsagePart(answer.usage)
        yield StopPart(answer.stop_reason)


registry = Registry(
    agents=[
        Agent(
            id="buyer",
            instructions="Keep at least ten of everything in stock.",
            tools=[stock, count, order],
            tool_mode=ToolMode.PARALLEL,
        )
    ],
    models={"default": WordByWord()},
)
