"""`AnthropicMessages`: the answers it reads."""

import pytest
from pydantic import JsonValue

from tests.activities.providers.anthropic.wire import (
    FIRST,
    HALF,
    ID,
    LAST,
    MESSAGE_START,
    OPENED,
    event,
    grown,
    started,
    stopped,
)
from tests.activities.providers.calls import failure, parts
from tests.support.fake_provider.script import Raw
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.inference import (
    StopReason,
)
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StopPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.providers.anthropic.provider import AnthropicMessages


async def test_the_parts_of_a_stream(anthropic: AnthropicMessages, fake: FakeProvider) -> None:
    """B-110, B-114, B-115"""
    call: JsonValue = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    whole: JsonValue = {"type": "tool_use", "id": "c2", "name": "g", "input": {"b": 2}}
    fake.will(
        Raw.sse(
            MESSAGE_START,
            event("ping"),
            started({"type": "thinking", "thinking": "", "signature": ""}),
            grown("thinking", thinking="hm"),
            grown("signature", signature="EqQB"),
            event("content_block_stop", index=0),
            started({"type": "redacted_thinking", "data": "Zm9v"}, 1),
            event("content_block_stop", index=1),
            started({"type": "text", "text": ""}, 2),
            grown("text", 2, text="Let me "),
            grown("text", 2, text="see."),
            grown("citations", 2, citation={}),
            event("content_block_stop", index=2),
            started(call, 3),
            grown("input_json", 3, partial_json=""),
            grown("input_json", 3, partial_json='{"a"'),
            grown("input_json", 3, partial_json=":1}"),
            event("content_block_stop", index=3),
            started(whole, 4),
            event("content_block_stop", index=4),
            event("tomorrow", delta={"type": "?"}),
            *stopped("tool_use"),
            headers=ID,
        )
    )
    assert await parts(anthropic) == [
        OPENED,
        UsagePart(FIRST),
        ReasoningPart("hm"),
        ReasoningPart(signature="EqQB"),
        ReasoningPart(signature="redacted_thinking:Zm9v"),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c1", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallEndPart(0),
        CallStartPart(1, "c2", "g"),
        CallArgumentsPart(1, '{"b":2}'),
        CallEndPart(1),
        UsagePart(LAST),
        StopPart(StopReason.TOOL_USE),
    ]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
    ],
)
async def test_a_stop_reason_is_translated(
    anthropic: AnthropicMessages, fake: FakeProvider, reason: str, expected: StopReason
) -> None:
    """B-115"""
    fake.will(Raw.sse(*HALF, *stopped(reason), headers=ID))
    assert await parts(anthropic) == [OPENED, UsagePart(FIRST), TextPart("hi"), UsagePart(LAST), StopPart(expected)]


def broken(kind: str) -> list[JsonValue]:
    return [event("error", error={"type": kind, "message": "no luck"}, request_id="req_1")]


@pytest.mark.parametrize(
    ("last", "kind", "cause"),
    [
        ([], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        (stopped("end_turn")[:1], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        (broken("overloaded_error"), ProviderErrorKind.OVERLOADED, "provider 529 mid-stream"),
        (broken("rate_limit_error"), ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        (broken("api_error"), ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
        (broken("timeout_error"), ProviderErrorKind.TIMEOUT, "provider 504 mid-stream"),
        (broken("invalid_request_error"), ProviderErrorKind.INVALID_REQUEST, None),
        (broken("authentication_error"), ProviderErrorKind.UNAUTHORIZED, None),
        (broken("permission_error"), ProviderErrorKind.UNAUTHORIZED, None),
        (broken("not_found_error"), ProviderErrorKind.MODEL_NOT_FOUND, None),
        (broken("request_too_large"), ProviderErrorKind.CONTEXT_OVERFLOW, None),
        (broken("billing_error"), ProviderErrorKind.INVALID_REQUEST, None),
        (stopped("refusal"), ProviderErrorKind.CONTENT_FILTERED, None),
        (stopped("?"), ProviderErrorKind.PROVIDER, "malformed event"),
        (["{"], ProviderErrorKind.PROVIDER, "malformed event"),
    ],
)
async def test_an_interrupted_answer_says_why(
    anthropic: AnthropicMessages, fake: FakeProvider, last: list[JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    error = await failure(anthropic, fake, Raw.sse(*HALF, *last))
    assert (error.kind, error.cause) == (kind, cause)
    assert f"model 'test-model' at {fake.host}" in str(error)


async def test_an_error_names_the_request_id_of_this_apis_header(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    body: JsonValue = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    error = await failure(anthropic, fake, Raw.json(body, code=529, headers=ID))
    assert error.kind is ProviderErrorKind.OVERLOADED
    assert "answered 529: 'Overloaded' (request id 'req_1')" in str(error)


async def test_a_body_that_is_not_streamed_is_not_an_answer(anthropic: AnthropicMessages, fake: FakeProvider) -> None:
    error = await failure(anthropic, fake, Raw.json({"content": []}))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert "sent something that is not an answer (it does not stream)" in str(error)


async def test_the_environment_configures_key_and_server_with_or_without_the_version(fake: FakeProvider) -> None:
    for url in (f"http://{fake.host}", f"http://{fake.host}/v1/"):
        anthropic = AnthropicMessages.from_env({"ANTHROPIC_API_KEY": "sk-2", "ANTHROPIC_BASE_URL": url})
        fake.will(Raw.sse(*HALF, *stopped("end_turn")))
        await parts(anthropic)
        await anthropic.aclose()
        assert (fake.asked[-1].path, fake.asked[-1].headers["x-api-key"]) == ("/v1/messages", "sk-2")
    assert repr(AnthropicMessages.from_env({})) == "AnthropicMessages(host='api.anthropic.com')"
