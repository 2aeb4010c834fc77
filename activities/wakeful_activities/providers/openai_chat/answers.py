"""Answers of the Chat Completions API.

Written for those who speak it after OpenAI too: they leave out ids, indexes, the last event or the stream itself, and
are understood. The API does not say when a call is written to its end: the next one, or the stop, tells.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import Field, JsonValue
from pydantic_core import from_json

from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import CallArgumentsPart, CallStartPart, ReasoningPart, StreamPart, TextPart, UsagePart
from wakeful_activities.providers.shared.failures import Callee, complained, garbage, malformed, withheld
from wakeful_activities.providers.shared.reading import Read, Reader
from wakeful_activities.providers.shared.sse import Event
from wakeful_activities.providers.shared.writing import as_text


class _Function(Read):
    name: str | None = None
    arguments: JsonValue = None


class _Call(Read):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Said(Read):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_Call, ...] | None = None


class _Details(Read):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Read):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Delta(Read):
    delta: _Said | None = None
    finish_reason: str | None = None


class _Chunk(Read):
    model: str | None = None
    choices: tuple[_Delta, ...] | None = None
    usage: _Usage | None = None
    error: JsonValue = None


class _Choice(Read):
    message: _Said
    finish_reason: str


class _Completion(Read):
    model: str | None = None
    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: _Usage | None = None


_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
}


@dataclass
class _Opening:
    """A call as far as it has been read. It is held back until it has a name."""

    index: int
    id: str
    name: str = ""
    arguments: str = ""


class ChatReader(Reader):
    def __init__(self, callee: Callee, request_id: str | None) -> None:
        super().__init__(callee, request_id)
        self._calls: list[_Opening] = []
        self._by_index: dict[int, _Opening] = {}

    def event(self, event: Event) -> Iterator[StreamPart]:
        if event.data.strip() == "[DONE]":
            self.is_done = True
            return
        chunk = self._event(_Chunk, event.data)
        if chunk.error is not None or event.name == "error":
            raise complained(self._callee, event.data)
        yield from self._opened(chunk.model)
        for choice in (chunk.choices or ())[:1]:
            yield from self._said(choice.delta or _Said())
            if choice.finish_reason:
                self._finish(choice.finish_reason, event.data, malformed)
        if chunk.usage is not None:
            yield UsagePart(_used(chunk.usage))

    def whole(self, body: str) -> Iterator[StreamPart]:
        completion = self._body(_Completion, body)
        [choice, *_] = completion.choices
        calls = tuple(
            call.model_copy(update={"index": place}) for place, call in enumerate(choice.message.tool_calls or ())
        )
        parts = [*self._said(choice.message.model_copy(update={"tool_calls": calls}))]
        self._finish(choice.finish_reason, body, garbage)
        yield from self._opened(completion.model)
        yield from parts
        if completion.usage is not None:
            yield UsagePart(_used(completion.usage))

    def _finish(self, reason: str, text: str, failure: Callable[[Callee, str, str], ProviderError]) -> None:
        if reason == "content_filter":
            raise withheld(self._callee)
        if not all(call.name for call in self._calls):
            raise failure(self._callee, "a tool call without a name", text)
        self.stop = _STOP_REASONS.get(reason)
        if self.stop is None:
            # An answer that does not say how it ended may be half of one.
            raise failure(self._callee, f"unknown finish_reason {self._callee.quote(reason)}", text)

    def _said(self, said: _Said) -> Iterator[StreamPart]:
        if reasoning := said.reasoning_content or said.reasoning:
            yield ReasoningPart(reasoning)
        for text in filter(None, (said.content, said.refusal)):
            yield TextPart(text)
        for call in said.tool_calls or ():
            yield from self._called(call)

    def _called(self, said: _Call) -> Iterator[StreamPart]:
        text = as_text(said.function.arguments)
        call = self._known(said)
        if call is None or _begins(said, text, call):
            call = _Opening(len(self._calls), said.id or "")
            self._calls.append(call)
        if said.index is not None:
            self._by_index[said.index] = call
        held_back = "" if call.name else call.arguments
        call.arguments += text
        if not call.name and said.function.name:
            call.name, call.id = said.function.name, call.id or said.id or ""
            yield CallStartPart(call.index, call.id, call.name)
        if call.name and held_back + text:
            yield CallArgumentsPart(call.index, held_back + text)

    def _known(self, said: _Call) -> _Opening | None:
        """The call that a piece goes on with: by its index, by its id, or for want of both the last one."""
        if said.index is not None:
            return self._by_index.get(said.index)
        named = (call for call in self._calls if said.id and call.id == said.id)
        return next(named, self._calls[-1] if self._calls else None)


def _begins(said: _Call, text: str, call: _Opening) -> bool:
    """Does it begin a call of its own, although it looks as if it went on with `call`?"""
    if said.id and call.id:
        return said.id != call.id
    name = said.function.name
    if not name or not call.name:
        return False
    # Some servers repeat the name in every piece: it is another call if this one has all it needs.
    return name != call.name or (bool(text) and _is_whole(call.arguments))


def _is_whole(arguments: str) -> bool:
    try:
        from_json(arguments)
    except ValueError:
        return False
    return True


def _used(usage: _Usage) -> Usage:
    prompt = usage.prompt_tokens_details or _Details()
    completion = usage.completion_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=prompt.cached_tokens,
        cache_creation_tokens=prompt.cache_write_tokens,
        thinking_tokens=completion.reasoning_tokens,
    )
