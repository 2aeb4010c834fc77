"""Bodies and events of the Chat Completions API."""

from pydantic import JsonValue

from tests.activities.providers.calls import parts
from tests.support.fake_provider.script import Raw, sse
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    StartPart,
    StreamPart,
)
from wakeful_activities.providers.openai_chat.provider import OpenAIChat

CANARY = "sk-canary-4711"


def completion(message: JsonValue, *, finish_reason: JsonValue = "stop") -> dict[str, JsonValue]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


ANSWER = Raw.json(completion({"role": "assistant", "content": "hi"}))


def calls(*written: JsonValue) -> dict[str, JsonValue]:
    """The message of a model that calls tool `f` with each of these arguments, as they stand in the JSON."""
    wanted: list[JsonValue] = [
        {"id": f"c{n}", "function": {"name": "f", "arguments": w}} for n, w in enumerate(written)
    ]
    return {"content": None, "tool_calls": wanted}


async def answer(chat: OpenAIChat, fake: FakeProvider, *events: JsonValue) -> list[StreamPart]:
    """What becomes of a stream of these chunks, but for its beginning."""
    fake.will(Raw.sse(*events))
    opened, *rest = await parts(chat)
    assert isinstance(opened, StartPart)
    return rest


def delta(message: JsonValue = None, finish_reason: JsonValue = None) -> dict[str, JsonValue]:
    return {"model": "test-model", "choices": [{"index": 0, "delta": message or {}, "finish_reason": finish_reason}]}


def calling(*pieces: JsonValue) -> list[JsonValue]:
    """The chunks of a model that writes these pieces of tool calls, one a chunk."""
    return [*(delta({"tool_calls": [piece]}) for piece in pieces), delta(finish_reason="tool_calls"), "[DONE]"]


USAGE: JsonValue = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
USED = Usage(
    prompt_tokens=100,
    completion_tokens=20,
    total_tokens=120,
    cache_read_tokens=64,
    cache_creation_tokens=8,
    thinking_tokens=12,
)


def sent(fake: FakeProvider) -> dict[str, JsonValue]:
    body = fake.asked[-1].body
    assert isinstance(body, dict)
    return body


HALF = sse(delta({"content": "hi"}))
