"""An answer as OpenAI Responses: output items that open, grow and close, each event with its number."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.events import Event, Json, Part, slices
from tests.support.fake_provider.script import Answer, Call
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage


def events(answer: Answer, asked: Asked) -> Iterator[Event]:
    """The events in order. Their numbers count what a client sees, so a later error event can continue them."""
    for number, event in enumerate(_unnumbered(answer, asked)):
        assert isinstance(event.data, dict)
        yield replace(event, data=event.data | {"sequence_number": number})


def body(answer: Answer, asked: Asked) -> Json:
    return response(answer, asked, _status(answer), _output(answer, asked))


def response(answer: Answer, asked: Asked, status: str, output: list[JsonValue], error: Json | None = None) -> Json:
    """The response object, which several events contain in its current state."""
    reason = "max_output_tokens" if answer.stop_reason == StopReason.MAX_TOKENS else "content_filter"
    return {
        "id": f"resp_{asked.number}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if status == "incomplete" else None,
        "instructions": None,
        "model": answer.model or asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(answer.usage) if answer.usage and status in ("completed", "incomplete") else None,
    }


def _unnumbered(answer: Answer, asked: Asked) -> Iterator[Event]:
    in_progress = response(answer, asked, "in_progress", [])
    yield _event("response.created", {"response": in_progress})
    yield _event("response.in_progress", {"response": in_progress})
    for index, (item, inner) in enumerate(_items(answer, asked)):
        opened = item | {"status": "in_progress"} | _emptied(item)
        yield _event("response.output_item.added", {"output_index": index, "item": opened})
        yield from inner({"item_id": item["id"], "output_index": index})
        yield _event("response.output_item.done", {"output_index": index, "item": item})
    ended = f"response.{_status(answer)}"
    yield _event(ended, {"response": body(answer, asked)}, "end")


def _event(kind: str, fields: Json, part: Part = "frame") -> Event:
    return Event({"type": kind, **fields}, kind, part)


Inner = Callable[[Json], Iterator[Event]]


def _items(answer: Answer, asked: Asked) -> list[tuple[Json, Inner]]:
    """Each output item as it is in the end, and the events between its opening and its close."""
    items: list[tuple[Json, Inner]] = []
    if answer.reasoning:
        items.append((_reasoning(answer, asked), partial(_reasoning_events, answer)))
    if answer.text:
        items.append((_message(answer, asked), partial(_text_events, answer)))
    for index, call in enumerate(answer.calls):
        items.append((_call(call, f"fc_{asked.number}_{index}"), partial(_call_events, call, answer.chunk)))
    if items and _status(answer) == "incomplete":
        last, inner = items[-1]
        items[-1] = (last | {"status": "incomplete"}, inner)
    return items


def _output(answer: Answer, asked: Asked) -> list[JsonValue]:
    return [item for item, _ in _items(answer, asked)]


def _status(answer: Answer) -> str:
    return "incomplete" if answer.stop_reason in (StopReason.MAX_TOKENS, "filtered") else "completed"


def _emptied(item: Json) -> Json:
    match item["type"]:
        case "reasoning":
            return {"summary": [], "encrypted_content": ""}
        case "message":
            return {"content": []}
        case _:
            return {"arguments": ""}


def _reasoning(answer: Answer, asked: Asked) -> Json:
    return {
        "id": f"rs_{asked.number}",
        "type": "reasoning",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": answer.reasoning}],
        "encrypted_content": answer.signature,
    }


def _reasoning_events(answer: Answer, at: Json) -> Iterator[Event]:
    at = at | {"summary_index": 0}
    kind = "response.reasoning_summary"
    yield _event(f"{kind}_part.added", at | {"part": {"type": "summary_text", "text": ""}})
    for words in slices(answer.reasoning, answer.chunk):
        yield _event(f"{kind}_text.delta", at | {"delta": words}, "delta")
    yield _event(f"{kind}_text.done", at | {"text": answer.reasoning})
    yield _event(f"{kind}_part.done", at | {"part": {"type": "summary_text", "text": answer.reasoning}})


def _message(answer: Answer, asked: Asked) -> Json:
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text(answer.text)],
    }


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_events(answer: Answer, at: Json) -> Iterator[Event]:
    at = at | {"content_index": 0}
    yield _event("response.content_part.added", at | {"part": _text("")})
    for words in slices(answer.text, answer.chunk):
        yield _event("response.output_text.delta", at | {"delta": words, "logprobs": []}, "delta")
    yield _event("response.output_text.done", at | {"text": answer.text, "logprobs": []})
    yield _event("response.content_part.done", at | {"part": _text(answer.text)})


def _call(call: Call, item_id: str) -> Json:
    return {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _call_events(call: Call, size: int, at: Json) -> Iterator[Event]:
    for words in slices(call.arguments, size):
        yield _event("response.function_call_arguments.delta", at | {"delta": words}, "delta")
    yield _event("response.function_call_arguments.done", at | {"arguments": call.arguments, "name": call.name})


def _usage(usage: Usage) -> Json:
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached: Json = {
        "cached_tokens": usage.cache_read_tokens or 0,
        "cache_write_tokens": usage.cache_creation_tokens or 0,
    }
    return {
        "input_tokens": prompt,
        "input_tokens_details": cached,
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens or 0},
        "total_tokens": usage.total_tokens if usage.total_tokens is not None else prompt + completion,
    }
