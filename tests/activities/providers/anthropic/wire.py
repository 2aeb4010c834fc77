"""Messages, blocks and events of the Messages API."""

from pydantic import JsonValue

from tests.activities.providers.calls import parts, text, user
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.script import Raw
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.inference import (
    ModelRequest,
)
from wakeful.contract.messages import (
    ContentBlock,
    Message,
    Role,
    ToolCall,
)
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    StartPart,
)
from wakeful_activities.providers.anthropic.provider import AnthropicMessages

CACHED: JsonValue = {"type": "ephemeral"}


def assistant(*blocks: ContentBlock, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(id="m", role=Role.ASSISTANT, content=blocks, tool_calls=calls)


def system(words: str) -> Message:
    return Message(id="m", role=Role.SYSTEM, content=(text(words),))


def result(words: str, call_id: str) -> Message:
    return Message(id="m", role=Role.TOOL, content=(text(words),), tool_call_id=call_id)


HELLO_CLAUDE = ModelRequest(model="claude-opus-5", messages=(user(text("hello")),), prompt_cache=False)


def event(kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return {"type": kind, **fields}


def started(block: JsonValue, index: int = 0) -> dict[str, JsonValue]:
    return event("content_block_start", index=index, content_block=block)


def grown(kind: str, index: int = 0, **fields: JsonValue) -> dict[str, JsonValue]:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


def stopped(reason: JsonValue) -> list[JsonValue]:
    return [event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 20}), event("message_stop")]


MESSAGE_START = event(
    "message_start",
    message={
        "model": "claude-opus-5-1",
        "usage": {
            "input_tokens": 28,
            "output_tokens": 1,
            "cache_read_input_tokens": 64,
            "cache_creation_input_tokens": 8,
        },
    },
)
OPENED = StartPart("claude-opus-5-1", "req_1")
FIRST = Usage(prompt_tokens=100, completion_tokens=1, total_tokens=101, cache_read_tokens=64, cache_creation_tokens=8)
LAST = FIRST.model_copy(update={"completion_tokens": 20, "total_tokens": 120})
HALF = (MESSAGE_START, started({"type": "text", "text": ""}), grown("text", text="hi"))
ID = {"request-id": "req_1"}


async def sent(anthropic: AnthropicMessages, fake: FakeProvider, request: ModelRequest) -> dict[str, JsonValue]:
    """The body that a request becomes, once Anthropic's own types have taken it."""
    fake.will(Raw.sse(*HALF, *stopped("end_turn")))
    await parts(anthropic, request)
    body = fake.asked[-1].body
    assert isinstance(body, dict)
    unsampled = {name: value for name, value in body.items() if name not in ("temperature", "top_p")}
    assert body_problem(Format.ANTHROPIC, unsampled) is None  # the newest types do not name the sampling settings
    return body


async def turns(anthropic: AnthropicMessages, fake: FakeProvider, *messages: Message) -> JsonValue:
    body = await sent(anthropic, fake, ModelRequest(model="m", messages=messages, prompt_cache=False))
    return body["messages"]
