"""The spans and metrics of an inference: `chat`, and below it one `attempt` for every call of a model.

Temporal retries an inference, perhaps on another worker and hours later. So the attempt that ends it emits `chat`, from
the time at which the activity was scheduled; those before it emit only their own spans, below an id that all know.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Self

from opentelemetry.trace import Span
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.authoring.provider import AnyProvider
from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.streaming import StreamCheckpoint
from wakeful.telemetry import instruments, names
from wakeful.telemetry.attributes import usage_attributes
from wakeful.telemetry.content import request_content, response_content
from wakeful.telemetry.spans import SpanRecord, SpanRef, Value
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful.telemetry.tracing import Tracing, error_type
from wakeful_activities.inference.recovery import interruption_of
from wakeful_activities.telemetry import activity_ref, nanoseconds, server_clock

FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_USE: "tool_call",
}

PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "openai-responses": "openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of our providers and of pydantic-ai's, where they differ."""


class ChatTelemetry:
    """Around one attempt of an inference or of a compaction."""

    def __init__(self, telemetry: Telemetry = OFF) -> None:
        self._metrics = telemetry.metrics
        self._spans = None if telemetry.tracing is None else _ChatSpans(telemetry.tracing)
        self._agent = ""
        self._preferred: ModelBinding | None = None
        self._model: ModelBinding | None = None
        self._provider: AnyProvider | None = None
        self._request: ModelRequest | None = None
        self._failures = 0
        self._error: str | None = None
        """How the newest call failed, if it did."""
        self.polls = 0
        """How many attempts before this one have found a remote task at work: they have not failed."""
        self._response: ModelResponse | None = None
        self._first_chunk_at: float | None = None
        self._until_first_chunk: float | None = None
        """Seconds that the newest call took until the first part of its answer."""

    def about(self, agent_id: str, preferred: ModelBinding) -> None:
        """Whose inference it is, and the model that it should call."""
        self._agent, self._preferred = agent_id, preferred

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        final = _final_error(error)
        if self._response is not None and error is None:
            self._count(self._response)
        elif final is None:  # Temporal retries it, or no model was called
            self._count_retry(error)
            return
        if self._spans is not None:
            model = self._model or self._preferred
            self._spans.emit(model, self._attributes(model), self._response, final)

    def answered(self, response: ModelResponse) -> None:
        """The inference has an answer, unless a hook has stopped it before the model was called."""
        if not response.skipped:
            self._response = response

    @contextmanager
    def attempt(
        self,
        model: ModelBinding,
        request: ModelRequest,
        earlier: StreamCheckpoint | None,
        provider: AnyProvider | None = None,
    ) -> Iterator[None]:
        """Around one call of a model; `earlier` is the part of its answer that has arrived before."""
        self._model, self._provider, self._request = model, provider, request
        self._first_chunk_at, self._error, self._until_first_chunk = None, None, None
        # Nothing of `gen_ai.*`: tools that show model calls would count the attempt as one more, beside its `chat`.
        attributes: dict[str, Value] = {
            names.ATTEMPT: activity.info().attempt,
            names.ATTEMPT_PROVIDER: model.provider,
            names.ATTEMPT_MODEL: model.name,
        }
        if self._is_fallback(model):
            attributes[names.FALLBACK] = True
        if earlier is not None:
            attributes[names.RECOVERY] = interruption_of(earlier).plan.value
        began = time.monotonic()
        with nullcontext() if self._spans is None else self._spans.attempt(attributes) as span:
            try:
                yield
            except BaseException as raised:
                self._error = error_type(raised)
                self._failures += 1
                raise
            finally:
                self._record_call(model, began, span)

    def on_first_chunk(self) -> None:
        """The first part of a streamed answer has arrived."""
        self._first_chunk_at = self._first_chunk_at or time.monotonic()

    def _record_call(self, model: ModelBinding, began: float, span: Span | None) -> None:
        self._until_first_chunk = until_first = None if self._first_chunk_at is None else self._first_chunk_at - began
        if span is not None and until_first is not None:
            span.set_attribute(names.ATTEMPT_TIME_TO_FIRST_CHUNK, until_first)
        if self._metrics is None:
            return
        labels = {names.OPERATION: names.CHAT, **self._about(model)}
        duration = time.monotonic() - began
        self._metrics.record(instruments.MODEL_CALL_DURATION, duration, {**labels, names.ERROR_TYPE: self._error})
        if until_first is not None:
            self._metrics.record(instruments.FIRST_CHUNK, until_first, labels)

    def _count_retry(self, error: BaseException | None) -> None:
        """Count the failed call because of which Temporal retries the activity; one that is cut short did not fail."""
        if self._metrics is None or self._model is None or self._error is None:
            return
        if isinstance(error, ApplicationError):
            self._metrics.count(instruments.RETRIES, {**self._about(self._model), names.ERROR_TYPE: self._error})

    def _count(self, response: ModelResponse) -> None:
        if self._metrics is None or self._model is None:
            return
        usage, model = response.usage, {names.REQUEST_MODEL: self._model.name, names.AGENT: self._agent}
        labels = {names.OPERATION: names.CHAT, **self._about(self._model), **model}
        for kind, tokens in (("input", usage.prompt_tokens), ("output", usage.completion_tokens)):
            if tokens is not None:
                self._metrics.record(instruments.TOKEN_USAGE, tokens, {**labels, names.TOKEN_TYPE: kind})
        if usage.cost is not None:
            self._metrics.record(instruments.COST, usage.cost, model)

    def _attributes(self, model: ModelBinding | None) -> dict[str, Value]:
        attributes: dict[str, Value] = {names.OPERATION: names.CHAT, names.AGENT: self._agent}
        if model is not None:
            attributes |= self._about(model)
            if self._is_fallback(model):
                attributes[names.FALLBACK] = True
        if self._until_first_chunk is not None:
            attributes[names.TIME_TO_FIRST_CHUNK] = self._until_first_chunk
        if failures := activity.info().attempt - 1 - self.polls + self._failures:
            attributes[names.RETRIES] = failures
        if self._request is not None:
            settings = self._request.settings
            given = {
                names.REQUEST_TEMPERATURE: settings.temperature,
                names.REQUEST_TOP_P: settings.top_p,
                names.REQUEST_MAX_TOKENS: settings.max_tokens,
            }
            attributes |= {name: value for name, value in given.items() if value is not None}
            if self._spans is not None and self._spans.tracing.captures_content:
                attributes |= request_content(self._request)
        return attributes

    def _about(self, model: ModelBinding) -> dict[str, str]:
        return {names.PROVIDER: provider_name(model, self._provider), names.REQUEST_MODEL: model.name}

    def _is_fallback(self, model: ModelBinding) -> bool:
        preferred = self._preferred
        return preferred is not None and (model.provider, model.name) != (preferred.provider, preferred.name)


