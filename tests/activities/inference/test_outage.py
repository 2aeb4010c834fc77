"""A provider that is away while many runs need it: every run waits for it, and comes to its natural end."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.diagnoses import until_cause
from wakeful import Agent, ModelRequest, ModelResponse, ProviderError, ProviderErrorKind, Registry, RetryPolicy
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.worker import WorkerSettings, running_worker

KINDS = (ProviderErrorKind.OVERLOADED, ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.PROVIDER)


class Away:
    """A provider that is away for some time from its first call on, and for some calls at least.

    Some of its failures say when to come back.
    """

    def __init__(self, seconds: float, *, calls: int = 0) -> None:
        self.seconds, self.calls = seconds, calls
        self.since: float | None = None
        self.failures = self.answers = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if self.since is None:
            self.since = time.monotonic()
        if self.failures < self.calls or time.monotonic() < self.since + self.seconds:
            self.failures += 1
            kind = KINDS[self.failures % len(KINDS)]
            raise ProviderError(kind, f"away: {self.failures}", retry_after=0.05 if self.failures % 2 else None)
        self.answers += 1
        return ModelResponse(model=request.model, text="I am back.")


@asynccontextmanager
async def waiting_for(
    temporal: TemporalClient, queue: str, provider: Away, *, cooldown: float, **policy: float
) -> AsyncIterator[Client]:
    retry = RetryPolicy.model_validate({"backoff_base_ms": 50, "overloaded_backoff_base_ms": 50, **policy})
    registry = Registry(agents=[Agent(id="patient", retry=retry)], models={"default": provider})
    settings = WorkerSettings(task_queue=queue, breaker_cooldown=timedelta(seconds=cooldown), sweep_interval=None)
    async with running_worker(temporal, registry, settings):
        yield Client(temporal, task_queue=queue)


async def run_all(client: Client, thread_id: str, runs: int) -> list[tuple[str, str]]:
    ids = [f"{thread_id}-{number}" for number in range(runs)]
    results = await asyncio.gather(*(client.run("patient", "Are you there?", thread_id=id) for id in ids))
    return [(result.status_reason, result.response) for result in results]


async def test_runs_wait_for_a_provider_that_is_away(temporal: TemporalClient, thread_id: str) -> None:
    """B-120, B-127"""
    provider = Away(seconds=1, calls=12)
    async with waiting_for(temporal, thread_id, provider, cooldown=0.2, max_backoff_secs=0.4) as client:
        assert await run_all(client, thread_id, 8) == [("natural", "I am back.")] * 8
        events = [event async for event in client.handle(f"{thread_id}-0").fetch_history_events()]
    assert provider.failures >= 12
    assert len(events) < 20  # attempts are not in history


async def test_why_says_since_when_how_often_and_until_when_and_quotes_the_provider(
    temporal: TemporalClient, thread_id: str
) -> None:
    provider = Away(seconds=3600)
    async with waiting_for(temporal, thread_id, provider, cooldown=0.1, max_backoff_secs=0.4) as client:
        await client.start("patient", "Are you there?", thread_id=thread_id)
        found = await until_cause(
            client, thread_id, Cause.MODEL_RETRYING, " times since ", ": away: ", "patience is over in"
        )
        assert found.since is not None
        [pending] = (await client.handle(thread_id).describe()).raw_description.pending_activities
        assert "inference failed: " in pending.last_failure.message
        assert " [failing since " in pending.last_failure.message
        await client.cancel(thread_id)
        assert (await client.result(thread_id)).status_reason == "cancelled"


@pytest.mark.faults
async def test_an_outage_of_ten_minutes_ends_none_of_fifty_runs(temporal: TemporalClient, thread_id: str) -> None:
    """Ten minutes with the usual settings are thirty seconds with settings that are a twentieth of them."""
    provider = Away(seconds=30)
    policy = {"backoff_base_ms": 25, "overloaded_backoff_base_ms": 100, "max_backoff_secs": 3}
    async with waiting_for(temporal, thread_id, provider, cooldown=0.5, **policy) as client:
        assert await run_all(client, thread_id, 50) == [("natural", "I am back.")] * 50
    assert provider.answers == 50
