"""One attempt at a model call: ask, gather what comes, keep it safe meanwhile, and say what went wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from opentelemetry import trace
from temporalio import activity

from wakeful.authoring.provider import AnyProvider, StreamingProvider
from wakeful.contract.agents import ModelBinding, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse, ReasoningEffort, StopReason
from wakeful.contract.streaming import StreamCheckpoint, StreamPart
from wakeful_activities.heartbeats import Heartbeats
from wakeful_activities.inference.model_choice import IDLE_STALL
from wakeful_activities.inference.recovery import continuing, interruption_of
from wakeful_activities.inference.stream_assembly import Gathering

_tracer = trace.get_tracer("wakeful")

BEAT_SECONDS = 0.2
"""How far a watcher, or a checkpoint, may lag behind the model."""

CHECKPOINT_LIMIT = 400_000
"""Characters of an answer that a heartbeat carries; a longer one is gone on with from there."""


class Stream:
    """What this attempt has of the answer, beside what the attempt before it left behind."""

    def __init__(self, attempt: int, earlier: StreamCheckpoint | None) -> None:
        self.attempt = attempt
        self.earlier = earlier
        self.asked: ModelBinding | None = None
        """The model that is answering, or whose turn it was; what it has used is paid for at its price."""
        self._kept = earlier
        self._gathering: Gathering | None = None
        self._broken: str | None = None

    def begin(self, model: str) -> Gathering:
        """Begin to gather, from what the attempt before left behind."""
        earlier = self.earlier
        self._gathering = Gathering(
            model,
            text=earlier.text if earlier else "",
            usage=earlier.usage if earlier else None,
            interruptions=(*earlier.interruptions, interruption_of(earlier)) if earlier else (),
        )
        return self._gathering

    def details(self) -> StreamCheckpoint | None:
        """What a heartbeat says. Until something new has come, that is what the attempt before left behind."""
        if self._gathering is None or self._gathering.size <= CHECKPOINT_LIMIT:
            self._kept = self.came()
        return self._kept

    def came(self) -> StreamCheckpoint | None:
        """Everything that has come, of all attempts."""
        if self._gathering is None or not self._gathering.has_news:
            return self.earlier
        return self._gathering.checkpoint(self.attempt, broken=self._broken)

    def broke(self, error: ProviderError) -> StreamCheckpoint | None:
        """What has come, if this attempt got anything before it broke off; the next attempt will find it."""
        if self._gathering is None or not self._gathering.has_news:
            return None
        self._broken = error.cause or error.kind.value
        return self.came()


async def ask(
    provider: AnyProvider, request: ModelRequest, policy: RetryPolicy, stream: Stream, beats: Heartbeats
) -> ModelResponse:
    """The model's whole answer, gone on with from where an earlier attempt broke off.

    Raises:
        ProviderError: it failed, or broke off; what has come is in `stream`.
    """
    with _tracer.start_as_current_span(f"chat {request.model}", kind=trace.SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", request.model)
        text = stream.earlier.text if stream.earlier else ""
        asked = continuing(request, text)
        if isinstance(provider, StreamingProvider):
            response = await _streamed(provider, asked, policy, stream, beats)
        else:
            response = await provider.complete(asked)
            if stream.earlier is not None:
                so_far = stream.begin(request.model).checkpoint(stream.attempt)
                update = {
                    "text": text + response.text,
                    "usage": so_far.usage.plus(response.usage),
                    "interruptions": so_far.interruptions,
                }
                response = response.model_copy(update=update)
        if response.stop_reason is StopReason.TOOL_USE and not (response.tool_calls or response.incomplete_calls):
            # Taken for the last word, it would end the run without the work it asked for.
            raise ProviderError(
                ProviderErrorKind.PROVIDER, f"model {request.model!r} said that it calls tools, and named none"
            )
        usage = response.usage
        span.set_attribute("gen_ai.response.model", response.model)
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens or 0)
        span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens or 0)
        return response


async def _streamed(
    provider: StreamingProvider, request: ModelRequest, policy: RetryPolicy, stream: Stream, beats: Heartbeats
) -> ModelResponse:
    gathering = stream.begin(request.model)
    idle = policy.stream_idle_timeout_secs * (2 if _thinks(request) else 1)
    async with _closing(provider.stream(request)) as parts:
        while True:
            patience = idle if gathering.has_news else policy.first_token_timeout_secs
            try:
                async with asyncio.timeout(patience):
                    part = await anext(parts)
            except StopAsyncIteration:
                break
            except TimeoutError as error:
                raise _silent(request, patience, is_begun=gathering.has_news) from error
            gathering.take(part)
            if gathering.has_news:
                beats.news(within=BEAT_SECONDS + gathering.size / CHECKPOINT_LIMIT)
    if not gathering.is_whole:
        message = f"the answer of model {request.model!r} ended early"
        raise ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause="connection reset")
    return gathering.response()


@contextlib.asynccontextmanager
async def _closing(parts: AsyncIterator[StreamPart]) -> AsyncIterator[AsyncIterator[StreamPart]]:
    """Close the stream, and with it its connection, however the body is left."""
    try:
        yield parts
    finally:
        close = getattr(parts, "aclose", None)  # a generator has one; a provider of somebody's own may not
        if close is not None:
            await close()


def _silent(request: ModelRequest, seconds: float, *, is_begun: bool) -> ProviderError:
    if is_begun:
        message = f"model {request.model!r} said nothing more for {seconds:g} s in the middle of its answer"
        return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=IDLE_STALL)
    message = f"model {request.model!r} did not begin to answer within {seconds:g} s"
    return ProviderError(ProviderErrorKind.TIMEOUT, message)


def _thinks(request: ModelRequest) -> bool:
    effort: ReasoningEffort | None = request.settings.reasoning_effort
    name = request.model.lower()
    named = "thinking" in name or "reasoning" in name or name.rpartition("/")[2].startswith(("o1", "o3", "o4"))
    return named or (effort is not None and effort != "none")


def left_behind() -> StreamCheckpoint | None:
    """What the attempt before this one had of the answer, if it had anything."""
    info = activity.info()
    for details in info.heartbeat_details if info.attempt > 1 else ():
        with contextlib.suppress(ValueError):  # a heartbeat that says nothing, or one of another version
            return StreamCheckpoint.model_validate(details)
    return None
