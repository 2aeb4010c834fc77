"""`OpenAIResponses`: the answers it reads."""

import pytest
from pydantic import JsonValue

from tests.activities.providers.calls import failure, parts
from tests.activities.providers.openai_responses.wire import (
    COMPLETED,
    CREATED,
    HALF,
    SIGNATURE,
    USAGE,
    USED,
    ended,
    event,
)
from tests.support.fake_provider.script import Raw
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.inference import StopReason
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    TextPart,
)
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

CALL: dict[str, JsonValue] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a":1}',
}
THOUGHT: JsonValue = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}],
    "encrypted_content": "gAAA",
}
MESSAGE: JsonValue = {"type": "message", "content": [{"type": "output_text", "text": "Let me see."}]}
OUTPUT: list[JsonValue] = [THOUGHT, MESSAGE, CALL]
WHOLE = [
    StartPart("test-model-2026", "req_1"),
    ReasoningPart("hm\n\nso"),
    ReasoningPart(signature=SIGNATURE),
    TextPart("Let me see."),
    CallStartPart(0, "c1", "f"),
    CallArgumentsPart(0, '{"a":1}'),
    CallEndPart(0),
    USED,
    StopPart(StopReason.TOOL_USE),
]


async def test_the_parts_of_a_stream(responses: OpenAIResponses, fake: FakeProvider) -> None:
    """B-110, B-114, B-115"""
    fake.will(
        Raw.sse(
            CREATED,
            event("in_progress", response={"status": "in_progress"}),
            event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
            event("reasoning_summary_part.added", output_index=0, summary_index=0),
            event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm"),
            event("reasoning_summary_text.done", output_index=0, summary_index=0, text="hm"),
            event("reasoning_summary_part.added", output_index=0, summary_index=1),
            event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="so"),
            event("output_item.done", output_index=0, item=THOUGHT),
            event("output_item.added", output_index=1, item={"type": "message", "content": []}),
            event("content_part.added", output_index=1, part={"type": "output_text", "text": ""}),
            event("output_text.delta", output_index=1, delta="Let me "),
            event("output_text.delta", output_index=1, delta="see."),
            event("output_text.done", output_index=1, text="Let me see."),
            event("output_item.done", output_index=1, item=MESSAGE),
            event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
            event("function_call_arguments.delta", output_index=2, delta='{"a"'),
            event("function_call_arguments.delta", output_index=2, delta=":1}"),
            event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
            event("output_item.done", output_index=2, item=CALL),
            event("tomorrow", output_index=3, delta="?"),
            ended("completed", usage=USAGE),
            headers={"X-Request-Id": "req_1"},
        )
    )
    assert await parts(responses) == [
        StartPart("test-model-2026", "req_1"),
        ReasoningPart("hm"),
        ReasoningPart("\n\n"),
        ReasoningPart("so"),
        ReasoningPart(signature=SIGNATURE),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c1", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallEndPart(0),
        USED,
        StopPart(StopReason.TOOL_USE),
    ]


async def test_items_without_deltas_give_the_same_parts(responses: OpenAIResponses, fake: FakeProvider) -> None:
    items = (event("output_item.done", output_index=index, item=item) for index, item in enumerate(OUTPUT))
    fake.will(Raw.sse(CREATED, *items, ended("completed", usage=USAGE), headers={"X-Request-Id": "req_1"}))
    assert await parts(responses) == WHOLE


async def test_a_body_that_is_not_streamed_gives_the_same_parts(responses: OpenAIResponses, fake: FakeProvider) -> None:
    body: JsonValue = {"model": "test-model-2026", "status": "completed", "output": OUTPUT, "usage": USAGE}
    fake.will(Raw.json(body, headers={"X-Request-Id": "req_1"}))
    assert await parts(responses) == WHOLE


async def test_a_refusal_is_the_models_text(responses: OpenAIResponses, fake: FakeProvider) -> None:
    fake.will(Raw.sse(CREATED, event("refusal.delta", delta="I can't."), COMPLETED))
    assert await parts(responses) == [StartPart("test-model-2026"), TextPart("I can't."), StopPart(StopReason.END_TURN)]


async def test_an_answer_that_hits_the_token_limit_says_so(responses: OpenAIResponses, fake: FakeProvider) -> None:
    """B-115"""
    fake.will(Raw.sse(*HALF, ended("incomplete", incomplete_details={"reason": "max_output_tokens"})))
    assert (await parts(responses))[-1] == StopPart(StopReason.MAX_TOKENS)


FLAT: JsonValue = {"type": "error", "code": "rate_limit_exceeded", "message": "no luck", "param": None}
NESTED: JsonValue = {
    "type": "error",
    "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "no luck"},
}


@pytest.mark.parametrize(
    ("last", "kind", "cause"),
    [
        ([], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        ([FLAT], ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        ([NESTED], ProviderErrorKind.CONTEXT_OVERFLOW, None),
        (
            [ended("failed", error={"code": "server_error", "message": "no luck"})],
            ProviderErrorKind.PROVIDER,
            "provider 500 mid-stream",
        ),
        (
            [ended("failed", error={"code": "invalid_image", "message": "no luck"})],
            ProviderErrorKind.INVALID_REQUEST,
            None,
        ),
        ([ended("failed", error={"code": "bio_policy", "message": "!"})], ProviderErrorKind.CONTENT_FILTERED, None),
        (
            [ended("incomplete", incomplete_details={"reason": "content_filter"})],
            ProviderErrorKind.CONTENT_FILTERED,
            None,
        ),
        ([ended("incomplete", incomplete_details={"reason": "?"})], ProviderErrorKind.PROVIDER, "malformed event"),
        (["{"], ProviderErrorKind.PROVIDER, "malformed event"),
    ],
)
async def test_an_interrupted_answer_says_why(
    responses: OpenAIResponses, fake: FakeProvider, last: list[JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    error = await failure(responses, fake, Raw.sse(*HALF, *last))
    assert (error.kind, error.cause) == (kind, cause)
    assert f"model 'test-model' at {fake.host}" in str(error)


@pytest.mark.parametrize("body", [{"output": [], "status": "queued"}, {"status": "completed"}, []])
async def test_a_success_that_is_not_an_answer_is_a_provider_failure(
    responses: OpenAIResponses, fake: FakeProvider, body: JsonValue
) -> None:
    error = await failure(responses, fake, Raw.json(body))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert "sent something that is not an answer" in str(error)
