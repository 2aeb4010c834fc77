"""One attempt at a model call: send the request, assemble the answer, heartbeat it, and report what went wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from temporalio import activity

from wakeful.authoring.provider import AnyProvider, Provider, StreamingProvider, streams
from wakeful.contract.agents import ModelBinding, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.missing import Missing
from wakeful.contract.model_settings import ReasoningEffort
from wakeful.contract.streaming import Outage, StreamCheckpoint, StreamPart
from wakeful_activities.blocked_loop import running_in_loop
from wakeful_activities.heartbeats import Heartbeats
from wakeful_activities.inference.call_ids import with_own_ids, with_provider_ids
from wakeful_activities.inference.chat_telemetry import ChatTelemetry
from wakeful_activities.inference.model_choice import IDLE_STALL
from wakeful_activities.inference.recovery import continuing, interruption_of
from wakeful_activities.inference.stream_assembly import StreamAssembly
from wakeful_activities.other_workers import missing_before
from wakeful_activities.user_code import contained

D = TypeVar("D", StreamCheckpoint, Outage)

CHECKPOINT_LIMIT = 400_000
"""Bytes of an answer that a heartbeat carries; a longer one is continued from there."""


class Stream:
    """The part of an answer that has arrived, in this attempt and in the one before it, and how earlier ones failed."""

    def __init__(
        self,
        step_label: str,
        attempt: int,
        earlier: StreamCheckpoint | None = None,
        outage: Outage | None = None,
        missing: Missing | None = None,
        *,
        telemetry: ChatTelemetry | None = None,
    ) -> None:
        self.telemetry = telemetry or ChatTelemetry()
        self.step_label = step_label
        self.attempt = attempt
        self.earlier = earlier
        self.outage = outage
        self.missing = missing
        """What the newest attempt without a provider, gate or plugin did not find."""
        self.model: ModelBinding | None = None
        """The model that is called: its price applies to the tokens that were used."""
        self._last_checkpoint = earlier
        self._assembly: StreamAssembly | None = None
        self._broken: str | None = None

    def begin(self, model: ModelBinding) -> StreamAssembly:
        """Start to assemble the answer, from what the attempt before left behind."""
        interruption = interruption_of(self.earlier) if self.earlier else None
        self._assembly = StreamAssembly(model, self.step_label, self.earlier, interruption)
        return self._assembly

    @property
    def lost(self) -> int:
        """How many attempts before this one ended without a report, since the last one that made one."""
        reports = (report.attempt for report in (self.outage, self.missing) if report is not None)
        return self.attempt - 1 - max((n for n in reports if n < self.attempt), default=0)

    @property
    def failures(self) -> int:
        """How many attempts failed before anything arrived, also because their workers were lost."""
        # A lost worker that left a part of the answer behind is an interruption, which counts separately.
        interrupted = self.earlier is not None and self.earlier.broken is None
        return (self.outage.failures if self.outage else 0) + max(0, self.lost - interrupted)

    def heartbeat(self) -> tuple[StreamCheckpoint | Outage | Missing | None, ...]:
        """The next heartbeat. Until something arrives, that is what the attempt before left behind."""
        if self._assembly is None or self._assembly.size <= CHECKPOINT_LIMIT:
            self._last_checkpoint = self.arrived()
        reports = tuple(report for report in (self.outage, self.missing) if report is not None)
        if reports:
            return (self._last_checkpoint, *reports)
        return () if self._last_checkpoint is None else (self._last_checkpoint,)

    def arrived(self) -> StreamCheckpoint | None:
        """Everything that has arrived, in all attempts."""
        if self._assembly is None or not self._assembly.has_news:
            return self.earlier
        return self._assembly.checkpoint(self.attempt, broken=self._broken)

    def interrupted(self, error: ProviderError) -> StreamCheckpoint | None:
        """What has arrived, if anything did before this attempt was interrupted; the next attempt finds it."""
        if self._assembly is None or not self._assembly.has_news:
            return None
        self._broken = error.cause or error.kind.value
        return self.arrived()


def earlier_attempts() -> tuple[StreamCheckpoint | None, Outage | None, Missing | None]:
    """What had arrived in the attempt before this one, how earlier ones failed, and what their workers lacked."""
    info = activity.info()
    details = info.heartbeat_details if info.attempt > 1 else ()
    return _first(details, StreamCheckpoint), _first(details, Outage), missing_before()


def _first(details: Sequence[object], kind: type[D]) -> D | None:
    for each in details:
        with contextlib.suppress(ValueError):  # the other kind, or of another version
            return kind.model_validate(each)
    return None


async def call_provider(
    provider: AnyProvider,
    model: ModelBinding,
    request: ModelRequest,
    policy: RetryPolicy,
    stream: Stream,
    beats: Heartbeats,
) -> ModelResponse:
    """The model's complete answer, continued from where an earlier attempt was interrupted.

    Raises:
        ProviderError: the call failed or was interrupted; `stream` has what arrived.
    """
    request = with_provider_ids(request.model_copy(update={"model": model.name}), model.provider)
    with stream.telemetry.attempt(model, request, stream.earlier, provider):
        text = stream.earlier.text if stream.earlier else ""
        continued = continuing(request, text)
        try:
            with contained(), running_in_loop(f"provider of model {request.model}"):
                if streams(provider):
                    response = await _streamed(provider, model, continued, policy, stream, beats)
                else:
                    response = await _completed(provider, model, continued, stream)
        except OSError as error:  # a provider of the user's own need not translate what every socket can raise
            message = f"model {request.model!r} could not be reached ({type(error).__name__}: {error})"
            raise ProviderError(ProviderErrorKind.PROVIDER, message) from error
        if response.stop_reason is StopReason.TOOL_USE and not (response.tool_calls or response.incomplete_calls):
            # As a final answer, it would end the run without the calls that the model meant to make.
            raise ProviderError(
                ProviderErrorKind.PROVIDER, f"model {request.model!r} stopped to call tools, but called none"
            )
        return response


async def _completed(provider: Provider, model: ModelBinding, request: ModelRequest, stream: Stream) -> ModelResponse:
    response = await provider.complete(request)
    if stream.earlier is None:
        return with_own_ids(response, model, step_label=stream.step_label)
    before = stream.begin(model).checkpoint(stream.attempt)
    response = response.model_copy(
        update={
            "text": before.text + response.text,
            "usage": before.usage.plus(response.usage),
            "interruptions": before.interruptions,
        }
    )
    return with_own_ids(response, model, step_label=stream.step_label, calls_before=before.calls_used)


async def _streamed(
    provider: StreamingProvider,
    model: ModelBinding,
    request: ModelRequest,
    policy: RetryPolicy,
    stream: Stream,
    beats: Heartbeats,
) -> ModelResponse:
    assembly = stream.begin(model)
    idle = policy.stream_idle_timeout_secs * (2 if _is_reasoning(request) else 1)
    async with _closing(provider.stream(request)) as parts:
        while True:
            patience = idle if assembly.has_news else policy.first_token_timeout_secs
            try:
                async with asyncio.timeout(patience):
                    part = await anext(parts)
            except StopAsyncIteration:
                break
            except TimeoutError as error:
                raise _stalled(request, patience, has_started=assembly.has_news) from error
            assembly.add(part)
            if assembly.has_news:
                stream.telemetry.on_first_chunk()
                beats.news(delay=assembly.size / CHECKPOINT_LIMIT)
    if not assembly.is_complete:
        message = f"the answer of model {request.model!r} ended early"
        raise ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause="connection reset")
    return assembly.response()


@contextlib.asynccontextmanager
async def _closing(parts: AsyncIterator[StreamPart]) -> AsyncIterator[AsyncIterator[StreamPart]]:
    """Close the stream, and with it its connection, however the body is left."""
    try:
        yield parts
    finally:
        close = getattr(parts, "aclose", None)  # a generator has it; the iterator of a user's provider may not
        if close is not None:
            await close()


def _stalled(request: ModelRequest, seconds: float, *, has_started: bool) -> ProviderError:
    if has_started:
        message = f"model {request.model!r} sent nothing for {seconds:g} s in the middle of its answer"
        return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=IDLE_STALL)
    message = f"model {request.model!r} did not start to answer within {seconds:g} s"
    return ProviderError(ProviderErrorKind.TIMEOUT, message)


def _is_reasoning(request: ModelRequest) -> bool:
    effort: ReasoningEffort | None = request.settings.reasoning_effort
    name = request.model.lower()
    named = "thinking" in name or "reasoning" in name or name.rpartition("/")[2].startswith(("o1", "o3", "o4"))
    return named or (effort is not None and effort != "none")