class _ChatSpans:
    """The `chat` span of an activity, which is emitted when it ends, and its attempts."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing = tracing
        self._clock = server_clock()
        self._parent = tracing.current()
        self._chat = activity_ref(tracing, names.CHAT, names.CHAT)
        self._calls = 0

    def attempt(self, attributes: dict[str, Value]) -> AbstractContextManager[Span]:
        self._calls += 1
        ref = activity_ref(self.tracing, names.SPAN_ATTEMPT, activity.info().attempt, self._calls)
        ref = SpanRef(self._chat.trace_id, ref.span_id, self._chat.is_sampled)
        return self.tracing.span(
            names.SPAN_ATTEMPT, ref=ref, parent=self._chat, kind="internal", attributes=attributes, clock=self._clock
        )

    def emit(
        self,
        model: ModelBinding | None,
        attributes: dict[str, Value],
        response: ModelResponse | None,
        error: str | None,
    ) -> None:
        info = activity.info()
        attributes[names.CONVERSATION] = info.workflow_id or ""
        if response is not None:
            attributes |= _response_attributes(response)
            if self.tracing.captures_content:
                attributes |= response_content(response, FINISH_REASONS[response.stop_reason])
        self.tracing.emit(
            SpanRecord(
                name=names.CHAT if model is None else f"{names.CHAT} {model.name}",
                ref=self._chat,
                parent=self._parent,
                start=nanoseconds(info.scheduled_time),
                end=self._clock(),
                attributes=attributes,
                kind="client",
                error=error,
            )
        )


def provider_name(model: ModelBinding, provider: AnyProvider | None = None) -> str:
    """The conventions' name: what the provider says itself, whatever its name in the registry; otherwise by that."""
    if isinstance(stated := getattr(provider, "gen_ai_provider", None), str):
        return stated
    # A model of pydantic-ai is named with its provider: "google:gemini-2.5-pro".
    name = model.name.partition(":")[0] if model.provider == "pydantic-ai" else model.provider
    return PROVIDERS.get(name, name)


def _final_error(error: BaseException | None) -> str | None:
    """Why the inference has failed for good; None if it has not, because Temporal retries it."""
    if isinstance(error, ApplicationError) and (error.non_retryable or _is_last_attempt()):
        return error.type or type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        details = activity.cancellation_details()
        return names.CANCELLED if details is not None and details.cancel_requested else None
    return None


def _is_last_attempt() -> bool:
    """Whether Temporal retries the activity no more, however it fails. An inference has no limit, a compaction has."""
    info = activity.info()
    most = info.retry_policy.maximum_attempts if info.retry_policy is not None else 0
    return 0 < most <= info.attempt


def _response_attributes(response: ModelResponse) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        names.RESPONSE_MODEL: response.model,
        names.FINISH_REASONS: [FINISH_REASONS[response.stop_reason]],
        **usage_attributes(response.usage),
    }
    if response.request_id is not None:
        attributes[names.RESPONSE_ID] = response.request_id
    if response.usage.cost is not None:
        attributes[names.COST] = response.usage.cost
    if response.interruptions:
        attributes[names.RECOVERY] = response.interruptions[-1].plan.value
    return attributes
