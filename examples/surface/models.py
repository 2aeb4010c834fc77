"""Models: two of our own, one per way to answer, and those that Wakeful has."""

import os
from collections.abc import AsyncIterator

from wakeful import (
    AnthropicMessages,
    AzureOpenAIChat,
    AzureOpenAIResponses,
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    Message,
    ModelRequest,
    ModelResponse,
    OpenAIChat,
    OpenAIResponses,
    Price,
    Provider,
    ProviderError,
    ProviderErrorKind,
    PydanticAIModel,
    ReasoningPart,
    Role,
    ScriptedModel,
    StartPart,
    StopPart,
    StopReason,
    StreamingProvider,
    StreamPart,
    TextBlock,
    TextPart,
    ToolCall,
    Usage,
    UsagePart,
    call,
    default_model,
    say,
)


class Parrot:
    """Repeats the last message."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if not request.messages:
            raise ProviderError("invalid_request", "there is nothing to repeat")
        return ModelResponse(model=request.model, text=request.messages[-1].text, stop_reason="EndTurn")


class Clerk:
    """Looks into the stock, part by part, and answers with what it found."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield StartPart(model=request.model)
        yield ReasoningPart("Is it in stock?")
        if any(message.role is Role.TOOL for message in request.messages):
            yield TextPart("Here is what I found.")
            yield StopPart(StopReason.END_TURN)
        else:
            yield CallStartPart(index=0, id="call-1", name="stock")
            yield CallArgumentsPart(index=0, text='{"item": "grinder"}')
            yield CallEndPart(index=0)
            yield UsagePart(Usage(prompt_tokens=12, completion_tokens=4, total_tokens=16))
            yield StopPart("ToolUse")


def retry_may_help(error: ProviderError) -> bool:
    return error.kind is ProviderErrorKind.OVERLOADED or error.kind.transient


def conversation(question: str) -> list[Message]:
    """A conversation for a test of a model."""
    asked = ToolCall(id="1-1", name="stock", arguments={"item": "grinder"})
    return [
        Message(id="m1", role="user", content=[TextBlock(text=question)]),
        Message(id="m2", role="assistant", tool_calls=[asked]),
        Message(id="m3", role="tool", tool_call_id="1-1", content=[TextBlock(text="3")]),
    ]


PARROT: Provider = Parrot()
CLERK: StreamingProvider = Clerk()
SCRIPT = ScriptedModel([call("stock", item="grinder"), say('{"summary": "There are {result} left."}')])

MODELS: dict[str, str | Provider | StreamingProvider] = {
    "default": default_model(offline=SCRIPT),
    "parrot": PARROT,
    "clerk": CLERK,
    "opus": "anthropic/claude-opus-4-5",
}
PRICES = {
    "default": Price(input=3.0, output=15.0),
    "parrot": Price(input=0.0, output=0.0),
    "opus": Price(input=5.0, output=25.0, cached_input=0.5, cache_write=6.25),
}
"""In dollars per million tokens. The clerk has a cost budget, so the models that it may use need a price."""


def built_in() -> dict[str, StreamingProvider]:
    """Providers with keys of our own, instead of those of the environment."""
    key = os.environ.get("SHOP_MODEL_KEY")
    return {
        "chat": OpenAIChat(api_key=key),
        "responses": OpenAIResponses(api_key=key),
        "claude": AnthropicMessages(api_key=key),
        "azure-chat": AzureOpenAIChat(api_key=key, endpoint="https://shop.example"),
        "azure-responses": AzureOpenAIResponses(api_key=key, endpoint="https://shop.example"),
        "any": PydanticAIModel("openai:gpt-5-mini"),
    }
