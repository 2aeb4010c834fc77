"""Whether a failed inference is retried, when, and with which message: attempt by attempt, without a server."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json
from temporalio.exceptions import ApplicationError

from tests.activities.wiring import activities, cache_of, environment
from wakeful import Agent, ModelRequest, ModelResponse, ProviderError, ProviderErrorKind, Registry, RetryPolicy
from wakeful.contract.error_text import error_text
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.streaming import Outage
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities import InferActivity
from wakeful_activities.error_texts import MAX_MESSAGE_BYTES
from wakeful_activities.inference.breakers import CircuitBreakers
from wakeful_activities.inference.patience import LOST_WORKERS

MESSAGE = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))
USUAL = RetryPolicy()
LIMITED = ProviderError(ProviderErrorKind.RATE_LIMITED, "429: slow down", retry_after=1)
DOWN = ProviderError(ProviderErrorKind.PROVIDER, "we are closed")


class Model:
    """Raises what it is given, or answers."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return ModelResponse(model=request.model, text="hello")


@dataclass
class Worker:
    """A worker's inferences, and the heartbeats that Temporal keeps of each run."""

    activity: InferActivity
    input: InferInput
    beats: dict[str, Sequence[Any]] = field(default_factory=dict)

    async def attempt(
        self, number: int = 1, *, run: str = "t", queued: timedelta = timedelta()
    ) -> ApplicationError | ModelResponse:
        running = environment()
        scheduled = datetime.now(UTC)
        running.info = replace(
            running.info,
            attempt=number,
            workflow_id=run,
            activity_id="infer-1",
            heartbeat_details=self.beats.get(run, ()),
            current_attempt_scheduled_time=scheduled,
            started_time=scheduled + queued,
        )

        def beat(*details: Any) -> None:
            self.beats[run] = [json.loads(to_json(each)) for each in details]

        running.on_heartbeat = beat
        try:
            return await running.run(self.activity.infer, self.input)
        except ApplicationError as error:
            return error

    async def failed(self, number: int = 1, **how: Any) -> ApplicationError:
        error = await self.attempt(number, **how)
        assert isinstance(error, ApplicationError)
        return error

    def outage(self, run: str = "t") -> Outage:
        return Outage.model_validate(self.beats[run][1])


@contextmanager
def worker(retry: RetryPolicy = USUAL, *, breakers: CircuitBreakers | None = None, **models: Model) -> Iterator[Worker]:
    first, *others = models
    agent = Agent(id="a", model=first, fallbacks=others, retry=retry)
    registry = Registry(agents=[agent], models=models)
    resolved = registry.resolve("a")
    input = InferInput(
        agent=resolved.digest(),
        transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, MESSAGE)),
        appended=(MESSAGE,),
    )
    with activities(registry, cache_of(resolved), breakers=breakers) as made:
        yield Worker(made.infer, input)


def seconds(error: ApplicationError) -> float:
    assert error.next_retry_delay is not None
    return error.next_retry_delay.total_seconds()


async def test_runs_that_are_rate_limited_wait_as_long_as_the_provider_says_and_none_ends() -> None:
    """B-122, B-127"""
    model = Model(LIMITED)
    with worker(m=model) as here:
        errors = [await here.failed(1, run=f"run-{number}") for number in range(8)]
        assert {(error.type, error.non_retryable) for error in errors} == {("rate_limited", False)}
        assert all(0.9 <= seconds(error) < 1.5 for error in errors)
        assert model.calls == 5  # then the circuit breaker is open, for the second that the provider asked for
        assert "429: slow down" in errors[-1].message


async def test_a_run_that_is_held_back_is_not_ended_and_continues_when_the_model_answers() -> None:
    """B-127"""
    model, now = Model(DOWN), 0.0
    with worker(m=model, breakers=CircuitBreakers(clock=lambda: now)) as here:
        for number in range(5):
            await here.failed(1, run=f"unlucky-{number}")
        held = await here.failed(1)
        assert (held.type, held.non_retryable, model.calls) == ("provider", False, 5)
        assert "has failed 5 times in a row on this worker, at last: we are closed" in held.message
        assert 10 <= seconds(held) <= 12
        model.error = None
        now += 10
        assert isinstance(await here.attempt(2), ModelResponse)


