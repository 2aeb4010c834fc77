"""Call the fake provider with the official SDKs' own clients, which prove that its replies are genuine."""

import json
from dataclasses import dataclass

import anthropic
import openai

from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.script import Call
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.runs import Usage


@dataclass(frozen=True)
class Read:
    """An answer as an official SDK read it."""

    text: str
    reasoning: str
    signature: str | None
    calls: tuple[Call, ...]
    stop: str | None
    usage: Usage


async def read_officially(server: FakeProvider, format: Format, *, streamed: bool = True) -> Read:
    match format:
        case Format.CHAT:
            return await _read_chat(server, streamed)
        case Format.RESPONSES:
            return await _read_responses(server, streamed)
        case Format.ANTHROPIC:
            return await _read_anthropic(server, streamed)


async def _read_chat(server: FakeProvider, streamed: bool) -> Read:
    async with openai.AsyncOpenAI(base_url=server.chat_url, api_key="x", max_retries=0) as client:
        if streamed:
            async with client.chat.completions.stream(
                model="fake",
                messages=[{"role": "user", "content": "hello"}],
                stream_options={"include_usage": True},
            ) as stream:
                async for _ in stream:
                    pass
                snapshot = stream.current_completion_snapshot
                completion = openai.types.chat.ChatCompletion.model_validate(snapshot.model_dump())
        else:
            completion = await client.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": "hello"}]
            )
    choice, used = completion.choices[0], completion.usage
    assert used
    assert used.prompt_tokens_details
    assert used.completion_tokens_details
    calls = [call for call in choice.message.tool_calls or [] if call.type == "function"]
    return Read(
        choice.message.content or "",
        (choice.message.model_extra or {}).get("reasoning_content", ""),
        None,
        tuple(Call(call.id, call.function.name, call.function.arguments) for call in calls),
        choice.finish_reason,
        Usage(
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            total_tokens=used.total_tokens,
            cache_read_tokens=used.prompt_tokens_details.cached_tokens,
            cache_creation_tokens=used.prompt_tokens_details.cache_write_tokens,
            thinking_tokens=used.completion_tokens_details.reasoning_tokens,
        ),
    )


async def _read_responses(server: FakeProvider, streamed: bool) -> Read:
    async with openai.AsyncOpenAI(base_url=server.responses_url, api_key="x", max_retries=0) as client:
        if streamed:
            response = await _last_response(client)
        else:
            response = await client.responses.create(model="fake", input="hello")
    used = response.usage
    assert used
    reasoning = [item for item in response.output if item.type == "reasoning"]
    calls = [item for item in response.output if item.type == "function_call"]
    return Read(
        response.output_text,
        "".join(part.text for item in reasoning for part in item.summary),
        reasoning[0].encrypted_content if reasoning else None,
        tuple(Call(call.call_id, call.name, call.arguments) for call in calls),
        response.status,
        Usage(
            prompt_tokens=used.input_tokens,
            completion_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            cache_read_tokens=used.input_tokens_details.cached_tokens,
            cache_creation_tokens=used.input_tokens_details.cache_write_tokens,
            thinking_tokens=used.output_tokens_details.reasoning_tokens,
        ),
    )


async def _last_response(client: openai.AsyncOpenAI) -> openai.types.responses.Response:
    """Through the SDK's accumulator, which refuses events that do not belong together."""
    async with client.responses.stream(model="fake", input="hello") as stream:
        ends = [event async for event in stream if event.type in ("response.completed", "response.incomplete")]
    (last,) = ends
    assert last.type in ("response.completed", "response.incomplete")
    return last.response


async def _read_anthropic(server: FakeProvider, streamed: bool) -> Read:
    async with anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="x", max_retries=0) as client:
        hello: list[anthropic.types.MessageParam] = [{"role": "user", "content": "hello"}]
        message: anthropic.types.Message
        if streamed:
            async with client.messages.stream(model="fake", messages=hello, max_tokens=100) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(model="fake", messages=hello, max_tokens=100)
    used = message.usage
    thoughts = [block for block in message.content if block.type == "thinking"]
    read, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    prompt = used.input_tokens + read + written
    return Read(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in thoughts),
        thoughts[0].signature if thoughts else None,
        tuple(
            Call(block.id, block.name, json.dumps(block.input, ensure_ascii=False))
            for block in message.content
            if block.type == "tool_use"
        ),
        message.stop_reason,
        Usage(
            prompt_tokens=prompt,
            completion_tokens=used.output_tokens,
            total_tokens=prompt + used.output_tokens,
            cache_read_tokens=read,
            cache_creation_tokens=written,
            thinking_tokens=used.output_tokens_details.thinking_tokens if used.output_tokens_details else None,
        ),
    )
