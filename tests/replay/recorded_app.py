"""Agents that only the recorded histories need: they summarise their past, lose their streams, or retry a tool."""

import asyncio
from collections.abc import AsyncIterator

from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RetryLater,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.context import ContextPolicy
from wakeful.contract.inference import StopReason
from wakeful.contract.streaming import StopPart, StreamPart, TextPart

FIRST_HALF, SECOND_HALF = "The first half, ", "and the second half."
CONTINUE = "continue"
"""The id of the message that asks a model to continue an interrupted answer."""


class Summarizer:
    """Answers with a number of words, and with one sentence when it is asked for a summary."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        is_summary = request.instructions.startswith("You summarise")
        return ModelResponse(model=request.model, text="They counted words." if is_summary else "word " * 100)


class Breaking:
    """The connection fails in the middle of every first attempt."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        if not _is_continued(request):
            yield TextPart(FIRST_HALF)
            raise ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "connection reset")
        yield TextPart(SECOND_HALF)
        yield StopPart(StopReason.END_TURN)


class Hanging:
    """Every first attempt hangs in the middle, until its worker stops."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        if not _is_continued(request):
            yield TextPart(FIRST_HALF)
            await asyncio.Event().wait()
        yield TextPart(SECOND_HALF)
        yield StopPart(StopReason.END_TURN)


def _is_continued(request: ModelRequest) -> bool:
    return bool(request.messages) and request.messages[-1].id == CONTINUE


@tool(retries=3)
def copy(ctx: ToolContext) -> str:
    """Copy three pages, one in each attempt."""
    pages = ctx.last_checkpoint if isinstance(ctx.last_checkpoint, int) else 0
    ctx.checkpoint(pages + 1)
    if pages < 2:
        raise RetryLater(f"page {pages + 2} is locked", after=0)
    return f"{pages + 1} pages"


COPIES = ScriptedModel([call("copy"), say("Copied {result}.")])

registry = Registry(
    agents=[
        Agent(
            id="summarizing",
            model="summarizer",
            context=ContextPolicy(max_context_tokens=20_000, max_output_tokens=100, autocompact_threshold=300),
        ),
        Agent(id="breaking", model="breaking", retry=RetryPolicy(backoff_base_ms=10)),
        Agent(id="hanging", model="hanging"),
        Agent(id="copying", model="copies", tools=[copy]),
    ],
    models={"summarizer": Summarizer(), "breaking": Breaking(), "hanging": Hanging(), "copies": COPIES},
)
