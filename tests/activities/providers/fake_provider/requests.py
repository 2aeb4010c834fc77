"""Requests to the fake provider in each format, and what its replies contain."""

import json
from typing import Any

import httpx
import pytest

from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.models import INTERRUPTED
from tests.support.fake_provider.script import (
    Answer,
    Call,
)
from wakeful.contract.runs import Usage

ALL = pytest.mark.parametrize("format", list(Format))
PATHS = {Format.CHAT: "/v1/chat/completions", Format.RESPONSES: "/v1/responses", Format.ANTHROPIC: "/v1/messages"}
USAGE = Usage(
    prompt_tokens=100,
    completion_tokens=20,
    total_tokens=120,
    cache_read_tokens=60,
    cache_creation_tokens=10,
    thinking_tokens=5,
)
CALLS = (Call("call_1", "look", '{"at": "größe 🦊"}'), Call("call_2", "wait", "{}"))
FULL = Answer(text="Grüße, 世界! 🦊 and more", reasoning="let me think about it", calls=CALLS, usage=USAGE)
WORDS = Answer(text="one two three four five six", chunk=4)


def body(format: Format, *, partial: str | None = None, stream: bool = True) -> dict[str, Any]:
    turns = [{"role": "user", "content": "hello"}]
    if partial is not None:
        turns += [{"role": "assistant", "content": partial}, {"role": "user", "content": INTERRUPTED}]
    asked: dict[str, Any] = {"model": "fake", "stream": stream}
    match format:
        case Format.CHAT:
            return asked | {"messages": turns} | ({"stream_options": {"include_usage": True}} if stream else {})
        case Format.RESPONSES:
            return asked | {"input": turns}
        case Format.ANTHROPIC:
            return asked | {"messages": turns, "max_tokens": 100}


async def ask(
    http: httpx.AsyncClient, format: Format, *, partial: str | None = None, stream: bool = True
) -> httpx.Response:
    return await http.post(PATHS[format], json=body(format, partial=partial, stream=stream))


async def events(http: httpx.AsyncClient, format: Format, *, partial: str | None = None) -> list[Any]:
    return parsed((await ask(http, format, partial=partial)).content)


def parsed(stream: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def deltas(events: list[Any]) -> list[str]:
    """What of reasoning, text and arguments the events hold, in any format."""
    return [words for event in events if event != "[DONE]" for words in [_delta(event)] if words]


def _delta(event: dict[str, Any]) -> str:
    if "choices" in event:
        delta = event["choices"][0]["delta"] if event["choices"] else {}
        (call,) = delta.get("tool_calls", [{"function": {}}])
        return delta.get("content") or delta.get("reasoning_content") or call["function"].get("arguments") or ""
    delta = event.get("delta", "")
    if isinstance(delta, str):
        return delta
    return delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
