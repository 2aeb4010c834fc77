"""A stream that stalls is interrupted after the idle timeout, and after twice that time for reasoning models."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.testing import ActivityEnvironment

from wakeful.contract.agents import ModelBinding, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.model_settings import ModelSettings, ReasoningEffort
from wakeful.contract.streaming import StreamPart, TextPart
from wakeful_activities.heartbeats import heartbeating
from wakeful_activities.inference.attempt import Stream, call_provider

POLICY = RetryPolicy(stream_idle_timeout_secs=0.01)


class Stalling:
    """A provider that sends one word and then nothing."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield TextPart("Once")
        await asyncio.Event().wait()


async def stall(model: str, effort: ReasoningEffort | None = None) -> ProviderError:
    """What a call of this model fails with."""
    binding = ModelBinding(id="m", provider="p", name=model)
    request = ModelRequest(model=model, messages=(), settings=ModelSettings(reasoning_effort=effort))
    with heartbeating() as beats, pytest.raises(ProviderError) as stalled:
        await call_provider(Stalling(), binding, request, POLICY, Stream("1", 1, None), beats)
    return stalled.value


@pytest.mark.parametrize(
    ("model", "effort", "seconds"),
    [
        *(("gpt-5", None, "0.01"), ("gpt-5", "none", "0.01"), ("gpt-5", "low", "0.02"), ("gpt-o3", None, "0.01")),
        *(("o1", None, "0.02"), ("o3-mini", None, "0.02"), ("openai/o4-mini", None, "0.02")),
        *(("kimi-Thinking", None, "0.02"), ("deepseek-reasoning", None, "0.02")),
    ],
)
async def test_a_reasoning_model_may_be_silent_for_twice_as_long(
    model: str, effort: ReasoningEffort | None, seconds: str
) -> None:
    """B-130, B-131"""
    stalled = await ActivityEnvironment().run(stall, model, effort)
    assert (stalled.kind, stalled.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "idle stall")
    assert str(stalled) == f"model {model!r} sent nothing for {seconds} s in the middle of its answer"
