"""What answers cost: by the price of the model that was really asked, over all attempts at an answer."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment

from wakeful import Agent, ModelRequest, ModelResponse, Price, ProviderError, ProviderErrorKind, Registry, RetryPolicy
from wakeful.authoring.provider import AnyProvider
from wakeful.contract.inference import InferenceOverrides, InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    PartialCall,
    StreamCheckpoint,
    StreamPart,
    UsagePart,
)
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities import HistoryCache, InferActivity
from wakeful_activities.inference.answer import priced

PRICE = Price(input=2, output=10)
USED = Usage(prompt_tokens=1_000, completion_tokens=100)
COST = 0.003
BROKEN = StreamCheckpoint(
    attempt=1, model="m", text="So", usage=Usage(prompt_tokens=500, completion_tokens=50), broken="connection reset"
)


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (USED, PRICE, COST),
        (USED, None, None),
        (Usage(), PRICE, None),
        (Usage(total_tokens=7), PRICE, None),
        (Usage(completion_tokens=100), PRICE, 0.001),
        (Usage(prompt_tokens=1_000, cache_read_tokens=400), Price(input=2, output=10, cached_input=0.5), 0.0014),
        (Usage(prompt_tokens=1_000, cache_read_tokens=400), Price(input=2, output=10, cached_input=0), 0.0012),
        (Usage(prompt_tokens=1_000, cache_read_tokens=400), PRICE, 0.002),
        (Usage(prompt_tokens=1, cache_read_tokens=3), PRICE, 0.000006),
        (Usage(prompt_tokens=-5, completion_tokens=-5), PRICE, 0.0),
        (Usage(prompt_tokens=1), Price(input=0.0001234, output=0), 0.0),
        (Usage(prompt_tokens=0, completion_tokens=0), PRICE, 0.0),
    ],
)
def test_tokens_cost_what_a_million_of_them_does_by_the_million(
    usage: Usage, price: Price | None, cost: float | None
) -> None:
    assert priced(usage, price) == usage.model_copy(update={"cost": cost})


class Answering:
    """A provider that answers, or does not."""

    def __init__(self, error: ProviderErrorKind | None = None) -> None:
        self.error = error

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if self.error is not None:
            raise ProviderError(self.error, "not now")
        return ModelResponse(model=request.model, text="hello", usage=USED)


class BreakingOff:
    """A provider that writes one whole call, and breaks off."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield CallStartPart(0, "c", "look")
        yield CallArgumentsPart(0, "{}")
        yield CallEndPart(0)
        yield UsagePart(USED)
        raise ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "gone", cause="connection reset")


async def infer(
    models: Mapping[str, AnyProvider | str],
    prices: Mapping[str, Price],
    *,
    attempt: int = 1,
    left_behind: StreamCheckpoint | None = None,
    overrides: InferenceOverrides | None = None,
    **fields: Any,
) -> ModelResponse:
    agent = Agent(id="a", model="m", retry=RetryPolicy(max_retries=0), **fields)
    registry = Registry(agents=[agent], models=models, prices=prices, providers={"own": Answering()})
    memory = HistoryCache(cast("Client", None))  # it remembers the agent, and so never reads history
    memory.remember_agent(registry.resolve("a"))
    message = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))
    input = InferInput(
        agent=registry.resolve("a").digest(),
        transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, message)),
        appended=(message,),
        overrides=overrides,
    )
    environment = ActivityEnvironment()
    environment.payload_converter = pydantic_data_converter.payload_converter
    beats = [left_behind.model_dump(mode="json")] if left_behind is not None else []
    environment.info = replace(environment.info, attempt=attempt, heartbeat_details=beats)
    return await environment.run(InferActivity(registry, memory, {}).infer, input)


async def test_an_answer_comes_with_its_cost_if_its_model_has_a_price() -> None:
    models = {"m": Answering()}
    assert (await infer(models, {"m": PRICE})).usage == USED.model_copy(update={"cost": COST})
    assert (await infer(models, {})).usage == USED


async def test_a_fallback_costs_what_itself_does() -> None:
    models = {"m": Answering(ProviderErrorKind.OVERLOADED), "n": Answering()}
    prices = {"m": Price(input=99, output=99), "n": PRICE}
    assert (await infer(models, prices, attempt=2, fallbacks=["n"])).usage.cost == COST


async def test_another_model_that_a_run_asks_for_costs_what_itself_does() -> None:
    models = {"m": "own/big", "n": "own/small"}
    prices = {"m": Price(input=99, output=99), "n": PRICE}
    overrides = InferenceOverrides(upstream_model="small")
    assert (await infer(models, prices, overrides=overrides)).usage.cost == COST


async def test_an_answer_that_broke_off_is_paid_for_as_a_whole() -> None:
    response = await infer({"m": Answering()}, {"m": PRICE}, attempt=2, left_behind=BROKEN)
    assert (response.text, response.usage) == (
        "Sohello",
        Usage(prompt_tokens=1_500, completion_tokens=150, cost=0.0045),
    )


async def test_calls_that_are_kept_of_a_broken_answer_are_paid_for() -> None:
    response = await infer({"m": BreakingOff()}, {"m": PRICE})
    assert ([call.name for call in response.tool_calls], response.usage.cost) == (["look"], COST)


async def test_calls_that_a_lost_worker_left_behind_are_paid_for() -> None:
    calls = (PartialCall(id="c", name="look", arguments="{}", closed=True),)
    left = BROKEN.model_copy(update={"calls": calls, "usage": USED})
    response = await infer({"m": Answering()}, {"m": PRICE}, attempt=2, left_behind=left)
    assert ([call.name for call in response.tool_calls], response.usage.cost) == (["look"], COST)
