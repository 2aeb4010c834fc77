"""Answers of the Responses API: output items that are added, grow, and are done."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.providers.shared.failures import Callee, complained, garbage, malformed, withheld
from wakeful_activities.providers.shared.reading import Read, Reader
from wakeful_activities.providers.shared.sse import Event
from wakeful_activities.providers.shared.writing import as_json, as_text


class _Signature(Read):
    """What a reasoning item needs to be sent back. Its summary is the text of the block that this signs."""

    id: str
    encrypted_content: str


def reasoning_item(block: ThinkingBlock) -> JsonValue:
    """A thought as the API wants it back; None for one that it did not sign."""
    try:
        signature = _Signature.model_validate_json(block.signature or "")
    except ValidationError:
        return None
    summary: list[JsonValue] = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    return {
        "type": "reasoning",
        "id": signature.id,
        "summary": summary,
        "encrypted_content": signature.encrypted_content,
    }


class _Part(Read):
    text: str | None = None
    refusal: str | None = None


class _Item(Read):
    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: JsonValue = None
    content: tuple[_Part, ...] | None = None
    summary: tuple[_Part, ...] | None = None
    encrypted_content: str | None = None


class _Details(Read):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Read):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Incomplete(Read):
    reason: str | None = None


class _Response(Read):
    model: str | None = None
    status: str | None = None
    error: dict[str, JsonValue] | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _Body(_Response):
    output: tuple[_Item, ...]


class _Event(Read):
    type: str = ""
    response: _Response | None = None
    output_index: int = 0
    summary_index: int = 0
    item: _Item | None = None
    delta: JsonValue = None


@dataclass
class _Growing:
    """What has been forwarded of one output item."""

    call: int | None = None
    is_told: bool = False


class ResponsesReader(Reader):
    def __init__(self, callee: Callee, request_id: str | None) -> None:
        super().__init__(callee, request_id)
        self._items: dict[int, _Growing] = {}
        self._calls = 0

    def event(self, event: Event) -> Iterator[StreamPart]:
        if event.data.strip() == "[DONE]":  # not of this API, but of proxies that translate into it
            return
        said = self._event(_Event, event.data)
        match said.type or event.name:
            case "error":
                raise complained(self._callee, event.data)
            case "response.output_item.added" if said.item is not None:
                yield from self._added(said.output_index, said.item)
            case "response.output_item.done" if said.item is not None:
                yield from self._done(said.output_index, said.item)
            case "response.completed" | "response.incomplete" | "response.failed" if said.response is not None:
                yield from self._opened(said.response.model)
                status = said.response.status or said.type.removeprefix("response.")
                yield from self._finish(said.response, status, event.data, malformed)
                self.is_done = True
            case "response.reasoning_summary_part.added" if said.summary_index > 0:
                yield ReasoningPart("\n\n")
            case kind if isinstance(said.delta, str) and said.delta:
                yield from self._grown(kind, said.output_index, said.delta)
            case _ if said.response is not None:
                yield from self._opened(said.response.model)
            case _:  # what else there is says nothing that is not said elsewhere
                pass

    def whole(self, body: str) -> Iterator[StreamPart]:
        response = self._body(_Body, body)
        parts = [part for index, item in enumerate(response.output) for part in self._done(index, item)]
        parts += self._finish(response, response.status or "", body, garbage)
        yield from self._opened(response.model)
        yield from parts

    def _grown(self, kind: str, index: int, delta: str) -> Iterator[StreamPart]:
        growing = self._items.setdefault(index, _Growing())
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextPart(delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningPart(delta)
            case "response.function_call_arguments.delta" if growing.call is not None:
                yield CallArgumentsPart(growing.call, delta)
            case _:
                return
        growing.is_told = True

    def _added(self, index: int, item: _Item) -> Iterator[StreamPart]:
        growing = self._items.setdefault(index, _Growing())
        if item.type == "function_call" and growing.call is None:
            growing.call = self._calls
            self._calls += 1
            yield CallStartPart(growing.call, item.call_id or item.id or "", item.name or "")

    def _done(self, index: int, item: _Item) -> Iterator[StreamPart]:
        """What of an item is not told yet: all of it, if the server sent no deltas."""
        yield from self._added(index, item)
        growing = self._items[index]
        match item.type:
            case "function_call" if growing.call is not None:
                if item.arguments and not growing.is_told:
                    yield CallArgumentsPart(growing.call, as_text(item.arguments))
                yield CallEndPart(growing.call)
            case "reasoning":
                if not growing.is_told:
                    summary = "\n\n".join(part.text or "" for part in item.summary or ())
                    yield from [ReasoningPart(summary)] if summary else []
                if item.id and item.encrypted_content:
                    signature = _Signature(id=item.id, encrypted_content=item.encrypted_content)
                    yield ReasoningPart(signature=signature.model_dump_json())
            case "message" if not growing.is_told:
                for part in item.content or ():
                    yield from [TextPart(text)] if (text := part.text or part.refusal) else []
        growing.is_told = True

    def _finish(
        self, response: _Response, status: str, text: str, failure: Callable[[Callee, str, str], ProviderError]
    ) -> Iterator[StreamPart]:
        reason = response.incomplete_details.reason if response.incomplete_details else None
        match status, reason:
            case "completed", _:
                self.stop = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
            case "incomplete", "max_output_tokens":
                self.stop = StopReason.MAX_TOKENS
            case "incomplete", "content_filter":
                raise withheld(self._callee)
            case "failed", _:
                raise complained(self._callee, as_json({"error": response.error}))
            case _:
                ended = self._callee.quote(": ".join(filter(None, (status, reason))))
                raise failure(self._callee, f"unknown ending {ended}", text)
        if response.usage is not None:
            yield UsagePart(_used(response.usage))


def _used(usage: _Usage) -> Usage:
    read = usage.input_tokens_details or _Details()
    written = usage.output_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=read.cached_tokens,
        cache_creation_tokens=read.cache_write_tokens,
        thinking_tokens=written.reasoning_tokens,
    )
