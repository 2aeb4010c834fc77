"""The cost of an answer: the price of the model that was called, over all attempts."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.activities.wiring import activities, cache_of, environment
from wakeful import Agent, ModelRequest, ModelResponse, Price, ProviderError, ProviderErrorKind, Registry, RetryPolicy
from wakeful.authoring.provider import AnyProvider
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.model_settings import InferenceOverrides
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
        (Usage(prompt_tokens=1_000, cache_creation_tokens=400), PRICE, 0.002),
        (Usage(prompt_tokens=1_000, cache_creation_tokens=400), Price(input=2, output=10, cache_write=2.5), 0.0022),
        (
            Usage(prompt_tokens=1_000, completion_tokens=10, cache_read_tokens=500, cache_creation_tokens=400),
            Price(input=2, output=10, cached_input=0.2, cache_write=2.5),
            0.0014,
        ),
        (Usage(prompt_tokens=1, cache_creation_tokens=-3), PRICE, 0.000002),
        (Usage(prompt_tokens=1, cache_read_tokens=3), PRICE, 0.000006),
        (Usage(prompt_tokens=-5, completion_tokens=-5), PRICE, 0.0),
        (Usage(prompt_tokens=1), Price(input=0.0001234, output=0), 0.0),
        (Usage(prompt_tokens=0, completion_tokens=0), PRICE, 0.0),
    ],
)
def test_tokens_are_priced_per_million(usage: Usage, price: Price | None, cost: float | None) -> None:
    assert priced(usage, price) == usage.model_copy(update={"cost": cost})


class Answering:
    """A provider that answers, or does not."""

    def __init__(self, error: ProviderErrorKind | None = None) -> None:
        self.error = error

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if self.error is not None:
            raise ProviderError(self.error, "not now")
        return ModelResponse(model=request.model, text="hello", usage=USED)


class Interrupted:
    """A provider that streams one complete call, and is interrupted."""

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
    earlier: StreamCheckpoint | None = None,
    overrides: InferenceOverrides | None = None,
    **fields: Any,
) -> ModelResponse:
    agent = Agent(id="a", model="m", retry=RetryPolicy(max_retries=0), **fields)
    registry = Registry(agents=[agent], models=models, prices=prices, providers={"own": Answering()})
    resolved = registry.resolve("a")
    message = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))
    input = InferInput(
        agent=resolved.digest(),
        transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, message)),
        appended=(message,),
        overrides=overrides,
    )
    running = environment()
    beats = [earlier.model_dump(mode="json")] if earlier is not None else []
    running.info = replace(running.info, attempt=attempt, heartbeat_details=beats)
    with activities(registry, cache_of(resolved)) as made:
        return await running.run(made.infer.infer, input)


async def test_an_answer_has_its_cost_if_its_model_has_a_price() -> None:
    models = {"m": Answering()}
    assert (await infer(models, {"m": PRICE})).usage == USED.model_copy(update={"cost": COST})
    assert (await infer(models, {})).usage == USED


class Silent:
    """A provider that does not say how many tokens it used."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(model=request.model, text="x" * 400)


async def test_tokens_that_the_provider_does_not_report_are_estimated_and_marked() -> None:
    usage = (await infer({"m": Silent()}, {"m": PRICE}, instructions="y" * 4_000)).usage
    assert usage == Usage(prompt_tokens=1_008, completion_tokens=104, total_tokens=1_112, estimated=True, cost=0.003056)


async def test_a_fallback_has_its_own_price() -> None:
    models = {"m": Answering(ProviderErrorKind.OVERLOADED), "n": Answering()}
    prices = {"m": Price(input=99, output=99), "n": PRICE}
    assert (await infer(models, prices, attempt=2, fallbacks=["n"])).usage.cost == COST


async def test_a_model_that_a_run_overrides_has_its_own_price() -> None:
    models = {"m": "own/big", "n": "own/small"}
    prices = {"m": Price(input=99, output=99), "n": PRICE}
    overrides = InferenceOverrides(upstream_model="small")
    assert (await infer(models, prices, overrides=overrides)).usage.cost == COST


async def test_an_interrupted_answer_costs_all_its_attempts() -> None:
    response = await infer({"m": Answering()}, {"m": PRICE}, attempt=2, earlier=BROKEN)
    assert (response.text, response.usage) == (
        "Sohello",
        Usage(prompt_tokens=1_500, completion_tokens=150, cost=0.0045),
    )


async def test_the_complete_calls_of_an_interrupted_answer_are_paid_for() -> None:
    response = await infer({"m": Interrupted()}, {"m": PRICE})
    assert ([call.name for call in response.tool_calls], response.usage.cost) == (["look"], COST)


async def test_the_complete_calls_of_a_lost_worker_are_paid_for() -> None:
    calls = (PartialCall(id="c", name="look", arguments="{}", closed=True),)
    left = BROKEN.model_copy(update={"calls": calls, "usage": USED})
    response = await infer({"m": Answering()}, {"m": PRICE}, attempt=2, earlier=left)
    assert ([call.name for call in response.tool_calls], response.usage.cost) == (["look"], COST)