async def test_transient_failures_are_retried_for_as_long_as_the_agents_patience() -> None:
    """B-120, B-127"""
    policy = RetryPolicy(patience_secs=3600, max_retries=0)
    with worker(policy, breakers=CircuitBreakers(failures=1_000), m=Model(DOWN)) as here:
        for number in range(1, 30):
            error = await here.failed(number)
            assert not error.non_retryable
        outage = here.outage()
        assert (outage.failures, outage.attempt, outage.until - outage.since) == (29, 29, 3_600_000)
        assert f"29 failed attempts; retried until {clock(outage.until)}]" in error.message
        assert error.message.startswith(f"inference failed: we are closed [failing since {clock(outage.since)}")

        here.beats["t"] = [None, outage.model_copy(update={"until": outage.since}).model_dump(mode="json")]
        last = await here.failed(30)
        assert last.non_retryable
        assert "inference failed: we are closed [" in last.message
        assert "30 failed attempts; its patience of 1:00:00 is over]" in last.message


async def test_time_without_a_worker_does_not_use_up_the_patience() -> None:
    with worker(RetryPolicy(patience_secs=60, max_retries=0), m=Model(DOWN)) as here:
        await here.failed(1)
        before = here.outage()
        await here.failed(2, queued=timedelta(days=3))
        assert here.outage().until - before.until == 3 * 86_400_000


async def test_an_agent_without_patience_makes_its_retries_and_is_not_held_back() -> None:
    model = Model(DOWN)
    with worker(RetryPolicy(patience_secs=0, max_retries=6), m=model) as here:
        errors = [await here.failed(number) for number in range(1, 8)]
    assert [error.non_retryable for error in errors] == [False] * 6 + [True]
    assert (model.calls, errors[-1].message) == (7, "inference failed: we are closed")


async def test_a_fallback_is_called_at_once_if_the_provider_asks_for_time() -> None:
    """B-122, B-124"""
    limited = ProviderError(ProviderErrorKind.RATE_LIMITED, "an hour, please", retry_after=3600)
    main, spare = Model(limited), Model()
    with worker(main=main, spare=spare) as here:
        assert seconds(await here.failed(1)) == 0
        with worker(main=main, spare=spare) as another:  # which finds the time in the heartbeat
            another.beats = here.beats
            assert isinstance(await another.attempt(2), ModelResponse)
    assert (main.calls, spare.calls) == (1, 1)


async def test_runs_that_fail_together_are_not_retried_together() -> None:
    with worker(m=Model(DOWN)) as here:
        delays = {seconds(await here.failed(1, run=f"run-{number}")) for number in range(4)}
        assert len(delays) == 4
        assert all(0.5 <= delay <= 0.6 for delay in delays)


async def test_a_provider_that_cannot_be_reached_is_away_and_not_broken() -> None:
    with worker(m=Model(ConnectionRefusedError("nothing listens there"))) as here:
        error = await here.failed(1)
    assert (error.type, error.non_retryable) == ("provider", False)
    assert "ConnectionRefusedError: nothing listens there" in error.message


async def test_a_bug_of_a_provider_ends_the_run_after_a_few_attempts() -> None:
    with worker(m=Model(KeyError("choices"))) as here:
        first, last = await here.failed(1), await here.failed(LOST_WORKERS + 1)
    assert [(error.type, error.non_retryable) for error in (first, last)] == [("KeyError", False), ("KeyError", True)]
    assert last.message == "the inference raised KeyError; the detail of this failure has its text"
    assert error_text(last.details) == "KeyError: 'choices'"


async def test_an_inference_that_costs_worker_after_worker_ends_its_run() -> None:
    model = Model()
    with worker(m=model) as here:
        error = await here.failed(LOST_WORKERS + 2)
        assert (error.non_retryable, model.calls) == (True, 0)
        assert "its worker was lost 6 times in a row" in error.message
        before = Outage(since=0, until=9**15, attempt=LOST_WORKERS + 1, failures=3)
        here.beats["t"] = [None, before.model_dump(mode="json")]
        assert isinstance(await here.attempt(LOST_WORKERS + 2), ModelResponse)  # those attempts failed, and said so


async def test_a_failure_is_short_and_has_no_chain_of_tracebacks() -> None:
    """Temporal keeps about 4,000 bytes of the failure of a pending activity."""
    long = ProviderError(ProviderErrorKind.OVERLOADED, "a page\n" + "ü" * 50_000)
    with worker(m=Model(long)) as here:
        error = await here.failed(1)
    assert len(error.message.encode()) <= MAX_MESSAGE_BYTES + 3
    assert (error.__cause__, error.__suppress_context__) == (None, True)


def clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
