"""An answer while it comes: parts go in, and at any time a checkpoint, or in the end the whole answer, comes out."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.inference import Interruption, ModelResponse, RecoveryPlan, StopReason
from wakeful.contract.messages import ThinkingBlock, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArguments,
    CallClosed,
    CallOpened,
    Opened,
    PartialCall,
    Reasoning,
    Stop,
    StreamCheckpoint,
    StreamPart,
    Text,
    Used,
)


@dataclass
class _Call:
    id: str
    name: str
    arguments: list[str]
    closed: bool = False


class Gathering:
    """What has come of one answer. It may begin with what an earlier attempt left behind.

    Args:
        model: who was asked, in case the answer does not say who answers.
        text: what the answer begins with already.
        usage: what earlier attempts at it have used.
        interruptions: how often it broke off.
    """

    def __init__(
        self,
        model: str,
        *,
        text: str = "",
        usage: Usage | None = None,
        interruptions: tuple[Interruption, ...] = (),
    ) -> None:
        self._model = model
        self._request_id: str | None = None
        self._text = [text] if text else []
        self._size = self._size_before = len(text)
        self._reasoning: list[str] = []
        self._thinking: list[ThinkingBlock] = []
        self._calls: dict[int, _Call] = {}
        self._used_before = usage or Usage()
        self._usage = Usage()
        self._interruptions = interruptions
        self._stop: StopReason | None = None

    @property
    def is_whole(self) -> bool:
        return self._stop is not None

    @property
    def has_news(self) -> bool:
        """Something has come that was not there before."""
        return self._size > self._size_before or bool(self._calls)

    @property
    def size(self) -> int:
        """About how many characters have come."""
        return self._size

    def take(self, part: StreamPart) -> None:
        match part:
            case Opened(model=model, request_id=request_id):
                self._model = model or self._model
                self._request_id = request_id or self._request_id
            case Text(text=text):
                self._text.append(text)
                self._size += len(text)
            case Reasoning(text=text, signature=signature):
                self._reasoning.append(text)
                self._size += len(text)
                if signature is not None:
                    self._thinking.append(ThinkingBlock(thinking="".join(self._reasoning), signature=signature))
                    self._reasoning.clear()
            case CallOpened(index=index, id=id, name=name):
                self._close_all()
                self._calls[index] = _Call(id, name, [])
            case CallArguments(index=index, text=text):
                self._calls[index].arguments.append(text)
                self._size += len(text)
            case CallClosed(index=index):
                self._calls[index].closed = True
            case Used(usage=usage):
                self._usage = usage
            case Stop(reason=reason):
                self._close_all()
                self._stop = reason

    def _close_all(self) -> None:
        for call in self._calls.values():
            call.closed = True

    @property
    def usage(self) -> Usage:
        return self._used_before.plus(self._usage)

    def checkpoint(self, attempt: int, *, broken: str | None = None) -> StreamCheckpoint:
        """As much as has come, for whoever watches or goes on with it."""
        return StreamCheckpoint(
            attempt=attempt,
            model=self._model,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            thinking=tuple(self._thinking),
            calls=tuple(
                PartialCall(id=call.id, name=call.name, arguments="".join(call.arguments), closed=call.closed)
                for call in self._calls.values()
            ),
            usage=self.usage,
            interruptions=self._interruptions,
            broken=broken,
        )

    def response(self) -> ModelResponse:
        """The whole answer. A call with arguments that nobody can read is not part of it, only its name is."""
        assert self._stop is not None
        came = self.checkpoint(0)
        calls, incomplete = read_calls(came.calls)
        stop = self._stop
        if stop is StopReason.MAX_TOKENS and came.calls and not came.calls[-1].arguments.strip():
            # The limit came before its first argument: nobody knows what it was to be called with.
            calls, incomplete = calls[:-1], (*incomplete, came.calls[-1].name)
        if calls and stop is StopReason.END_TURN:  # some servers say that they stop whatever they ask for
            stop = StopReason.TOOL_USE
        return ModelResponse(
            model=came.model,
            text=came.text,
            tool_calls=calls,
            incomplete_calls=incomplete,
            stop_reason=stop,
            usage=came.usage,
            request_id=self._request_id,
            interruptions=came.interruptions,
            reasoning=_unsigned(came),
            thinking=came.thinking,
        )


def so_far(came: StreamCheckpoint) -> ModelResponse:
    """An answer that was called off: what it said, and no calls."""
    return ModelResponse(
        model=came.model,
        text=came.text,
        usage=came.usage,
        interruptions=came.interruptions,
        reasoning=_unsigned(came),
        thinking=came.thinking,
    )


def synthesized(came: StreamCheckpoint, interruption: Interruption) -> ModelResponse:
    """The answer that the complete calls of a broken one make: nobody has to be asked for them again."""
    assert interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE
    calls, _ = read_calls(call for call in came.calls if call.closed)
    return ModelResponse(
        model=came.model,
        text=came.text,
        tool_calls=calls,
        stop_reason=StopReason.TOOL_USE,
        usage=came.usage,
        interruptions=(*came.interruptions, interruption),
        reasoning=_unsigned(came),
        thinking=came.thinking,
    )


def _unsigned(came: StreamCheckpoint) -> str:
    """Reasoning that the provider does not want back; what it has signed says the same again."""
    return "" if came.thinking else came.reasoning


def read_calls(written: Iterable[PartialCall]) -> tuple[tuple[ToolCall, ...], tuple[str, ...]]:
    """The calls whose arguments can be read, and the names of the others."""
    calls, unread = [], []
    for call in written:
        try:
            calls.append(ToolCall(id=call.id, name=call.name, arguments=_arguments(call.arguments)))
        except ValueError:
            unread.append(call.name)
    return tuple(calls), tuple(unread)


def _arguments(written: str) -> JsonValue:
    if not written.strip():
        return None
    arguments: JsonValue = from_json(written, allow_inf_nan=False)
    return arguments
