"""Assemble a streamed answer: parts go in; a checkpoint comes out at any time, and the complete answer at the end.

Every streaming provider's parts pass here, also those of users' own providers, so the limits of an answer are judged
here, with each part: a model that never stops fails its call at the limit, and not when the memory is full.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json
from temporalio.exceptions import ApplicationError

from wakeful.contract import ids
from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import Interruption, ModelResponse, RecoveryPlan, StopReason
from wakeful.contract.limits import ANSWER_BYTES, ANSWER_CALLS, ANSWER_PARTS
from wakeful.contract.messages import ThinkingBlock, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    PartialCall,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamCheckpoint,
    StreamPart,
    TextPart,
    UsagePart,
)

_CALL_BYTES = 60
"""What a call has in an answer besides its name and its arguments."""


def answer_too_large(problem: str) -> ApplicationError:
    """The error for an answer that history cannot hold. Calling the model again would not change it."""
    advice = "set max_tokens in the model settings of the agent, or ask the model for a shorter answer"
    return ApplicationError(f"the model's answer has {problem}; {advice}", type="AnswerTooLarge", non_retryable=True)


@dataclass
class _Call:
    id: str
    provider_id: str
    name: str
    arguments: list[str]
    closed: bool = False


class StreamAssembly:
    """What has arrived of one answer, including what an earlier attempt left behind.

    Args:
        model: the model that was called.
        step: the thread's step, for the ids of calls.
        earlier: what the earlier attempt left behind.
        interruption: why that attempt was interrupted.
    """

    def __init__(
        self,
        model: ModelBinding,
        step_label: str,
        earlier: StreamCheckpoint | None = None,
        interruption: Interruption | None = None,
    ) -> None:
        self._model = model.name
        self._provider = model.provider
        self._step_label = step_label
        self._calls_before = earlier.calls_used if earlier else 0
        self._request_id: str | None = None
        self._text = [earlier.text] if earlier and earlier.text else []
        self._size = self._size_before = sum(map(_bytes, self._text))
        self._more_bytes = self._parts = 0
        self._reasoning: list[str] = []
        self._thinking: list[ThinkingBlock] = []
        self._calls: dict[int, _Call] = {}
        self._open: list[_Call] = []
        self._used_before = earlier.usage if earlier else Usage()
        self._usage = Usage()
        before = earlier.interruptions if earlier else ()
        self._interruptions = before if interruption is None else (*before, interruption)
        self._stop: StopReason | None = None

    @property
    def is_complete(self) -> bool:
        return self._stop is not None

    @property
    def has_news(self) -> bool:
        """Something has arrived in this attempt."""
        return self._size > self._size_before or bool(self._calls)

    @property
    def size(self) -> int:
        """About how many bytes have arrived."""
        return self._size + self._more_bytes

    def add(self, part: StreamPart) -> None:
        """Add what has arrived.

        Raises:
            ApplicationError: the answer is longer than any may be.
        """
        self._take(part)
        self._parts += 1
        if self.size > ANSWER_BYTES:
            raise answer_too_large(f"more than {ANSWER_BYTES:,} bytes")
        if len(self._calls) > ANSWER_CALLS:
            raise answer_too_large(f"more than {ANSWER_CALLS:,} tool calls")
        if self._parts > ANSWER_PARTS:
            raise answer_too_large(f"more than {ANSWER_PARTS:,} parts")

    def _take(self, part: StreamPart) -> None:
        match part:
            case StartPart(model=model, request_id=request_id):
                self._model = model or self._model
                self._request_id = request_id or self._request_id
            case TextPart(text=text):
                self._append(self._text, text)
            case ReasoningPart(text=text, signature=signature):
                self._append(self._reasoning, text)
                if signature is not None:
                    self._more_bytes += _bytes(signature)
                    self._thinking.append(ThinkingBlock(thinking="".join(self._reasoning), signature=signature))
                    self._reasoning.clear()
            case CallStartPart(index=index, id=provider_id, name=name):
                self._close_all()
                id = ids.call_id(self._step_label, self._calls_before + len(self._calls) + 1)
                self._calls[index] = call = _Call(id, provider_id, name, [])
                self._open.append(call)
                self._more_bytes += _CALL_BYTES + _bytes(name) + _bytes(provider_id)
            case CallArgumentsPart(index=index, text=text):
                self._append(self._calls[index].arguments, text)
            case CallEndPart(index=index):
                self._calls[index].closed = True
            case UsagePart(usage=usage):
                self._usage = usage
            case StopPart(reason=reason):
                self._close_all()
                self._stop = reason

    def _append(self, texts: list[str], text: str) -> None:
        if text:
            texts.append(text)
            self._size += _bytes(text)

    def _close_all(self) -> None:
        for call in self._open:
            call.closed = True
        self._open.clear()

    @property
    def usage(self) -> Usage:
        return self._used_before.plus(self._usage)

    def checkpoint(self, attempt: int, *, broken: str | None = None) -> StreamCheckpoint:
        """What has arrived, for watchers and for the next attempt."""
        return StreamCheckpoint(
            attempt=attempt,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            thinking=tuple(self._thinking),
            calls=tuple(
                PartialCall(
                    id=call.id,
                    name=call.name,
                    arguments="".join(call.arguments),
                    closed=call.closed,
                    provider=self._provider if call.provider_id else None,
                    provider_id=call.provider_id or None,
                )
                for call in self._calls.values()
            ),
            calls_used=self._calls_before + len(self._calls),
            usage=self.usage,
            interruptions=self._interruptions,
            broken=broken,
        )

    def response(self) -> ModelResponse:
        """The complete answer. Of a call with malformed arguments it has only the name."""
        assert self._stop is not None
        arrived = self.checkpoint(0)
        calls, malformed = parse_calls(arrived.calls)
        stop = self._stop
        if stop is StopReason.MAX_TOKENS and arrived.calls and not arrived.calls[-1].arguments.strip():
            # The limit was reached before the first argument: it is not known what the call's arguments are.
            calls, malformed = calls[:-1], (*malformed, arrived.calls[-1].name)
        if calls and stop is StopReason.END_TURN:  # some servers report the end of the turn whatever they ask for
            stop = StopReason.TOOL_USE
        return partial_response(arrived).model_copy(
            update={
                "tool_calls": calls,
                "incomplete_calls": malformed,
                "stop_reason": stop,
                "request_id": self._request_id,
            }
        )


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def partial_response(arrived: StreamCheckpoint) -> ModelResponse:
    """The answer of a call that was cancelled: what has arrived of it, without tool calls."""
    return ModelResponse(
        model=arrived.model,
        text=arrived.text,
        usage=arrived.usage,
        interruptions=arrived.interruptions,
        # Signed blocks repeat the reasoning, and are what the provider must be sent back.
        reasoning="" if arrived.thinking else arrived.reasoning,
        thinking=arrived.thinking,
    )


def synthesized_response(arrived: StreamCheckpoint, interruption: Interruption) -> ModelResponse:
    """The answer made of the complete calls of an interrupted one: the model need not be called again for them."""
    assert interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE
    calls, _ = parse_calls(call for call in arrived.calls if call.closed)
    return partial_response(arrived).model_copy(
        update={
            "tool_calls": calls,
            "stop_reason": StopReason.TOOL_USE,
            "interruptions": (*arrived.interruptions, interruption),
        }
    )


def parse_calls(partial: Iterable[PartialCall]) -> tuple[tuple[ToolCall, ...], tuple[str, ...]]:
    """The calls with valid arguments, and the names of the others."""
    calls, malformed = [], []
    for call in partial:
        try:
            arguments = _arguments(call.arguments)
        except ValueError:
            malformed.append(call.name)
            continue
        calls.append(
            ToolCall(
                id=call.id,
                name=call.name,
                arguments=arguments,
                provider=call.provider,
                provider_id=call.provider_id,
            )
        )
    return tuple(calls), tuple(malformed)


def _arguments(text: str) -> JsonValue:
    if not text.strip():
        return None
    arguments: JsonValue = from_json(text, allow_inf_nan=False)
    return arguments
