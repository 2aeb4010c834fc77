"""`OpenAIChat`: the answers it reads, streamed or not, of servers that follow the API more or less."""

import pytest
from pydantic import JsonValue

from tests.activities.providers.calls import failure, parts
from tests.activities.providers.openai_chat.wire import HALF, USAGE, USED, answer, calling, calls, completion, delta
from tests.support.fake_provider.script import EVENT_STREAM, Raw, sse
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.inference import (
    StopReason,
)
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.providers.openai_chat.provider import OpenAIChat


async def test_the_parts_of_a_stream(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-110, B-114, B-115: the usage comes after the stop, and `StopPart` is the last word all the same."""
    fake.will(
        Raw.sse(
            {"model": "test-model-2026-01-01", "choices": []},
            delta({"role": "assistant", "content": ""}),
            delta({"reasoning_content": "hm"}),
            delta({"content": "Let me "}),
            delta({"content": "see."}),
            delta({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": ""}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            delta({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "g", "arguments": "{}"}}]}),
            delta(finish_reason="tool_calls"),
            {"model": "test-model", "choices": [], "usage": USAGE},
            "[DONE]",
            headers={"X-Request-Id": "req_1"},
        )
    )
    assert await parts(chat) == [
        StartPart("test-model-2026-01-01", "req_1"),
        ReasoningPart("hm"),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c0", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallStartPart(1, "c1", "g"),
        CallArgumentsPart(1, "{}"),
        UsagePart(USED),
        StopPart(StopReason.TOOL_USE),
    ]


async def test_a_body_that_is_not_streamed_gives_the_same_parts(chat: OpenAIChat, fake: FakeProvider) -> None:
    message = calls('{"b":1}', "", {"a": 1}) | {"content": "Let me see.", "reasoning_content": "hm"}
    body: JsonValue = {**completion(message, finish_reason="tool_calls"), "model": "test-model-2026", "usage": USAGE}
    fake.will(Raw.json(body, headers={"X-Request-Id": "req_1"}))
    assert await parts(chat) == [
        StartPart("test-model-2026", "req_1"),
        ReasoningPart("hm"),
        TextPart("Let me see."),
        CallStartPart(0, "c0", "f"),
        CallArgumentsPart(0, '{"b":1}'),
        CallStartPart(1, "c1", "f"),
        CallStartPart(2, "c2", "f"),
        CallArgumentsPart(2, '{"a":1}'),
        UsagePart(USED),
        StopPart(StopReason.TOOL_USE),
    ]


async def test_an_answer_with_few_fields_is_read(chat: OpenAIChat, fake: FakeProvider) -> None:
    body: JsonValue = {**completion({"content": None, "tool_calls": None, "reasoning": "hm"}), "usage": None}
    fake.will(Raw.json(body, headers={"Content-Type": "text/plain"}))
    assert await parts(chat) == [StartPart("test-model"), ReasoningPart("hm"), StopPart(StopReason.END_TURN)]


async def test_a_refusal_is_the_models_text(chat: OpenAIChat, fake: FakeProvider) -> None:
    events = (delta({"refusal": "I can't "}), delta({"content": None, "refusal": "help."}, "stop"), "[DONE]")
    assert await answer(chat, fake, *events) == [TextPart("I can't "), TextPart("help."), StopPart(StopReason.END_TURN)]


@pytest.mark.parametrize("last", [[], ["[DONE]"], ["[DONE]", delta({"content": "!"})]], ids=["cut", "done", "late"])
async def test_an_answer_is_complete_once_it_has_a_finish_reason(
    chat: OpenAIChat, fake: FakeProvider, last: list[JsonValue]
) -> None:
    events = (delta({"content": "hi"}), delta(finish_reason="stop"), *last)
    assert await answer(chat, fake, *events) == [TextPart("hi"), StopPart(StopReason.END_TURN)]


async def test_a_connection_that_is_lost_after_a_complete_answer_does_not_matter(
    chat: OpenAIChat, fake: FakeProvider
) -> None:
    fake.will(Raw(sse(delta({"content": "hi"}), delta(finish_reason="stop")), headers=EVENT_STREAM, then="cut"))
    assert await parts(chat) == [StartPart("test-model"), TextPart("hi"), StopPart(StopReason.END_TURN)]


ONE = [CallStartPart(0, "c", "f"), CallArgumentsPart(0, '{"a":'), CallArgumentsPart(0, "1}")]
TWO = [
    CallStartPart(0, "", "f"),
    CallArgumentsPart(0, "{}"),
    CallStartPart(1, "", "f"),
    CallArgumentsPart(1, '{"a":1}'),
]
BOTH = [
    CallStartPart(0, "c", "f"),
    CallArgumentsPart(0, "{}"),
    CallStartPart(1, "d", "f"),
    CallArgumentsPart(1, '{"a":1}'),
]


def piece(arguments: JsonValue = None, name: str | None = None, **more: JsonValue) -> dict[str, JsonValue]:
    function: JsonValue = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"function": function, **more}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", index=0)], ONE),
        ([piece('{"a":', "f", id="c"), piece("1}")], ONE),
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", "f", index=0, id="c")], ONE),
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", "f", index=0)], ONE),
        ([piece('{"a":', "f", id="c"), piece("1}", "f", id="c")], ONE),
        ([piece('{"a":', "f", index=3, id="c"), piece("1}", "", index=3, id="")], ONE),
        ([piece(None, index=0, id="c"), piece('{"a":', "f", index=0), piece("1}", index=0)], ONE),
        ([piece("{}", "f", index=0, id="c"), piece('{"a":1}', "f", index=0, id="d")], BOTH),
        ([piece("{}", "f", id="c"), piece('{"a":1}', "f", id="d")], BOTH),
        ([piece("{}", "f", index=0, id="c"), piece({"a": 1}, "f", index=1, id="d")], BOTH),
        ([piece("{}", "f"), piece('{"a":1}', "f")], TWO),
        ([piece("{}", "f", index=0, id=""), piece('{"a":1}', "f", index=0, id="")], TWO),
        (
            [piece("", "f", index=0), piece("", "g", index=0)],
            [CallStartPart(0, "", "f"), CallStartPart(1, "", "g")],
        ),
        (
            [piece("{", "f", id="c"), piece("{", "g", id="d"), piece("}", id="c"), piece("}", id="d")],
            [
                CallStartPart(0, "c", "f"),
                CallArgumentsPart(0, "{"),
                CallStartPart(1, "d", "g"),
                CallArgumentsPart(1, "{"),
                CallArgumentsPart(0, "}"),
                CallArgumentsPart(1, "}"),
            ],
        ),
    ],
)
async def test_calls_are_distinguished_however_a_server_numbers_them(
    chat: OpenAIChat, fake: FakeProvider, pieces: list[JsonValue], expected: list[StreamPart]
) -> None:
    """B-114"""
    assert await answer(chat, fake, *calling(*pieces)) == [*expected, StopPart(StopReason.TOOL_USE)]


async def test_missing_call_ids_stay_empty(chat: OpenAIChat, fake: FakeProvider) -> None:
    function: JsonValue = {"name": "f", "arguments": ""}
    wanted: JsonValue = [{"function": function}, {"id": None, "function": function}, {"id": "", "function": function}]
    fake.will(Raw.json(completion({"tool_calls": wanted}, finish_reason="tool_calls")))
    assert [part.id for part in await parts(chat) if isinstance(part, CallStartPart)] == ["", "", ""]


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("tool_calls", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
    ],
)
async def test_a_finish_reason_is_a_stop_reason(
    chat: OpenAIChat, fake: FakeProvider, finish_reason: str, expected: StopReason
) -> None:
    """B-115"""
    assert await answer(chat, fake, delta({"content": ""}, ""), delta(finish_reason=finish_reason)) == [
        StopPart(expected)
    ]


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        ({"type": "server_error", "code": None}, ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
        ({"code": "server_is_overloaded"}, ProviderErrorKind.OVERLOADED, "provider 503 mid-stream"),
        ({"code": 502}, ProviderErrorKind.PROVIDER, "provider 502 mid-stream"),
        ({"code": 529}, ProviderErrorKind.OVERLOADED, "provider 529 mid-stream"),
        ({"type": "tokens", "code": "rate_limit_exceeded"}, ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, ProviderErrorKind.UNAUTHORIZED, None),
        ({"type": "invalid_request_error", "code": "model_not_found"}, ProviderErrorKind.MODEL_NOT_FOUND, None),
        ({"type": "invalid_request_error"}, ProviderErrorKind.INVALID_REQUEST, None),
        ({"code": "context_length_exceeded"}, ProviderErrorKind.CONTEXT_OVERFLOW, None),
        ({"type": "insufficient_quota"}, ProviderErrorKind.INVALID_REQUEST, None),
        ({"code": "content_policy_violation"}, ProviderErrorKind.CONTENT_FILTERED, None),
        ({"code": "who knows"}, ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_has_its_kind_and_cause(
    chat: OpenAIChat, fake: FakeProvider, error: dict[str, JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    failed = await failure(chat, fake, Raw.sse(delta({"content": "hi"}), {"error": {"message": "no luck", **error}}))
    assert (failed.kind, failed.cause) == (kind, cause)
    if kind is not ProviderErrorKind.CONTENT_FILTERED:
        assert str(failed).startswith(f"model 'test-model' at {fake.host} ended its answer with an error: 'no luck'; ")


async def test_a_connection_that_is_lost_in_the_middle_is_an_interruption(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-130"""
    error = await failure(chat, fake, Raw(HALF, headers=EVENT_STREAM, then="cut"))
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "connection reset")
    assert str(error).startswith(
        f"the answer of model 'test-model' at {fake.host} was interrupted (RemoteProtocolError: "
    )


async def test_a_stream_that_ends_early_is_an_interruption(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-130"""
    error = await failure(chat, fake, Raw(HALF, headers=EVENT_STREAM))
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "connection reset")
    assert str(error) == (
        f"the answer of model 'test-model' at {fake.host} ended early, without its last event; a retry may help"
    )


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"data: {\n\n", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (b"data: 7\n\n", "Input should be an object"),
        (b"data: \xff\n\n", "a line is not UTF-8: invalid start byte at byte 6"),
        (sse(delta(finish_reason="load")), "unknown finish_reason 'load'"),
        (sse(*calling({"index": 0, "id": "c"})), "a tool call without a name"),
    ],
)
async def test_a_malformed_event_is_a_provider_failure(
    chat: OpenAIChat, fake: FakeProvider, written: bytes, problem: str
) -> None:
    error = await failure(chat, fake, Raw(HALF + written, headers=EVENT_STREAM))
    assert (error.kind, error.cause) == (ProviderErrorKind.PROVIDER, "malformed event")
    assert str(error).startswith(f"model 'test-model' at {fake.host} sent a malformed event ({problem}")
