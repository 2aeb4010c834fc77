"""Answers of pydantic-ai's models: parts that start, grow and end. Pure: events go in, stream parts come out."""

from collections.abc import Iterator

from pydantic_ai import messages as ai
from pydantic_ai.usage import RequestUsage

from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StreamPart,
    TextPart,
)
from wakeful_activities.providers.pydantic_ai.artifacts import Artifact, json_details
from wakeful_activities.providers.shared.failures import Endpoint, content_filtered, malformed_event
from wakeful_activities.providers.shared.writing import arguments_text

_STOP_SEQUENCES = frozenset({"stop_sequence", "STOP_SEQUENCE"})

_ENDED_BY_TRANSPORT = frozenset({"xai"})
"""Providers over gRPC, which itself reports a stream that was cut off; they record no raw finish reason."""


class AnswerReader:
    """Reads one answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.system: str | None = None
        """The service that verifies what is sent back, if that is not the provider."""
        self._sent: dict[int, str] = {}
        """What has been forwarded of each part."""
        self._last_call: tuple[int, ai.ToolCallPart] | None = None
        self.has_begun = False

    def read_event(self, event: ai.ModelResponseStreamEvent) -> Iterator[StreamPart]:
        """The parts that one event of a stream adds."""
        match event:
            case ai.PartStartEvent(index=index, part=part):
                yield from self._started(index, part)
            case ai.PartDeltaEvent(index=index, delta=delta):
                yield from self._grown(index, delta)
            case ai.PartEndEvent():
                yield from self._ended(event)
            case _:  # that an answer matches an output type is ours to find out
                pass

    def read_response(self, response: ai.ModelResponse) -> Iterator[StreamPart]:
        """The parts of an answer that was not streamed."""
        for index, part in enumerate(response.parts):
            yield from self._started(index, part)
            if isinstance(part, ai.ToolCallPart):
                yield from self._call_ended(index, part)
            else:
                yield from self._ended(ai.PartEndEvent(index=index, part=part))

    def finish(self) -> Iterator[StreamPart]:
        """What was held back until the answer is known to be complete."""
        if self._last_call is not None:
            yield from self._call_ended(*self._last_call)

    def _started(self, index: int, part: ai.ModelResponsePart) -> Iterator[StreamPart]:
        match part:
            case ai.TextPart(content=text):
                yield from self._text(index, self._rest(index, text))
            case ai.ThinkingPart(content=text):
                yield from self._reasoning(index, self._rest(index, text))
            case ai.ToolCallPart(tool_name=name, tool_call_id=id, args=args):
                if index not in self._sent:
                    self._sent[index] = ""
                    self.has_begun = True
                    yield CallStartPart(index, id, name)
                if isinstance(args, str):  # other arguments may still grow by keys, and are sent when the call ends
                    yield from self._arguments(index, self._rest(index, args))
            case _:  # tools that the provider itself runs, files and compactions are not part of our conversations
                pass

    def _grown(self, index: int, delta: ai.ModelResponsePartDelta) -> Iterator[StreamPart]:
        match delta:
            case ai.TextPartDelta(content_delta=text):
                yield from self._text(index, text)
            case ai.ThinkingPartDelta(content_delta=text):
                yield from self._reasoning(index, text or "")
            case ai.ToolCallPartDelta(args_delta=str(text)) if index in self._sent:
                yield from self._arguments(index, text)
            case _:
                pass

    def _ended(self, event: ai.PartEndEvent) -> Iterator[StreamPart]:
        match event.part:
            case ai.ToolCallPart() as call if event.next_part_kind is None:
                self._last_call = event.index, call  # a stream that was cut off ends its last part, too
            case ai.ToolCallPart() as call:
                yield from self._call_ended(event.index, call)
            case ai.TextPart() | ai.ThinkingPart():
                yield from self._artifact(event.part)
            case _:
                pass

    def _call_ended(self, index: int, call: ai.ToolCallPart) -> Iterator[StreamPart]:
        if not isinstance(call.args, str):
            yield from self._arguments(index, arguments_text(json_details(call.args) or None))
        yield CallEndPart(index)
        yield from self._artifact(call)

    def _artifact(self, part: ai.TextPart | ai.ThinkingPart | ai.ToolCallPart) -> Iterator[StreamPart]:
        artifact = Artifact(
            pydantic_ai=part.part_kind,
            call=part.tool_call_id if isinstance(part, ai.ToolCallPart) else None,
            id=part.id,
            signature=part.signature if isinstance(part, ai.ThinkingPart) else None,
            provider=part.provider_name,
            system=self.system,
            details=json_details(part.provider_details),
        )
        if (signature := artifact.as_signature()) is not None:
            yield ReasoningPart(signature=signature)

    def _rest(self, index: int, text: str) -> str:
        """What a part that starts adds to what has been forwarded: pydantic-ai may start a part again, with more."""
        sent = self._sent.get(index, "")
        if not text.startswith(sent):
            raise malformed_event(self._endpoint, "it replaced a part that it had already sent", text)
        return text[len(sent) :]

    def _text(self, index: int, text: str) -> Iterator[StreamPart]:
        if text:
            self._forward(index, text)
            yield TextPart(text)

    def _reasoning(self, index: int, text: str) -> Iterator[StreamPart]:
        if text:
            self._forward(index, text)
            yield ReasoningPart(text)

    def _arguments(self, index: int, text: str) -> Iterator[StreamPart]:
        if text:
            self._forward(index, text)
            yield CallArgumentsPart(index, text)

    def _forward(self, index: int, text: str) -> None:
        self.has_begun = True
        self._sent[index] = self._sent.get(index, "") + text


def is_cut_off(response: ai.ModelResponse) -> bool:
    """Whether a stream that ended properly, as far as its transport can tell, lacks its last event."""
    if response.state == "incomplete":
        return True
    if response.provider_url is None or response.provider_name in _ENDED_BY_TRANSPORT:
        return False  # the model is in this process, or its transport has said so
    # pydantic-ai writes "stop" for a Chat Completions stream without a finish reason, but records no raw one.
    has_raw = "finish_reason" in (response.provider_details or {})
    return not has_raw and response.finish_reason in (None, "stop")


def stop_reason(response: ai.ModelResponse, endpoint: Endpoint) -> StopReason:
    """Why the model stopped.

    Raises:
        ProviderError: it did not finish: the provider's filter stopped it, or the model wrote something malformed.
    """
    raw = str((response.provider_details or {}).get("finish_reason") or response.finish_reason)
    match response.finish_reason:
        case "content_filter":
            raise content_filtered(endpoint)
        case "error":
            raise malformed_event(endpoint, f"finish reason {endpoint.quote(raw)}", raw)
        case "length":
            return StopReason.MAX_TOKENS
        case "tool_call":
            return StopReason.TOOL_USE
        case _:
            return StopReason.STOP_SEQUENCE if raw in _STOP_SEQUENCES else StopReason.END_TURN


def used(usage: RequestUsage) -> Usage | None:
    """The tokens of an answer; None if the provider has not counted them."""
    if usage.unmeasured_requests or not (usage.input_tokens or usage.output_tokens):
        return None
    return Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens or None,
        cache_creation_tokens=usage.cache_write_tokens or None,
        thinking_tokens=usage.output_reasoning_tokens or None,
    )
