"""An answer as OpenAI Chat Completions. Reasoning is where DeepSeek puts it: OpenAI itself sends none."""

from collections.abc import Iterator

from pydantic import JsonValue

from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.events import Event, Json, slices
from tests.support.fake_provider.script import Answer, Filtered
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage

FINISH: dict[StopReason | Filtered, str] = {
    StopReason.END_TURN: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.STOP_SEQUENCE: "stop",
    "filtered": "content_filter",
}


def events(answer: Answer, asked: Asked) -> Iterator[Event]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _base(answer, asked, "chat.completion.chunk") | {"choices": [choice]}

    yield Event(chunk({"role": "assistant", "content": "", "refusal": None}))
    for words in slices(answer.reasoning, answer.chunk):
        yield Event(chunk({"reasoning_content": words}), part="delta")
    for words in slices(answer.text, answer.chunk):
        yield Event(chunk({"content": words}), part="delta")
    for index, call in enumerate(answer.calls):
        function: Json = {"name": call.name, "arguments": ""}
        opened: Json = {"index": index, "id": call.id, "type": "function", "function": function}
        yield Event(chunk({"tool_calls": [opened]}))
        for words in slices(call.arguments, answer.chunk):
            yield Event(chunk({"tool_calls": [{"index": index, "function": {"arguments": words}}]}), part="delta")
    yield Event(chunk({}, FINISH[answer.stop_reason]), part="stop")
    if answer.usage and (asked.body.get("stream_options") or {}).get("include_usage"):
        last: Json = {"choices": [], "usage": _usage(answer.usage)}
        yield Event(_base(answer, asked, "chat.completion.chunk") | last, part="end")
    yield Event("[DONE]", part="end")


def body(answer: Answer, asked: Asked) -> Json:
    calls: list[JsonValue] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": answer.reasoning} if answer.reasoning else {}
    choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": FINISH[answer.stop_reason]}
    usage: Json = {"usage": _usage(answer.usage)} if answer.usage else {}
    return _base(answer, asked, "chat.completion") | {"choices": [choice]} | usage


def _base(answer: Answer, asked: Asked, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": kind,
        "created": 1_760_000_000,
        "model": answer.model or asked.model,
        "system_fingerprint": "fp_fake",
    }


def _usage(usage: Usage) -> Json:
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    details: Json = {"cached_tokens": usage.cache_read_tokens or 0, "audio_tokens": 0}
    if usage.cache_creation_tokens is not None:
        details["cache_write_tokens"] = usage.cache_creation_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage.total_tokens if usage.total_tokens is not None else prompt + completion,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens or 0, "audio_tokens": 0},
    }
