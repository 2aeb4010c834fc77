"""An answer as Anthropic Messages."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.events import Event, Json, slices
from tests.support.fake_provider.script import Answer, Filtered
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage

STOP: dict[StopReason | Filtered, str] = {
    StopReason.END_TURN: "end_turn",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.TOOL_USE: "tool_use",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    "filtered": "refusal",
}


def events(answer: Answer, asked: Asked) -> Iterator[Event]:
    usage = answer.usage or Usage()
    yield _event("message_start", {"message": _message(answer, asked) | {"usage": _usage(usage, completion=1)}})
    yield _event("ping", {})
    for index, (opened, deltas) in enumerate(_blocks(answer)):
        yield _event("content_block_start", {"index": index, "content_block": opened})
        for delta in deltas:
            counts = delta["type"] != "signature_delta" and delta.get("partial_json") != ""
            yield _event("content_block_delta", {"index": index, "delta": delta}, delta=counts)
        yield _event("content_block_stop", {"index": index})
    stopped: Json = {"delta": _stop(answer), "usage": _usage(usage, completion=usage.completion_tokens or 0)}
    yield Event({"type": "message_delta", **stopped}, "message_delta", "stop")
    yield Event({"type": "message_stop"}, "message_stop", "end")


def body(answer: Answer, asked: Asked) -> Json:
    content: list[JsonValue] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": answer.signature})
    if answer.text:
        content.append({"type": "text", "text": answer.text, "citations": None})
    for call in answer.calls:
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)})
    usage = answer.usage or Usage()
    whole: Json = {"content": content, "usage": _usage(usage, completion=usage.completion_tokens or 0)}
    return _message(answer, asked) | whole | _stop(answer)


def _event(kind: str, fields: Json, *, delta: bool = False) -> Event:
    return Event({"type": kind, **fields}, kind, "delta" if delta else "frame")


def _blocks(answer: Answer) -> Iterator[tuple[Json, list[Json]]]:
    """Each content block as it is opened, and its deltas."""
    size = answer.chunk
    if answer.reasoning:
        thoughts: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in slices(answer.reasoning, size)]
        signed: Json = {"type": "signature_delta", "signature": answer.signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in slices(answer.text, size)]
    for call in answer.calls:
        parts = ["", *slices(call.arguments, size)]
        opened: Json = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield opened, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _message(answer: Answer, asked: Asked) -> Json:
    return {
        "id": f"msg_{asked.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop(answer: Answer) -> Json:
    sequence = "STOP" if answer.stop_reason == StopReason.STOP_SEQUENCE else None
    return {"stop_reason": STOP[answer.stop_reason], "stop_sequence": sequence}


def _input(arguments: str) -> JsonValue:
    """Arguments that are no object have no place in a body: the real server leaves out what it cannot parse."""
    try:
        read: JsonValue = json.loads(arguments)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _usage(usage: Usage, *, completion: int) -> Json:
    """Anthropic does not count cached tokens as input tokens."""
    read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    counts: Json = {
        "input_tokens": (usage.prompt_tokens or 0) - read - written,
        "output_tokens": completion,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
    }
    if usage.thinking_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.thinking_tokens}
    return counts
